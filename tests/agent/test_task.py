"""A task as its agent sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gosched.agent.cgroups import files as cgroup_files
from gosched.agent.supervisor.launch import Launch
from gosched.agent.tasks.spool import Spool
from gosched.agent.tasks.task import Task
from gosched.core.orders import TaskOrder
from gosched.core.records.usage import NO_USAGE


def test_usage_that_may_not_be_read_keeps_no_heartbeat_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise cgroup_files.CgroupError(f"cannot read {path}: Permission denied")

    monkeypatch.setattr(cgroup_files, "counted", refuse)
    task = Task(order=TaskOrder(allocation_id="j/t/0.1", task_id="j/t/0", job_id="j"), spool=Spool(tmp_path))
    task.launch = Launch(command=("x",), env={}, cwd="/", cgroup=str(tmp_path / "cgroup"))
    task.look(0.0)
    assert task.report().usage == NO_USAGE
