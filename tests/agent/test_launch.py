"""A Launch outlives the agent that made it, and is read by later ones."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from gosched.agent.supervisor import records
from gosched.agent.supervisor.launch import Account, HostBind, Launch, launch_of


def test_a_launch_that_was_stored_is_the_same_when_it_is_read() -> None:
    launch = Launch(
        command=("crun", "run"),
        env={"A": "b"},
        cwd="/work",
        cgroup="/sys/fs/cgroup/x",
        account=Account(uid=7, gid=8, groups=(8, 9), name="alice", home="/home/alice"),
        rlimits={"nofile": (10, 20)},
        exec=("crun", "exec"),
        cleanup=(("crun", "delete"),),
        binds=(
            HostBind(what="volume", host="/d", at="/b/0", allowed=("/d",), account=Account(uid=7, gid=8, groups=(8,))),
            HostBind(what="image", host="/i", at="/b/1", allowed=("/",), account=None),
        ),
    )
    assert launch_of(json.loads(json.dumps({**asdict(launch), "of_a_later_agent": 1}))) == launch


def test_a_launch_of_an_older_agent_lacks_what_that_did_not_know() -> None:
    old = {"command": ["sleep", "5"], "env": {}, "cwd": "/", "boot_id": "b", "log_max_bytes": 1, "log_files": 1}
    assert launch_of(old) == Launch(command=("sleep", "5"), env={}, cwd="/", boot_id="b", log_max_bytes=1, log_files=1)


def test_a_supervisor_reads_what_it_knows_of_a_later_agents_orders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / records.STOP).write_text(json.dumps({"grace_ms": 5, "reason": "CANCELLED", "politely": True}))
    assert records.read_stop() == records.StopOrder(grace_ms=5, reason="CANCELLED")
