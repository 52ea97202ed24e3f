"""Hostile tasks and a hostile clock, where all limits are in force; docs/operations/hostile-tasks.md has the others."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.conftest import NAMES
from tests.vm.conftest import wait_for
from tests.vm.node import Node, await_gone, marked, shell_order

DAY_S = 86_400
SHARED = Path("/dev/shm/hostile")


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    made = Node("hostile", heartbeat="500ms")
    made.master.lease_ms = 120_000
    yield made.start()
    made.close()


@pytest.fixture(autouse=True)
def nothing_is_left(node: Node) -> Iterator[None]:
    yield
    wait_for(lambda: not node.cgroups(), why=f"cgroups left over: {node.cgroups()}")


def test_a_clock_that_jumps_by_years_harms_no_task_and_no_lease(node: Node) -> None:
    alone = shell_order("alone/0.1", "trap 'exit 5' TERM; while :; do sleep 0.2; done")
    alone.stop_alone, alone.stop_grace_ms = True, 5000
    node.run_all([alone, shell_order("kept/0.1", "sleep 4; exit 4")])
    for task in ("alone/0.1", "kept/0.1"):
        node.master.await_state(task, "RUNNING")
    true_start = time.time() - time.monotonic()
    try:
        for jump_s in (900 * DAY_S, -900 * DAY_S):
            time.clock_settime(time.CLOCK_REALTIME, true_start + time.monotonic() + jump_s)
            beats = len(node.master.heartbeats)
            wait_for(lambda beats=beats: len(node.master.heartbeats) > beats + 2, why=str(node.agent.lines[-3:]))
            assert NAMES[node.master.seen("alone/0.1").state] == "RUNNING"
        node.run("now/0.1", "exit 6")
        assert node.outcome("now/0.1") == ("FAILED", 6, "NONZERO_EXIT")
    finally:
        time.clock_settime(time.CLOCK_REALTIME, true_start + time.monotonic())
    assert node.outcome("kept/0.1") == ("FAILED", 4, "NONZERO_EXIT")
    end = node.end_of("kept/0.1")
    assert 4_000 <= end.ended_at_ms - end.started_at_ms < DAY_S * 1000
    assert NAMES[node.master.seen("alone/0.1").state] == "RUNNING"
    node.agent.stop("alone/0.1", 10_000)
    assert node.outcome("alone/0.1") == ("KILLED", 5, "CANCELLED")


def test_a_fork_bomb_that_flees_into_sessions_is_gone_though_its_supervisor_was_killed(node: Node) -> None:
    flee = 'trap \'\' TERM; : mark-fleeing; (setsid sh -c "$B" &); (setsid sh -c "$B" &); sleep 0.05'
    order = shell_order("fleeing/0.1", '(setsid sh -c "$B" &); sleep 1000', pids=30)
    order.env["B"] = flee
    node.agent.run(order)
    node.master.await_state("fleeing/0.1", "RUNNING")
    wait_for(lambda: len(marked("mark-fleeing")) > 10)
    record = json.loads((node.agent.spool("fleeing/0.1") / "supervisor.json").read_text())
    os.kill(record["pid"], signal.SIGKILL)
    end = node.end_of("fleeing/0.1")
    assert (NAMES[end.state], end.reason) == ("LOST", "SUPERVISOR_LOST")
    assert "could not" not in end.detail
    await_gone("mark-fleeing")


def test_what_a_task_writes_to_shared_memory_counts_as_its_own(node: Node) -> None:
    node.run("shared/0.1", f"dd if=/dev/zero of={SHARED} bs=1M count=200; sleep 1000", memory_mib=32)
    try:
        assert node.outcome("shared/0.1") == ("FAILED", 137, "OOM_KILLED")
    finally:
        SHARED.unlink()  # outside of its directory: it stays, as any file there does


def test_no_task_of_another_user_changes_its_limits_or_leaves_its_cgroup(node: Node) -> None:
    path = node.cgroup("escape/0.1")
    tries = [f"echo max > {path}/{name}" for name in ("memory.max", "pids.max", "cpu.max", "memory.oom.group")]
    tries += [f"echo $$ > {above}/cgroup.procs" for above in (path.parents[2], path.parents[1] / "agent")]
    tries += [f"mkdir {path}/inner", f"echo 1 > {path.parent}/cgroup.kill", "echo -1000 > /proc/self/oom_score_adj"]
    line = "; ".join(f"({attempt}) 2>/dev/null && echo 'LEAK: {attempt}'" for attempt in tries)
    node.run("escape/0.1", f"{line}; echo over")
    assert node.outcome("escape/0.1") == ("SUCCEEDED", 0, "")
    assert node.agent.stdout("escape/0.1") == b"over\n"
