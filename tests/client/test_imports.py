"""What the SDK imports: nothing of a server, and nothing slow before it is used."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SERVER = (
    "master",
    "agent",
    "replication",
    "scheduling",
    "state_machine",
    "sim",
    "observe",
    "plugins",
    "archive",
    "cli",
)
SLOW = {"pydantic", "yaml", "numpy", "rich", "click", "cryptography", "cloudpickle", "concurrent.futures.process"}


def imported(statement: str) -> set[str]:
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("name", ["GoSchedClient", "AsyncGoSchedClient", "GoSchedExecutor", "Job, JobFailed, TlsFiles"])
def test_a_name_of_the_sdk_brings_no_server_and_nothing_slow(name: str) -> None:
    modules = imported(f"from gosched import {name}")
    assert not {module for module in modules if module.startswith("gosched.") and module.split(".")[1] in SERVER}
    assert not modules & SLOW


def test_grpc_comes_with_the_first_client_and_pydantic_with_the_first_job_that_is_read() -> None:
    assert "grpc" not in imported("from gosched import GoSchedClient")
    client = "from gosched import GoSchedClient\nGoSchedClient('127.0.0.1:1')"
    assert "grpc" in imported(client)
    assert not imported(client) & SLOW


def test_gosched_alone_brings_no_client() -> None:
    assert not {module for module in imported("import gosched") if module.startswith("gosched.client")}
