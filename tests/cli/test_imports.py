"""Which modules a command does not import: each of these takes longer than all of the command's own work."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.client.fake_cluster import FakeMaster

SERVERS = (
    "fastapi",
    "gosched.master",
    "gosched.replication",
    "gosched.scheduling",
    "numpy",
    "prometheus_client",
    "uvicorn",
)
#: Of the standard library, and what is for mistakes alone.
SELDOM = ("decimal", "difflib", "shutil", "gosched.wire.probe")
NEVER = (*SERVERS, "cryptography", "http.client", "jinja2", "pydantic", "rich", "structlog", "urllib.request")
BARE = (*NEVER, "google.protobuf", "grpc", "yaml")
#: Records, and JSON of records, that `status` has no use for.
OF_JOBS = ("gosched.api.details", "gosched.api.explanation", "gosched.api.history", "gosched.core.spec.job_spec")


def loaded(script: str, names: tuple[str, ...]) -> list[str]:
    """Return which of these modules a fresh interpreter has once it has run the script."""
    ask = f"{script}\nimport sys; print([name for name in {names!r} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=60, check=True)
    found: list[str] = eval(done.stderr.splitlines()[-1])  # noqa: S307 - printed by the line above
    return found


def command(*words: str) -> str:
    return f"from gosched.cli.main import run_cli\nassert run_cli({list(words)!r}) == 0"


@pytest.fixture
def endpoints(master: FakeMaster) -> str:
    return master.address


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("version", "--client"),
        ("completion", "bash"),
        ("config", "get-contexts"),
        ("yarn", "--help"),
        ("import", "--help"),
    ],
)
def test_a_command_that_asks_no_master_imports_nothing_heavy(words: tuple[str, ...]) -> None:
    assert loaded(command(*words), BARE) == []


@pytest.mark.parametrize("words", [("status",), ("version",)])
def test_status_imports_neither_servers_nor_records_of_jobs(words: tuple[str, ...], endpoints: str) -> None:
    assert loaded(command("--endpoints", endpoints, *words), (*NEVER, *OF_JOBS, *SELDOM, "yaml")) == []


def test_job_list_imports_neither_servers_nor_what_reads_files(endpoints: str) -> None:
    assert loaded(command("--endpoints", endpoints, "job", "list"), (*NEVER, "yaml")) == []


@pytest.mark.parametrize("words", [("FILE", "--count", "2", "--set", "retry.max=0"), ("--cpu", "1", "--", "true")])
def test_submit_imports_neither_the_reader_of_job_files_nor_records_of_jobs(words, endpoints: str, tmp_path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: a\nrun: echo hi\n")
    given = [str(file) if word == "FILE" else word for word in words]
    assert loaded(command("--endpoints", endpoints, "submit", *given), (*NEVER, *OF_JOBS, *SELDOM, "yaml")) == []


def test_the_client_is_imported_without_servers_and_without_grpc() -> None:
    assert loaded("import gosched; gosched.GoSchedClient", (*NEVER, "grpc", "yaml")) == []


def test_the_check_sees_what_is_imported() -> None:
    assert loaded("import rich", NEVER) == ["rich"]
