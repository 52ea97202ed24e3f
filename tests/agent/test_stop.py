"""Stopping: signal, grace, then the whole tree, and nothing of a task survives it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gosched.wire.v1 import worker_pb2
from tests.agent.conftest import NAMES, Agent, FakeMaster, lives, number_in, shell, wait_for

MakeAgent = Callable[..., Agent]

# Leaves the session, the process group and its parent, as daemons do.
DAEMON = "setsid sh -c 'sh -c \"echo \\$\\$ > {0}.tmp; mv {0}.tmp {0}; exec sleep 300\" &' &"


def test_a_stop_is_a_sigterm_that_the_task_may_handle(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"))
    wait_for(lambda: any(c.data for c in agent.logs("j1/main/0.1", follow=False)))
    agent.stop("j1/main/0.1", 60_000)
    assert master.await_end("j1/main/0.1") == ("KILLED", 0, "CANCELLED")
    assert agent.stdout("j1/main/0.1") == b"ready\nsaved\n"


def test_a_task_that_ignores_sigterm_is_killed_after_the_grace(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", f"trap '' TERM; sleep 300 & echo $! > {tmp_path}/pid; wait; sleep 300"))
    child = number_in(tmp_path / "pid")
    grace_s, began = 0.7, time.monotonic()
    agent.stop("j1/main/0.1", int(grace_s * 1000))
    assert lives(child) or time.monotonic() > began + grace_s
    assert master.await_end("j1/main/0.1") == ("KILLED", 137, "CANCELLED")
    assert time.monotonic() > began + grace_s
    assert "STOPPING" in [NAMES[task.state] for task in master.told("j1/main/0.1")]
    assert not lives(child)


def test_a_repeated_stop_does_not_prolong_the_grace_and_a_shorter_one_ends_it(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", "trap '' TERM; echo ready; while :; do sleep 0.05; done"))
    wait_for(lambda: any(c.data for c in agent.logs("j1/main/0.1", follow=False)))
    agent.stop("j1/main/0.1", 600_000)
    agent.stop("j1/main/0.1", 900_000)
    agent.stop("j1/main/0.1", 0, reason="NODE_LOST")
    assert master.await_end("j1/main/0.1") == ("KILLED", 137, "NODE_LOST")


def test_a_daemonised_descendant_dies_with_its_task(master: FakeMaster, make_agent: MakeAgent, tmp_path: Path) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", DAEMON.format(tmp_path / "pid") + " sleep 300"))
    daemon = number_in(tmp_path / "pid")
    agent.stop("j1/main/0.1", 60_000)
    assert master.await_end("j1/main/0.1") == ("KILLED", 143, "CANCELLED")
    assert not lives(daemon)


def test_leftovers_are_dead_before_a_normal_exit_is_reported(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master).start(master)
    line = DAEMON.format(tmp_path / "pid") + f" while [ ! -e {tmp_path}/pid ]; do sleep 0.01; done; exit 4"
    agent.run(shell("j1/main/0.1", line))
    assert master.await_end("j1/main/0.1") == ("FAILED", 4, "NONZERO_EXIT")
    assert not lives(number_in(tmp_path / "pid"))


def test_a_stop_by_heartbeat_works_like_a_pushed_one(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", "sleep 300"))
    master.await_state("j1/main/0.1", "RUNNING")
    master.stop = [worker_pb2.StopOrder(allocation_id="j1/main/0.1", grace_ms=1000, reason="PREEMPTED")]
    agent.run(shell("j1/main/1.1", "exit 0"))  # a change: the next heartbeat comes at once
    assert master.await_end("j1/main/0.1") == ("KILLED", 143, "PREEMPTED")


def test_a_stop_that_comes_before_its_start_prevents_it(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master).start(master)
    agent.stop("j1/main/0.1", 1000)
    assert master.await_end("j1/main/0.1") == ("KILLED", None, "CANCELLED")
    agent.run(shell("j1/main/0.1", f"touch {tmp_path}/ran"), shell("j1/main/1.1", "exit 0"))
    master.await_end("j1/main/1.1")
    assert not (tmp_path / "ran").exists()


def test_a_stop_right_after_the_start_is_not_lost(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    ids = [f"j1/main/{i}.1" for i in range(10)]
    for allocation_id in ids:
        agent.run(shell(allocation_id, "sleep 300"))
        agent.stop(allocation_id, 5_000)
    assert {master.await_end(i)[0] for i in ids} == {"KILLED"}
