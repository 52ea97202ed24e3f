"""The process that forks the supervisors, as its agent sees it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gosched.agent.supervisor.launch import Launch
from gosched.agent.tasks import nursery
from gosched.agent.tasks.spool import Spool
from gosched.core.records.task import TaskState
from tests.agent.conftest import wait_for

# It gets no CPU between the fork and its look at the supervisor.
_SLOW = """
import os, sys, time
sys.path.insert(0, sys.argv.pop(1))
from gosched.agent.supervisor import nursery
look = nursery.start_time
def start_time(pid):
    while os.path.exists(f"/proc/{pid}"):
        time.sleep(0.001)
    return look(pid)
nursery.start_time = start_time
nursery.main()
"""


@pytest.mark.parametrize("program", [nursery._PROGRAM, _SLOW], ids=["usual", "slow"])
def test_a_task_that_ended_before_anyone_looked_has_run(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nursery, "_PROGRAM", program)
    spool = Spool(tmp_path / "task")
    spool.path.mkdir()
    ran = tmp_path / "ran"
    launch = Launch(
        command=("touch", str(ran)), env={"PATH": os.defpath}, cwd=str(tmp_path), log_max_bytes=1000, log_files=1
    )
    forks = nursery.Nursery(lambda pid: None, tmp_path)
    try:
        supervisor = spool.start(launch, forks)
    finally:
        forks.close()
    assert supervisor is None or program != _SLOW
    wait_for(lambda: not spool.is_supervised())
    assert ran.exists()
    ending = spool.ending("j/w/0.1")
    assert ending is not None
    assert ending.state is TaskState.SUCCEEDED
