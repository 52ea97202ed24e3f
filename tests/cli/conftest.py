from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gosched.cli.main import run_cli
from tests.client.fake_cluster import FakeMaster


@dataclass
class Result:
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch, tmp_path) -> None:
    for name in ("GOSCHED_ENDPOINTS", "GOSCHED_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def master() -> Iterator[FakeMaster]:
    fake = FakeMaster()
    yield fake
    fake.stop()


@pytest.fixture
def ctl(capfdbinary, master) -> Callable[..., Result]:
    """Runs goschedctl in this process against the fake master."""

    def run(*args: str) -> Result:
        code = run_cli(["--endpoints", master.address, *args])
        out, err = capfdbinary.readouterr()
        return Result(code, out.decode(), err.decode())

    return run


@pytest.fixture
def job_file(tmp_path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text("name: a\nrun: echo hi\ncount: 2\n")
    return path
