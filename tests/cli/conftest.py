from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gosched.cli.main import run_cli
from tests.client.fake_cluster import FakeMaster
from tests.master.harness import Front, one_master


@dataclass
class Result:
    code: int
    out: str
    err: str


Ctl = Callable[..., Awaitable[Result]]


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


@pytest.fixture
def story(capfdbinary) -> Callable[[Callable[[Front, Ctl], Awaitable[None]]], None]:
    """Runs a story with one master and a goschedctl that talks to it."""

    def tell(told: Callable[[Front, Ctl], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with one_master() as master:

                async def ctl(*args: str) -> Result:
                    capfdbinary.readouterr()
                    given = ["--endpoints", master.server.record.grpc_address, *args]
                    code = await asyncio.to_thread(run_cli, given)
                    out, err = capfdbinary.readouterr()
                    return Result(code, out.decode(), err.decode())

                await told(master, ctl)

        with capture_logs():  # the master's lines would go to the same stdout
            asyncio.run(whole())

    return tell
