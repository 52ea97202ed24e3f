"""What may happen to a task while it runs: it is frozen, loses the masters, or the nursery of the next ones dies."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import psutil
import pytest

from gosched.agent.supervisor import lease
from tests.agent.conftest import Agent, FakeMaster, shell, wait_for

MakeAgent = Callable[..., Agent]

ID = "j1/main/0.1"


def test_a_frozen_task_stands_still_over_a_restart_of_its_agent_and_goes_on_afterwards(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master).start(master)
    count = tmp_path / "count"
    agent.run(shell(ID, f"while :; do echo x >> {count}; sleep 0.01; done"))
    wait_for(lambda: count.exists() and count.stat().st_size > 10)
    master.await_state(ID, "RUNNING")
    agent.set_frozen(ID, True)
    wait_for(lambda: master.seen(ID).frozen, why="frozen")
    at_most = count.stat().st_size + len("x\n")  # it may have been stopped within a write, which still ends
    agent.end()
    agent.start(master)
    assert master.seen(ID).frozen
    time.sleep(0.2)
    assert count.stat().st_size <= at_most
    master.thaw = [ID]  # by heartbeat, as when the push was lost
    agent.run(shell("j2/main/0.1", "exit 0"))  # a change: the next heartbeat comes at once
    wait_for(lambda: not master.seen(ID).frozen, why="thawed")
    wait_for(lambda: count.stat().st_size > at_most)
    agent.stop(ID, 0)
    master.await_end(ID)


def test_a_frozen_task_that_is_stopped_gets_its_grace(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master).start(master)
    saved = tmp_path / "saved"
    agent.run(shell(ID, f"trap 'echo bye > {saved}; exit 3' TERM; echo ready; while :; do sleep 0.01; done"))
    wait_for(lambda: b"ready" in b"".join(c.data for c in agent.logs(ID, follow=False)))
    master.await_state(ID, "RUNNING")
    agent.set_frozen(ID, True)
    wait_for(lambda: master.seen(ID).frozen, why="frozen")
    agent.stop(ID, 20_000)
    assert master.await_end(ID) == ("KILLED", 3, "CANCELLED")
    assert saved.read_text() == "bye\n"


def test_who_must_not_run_alone_ends_with_the_lease_though_its_agent_is_dead(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    (tmp_path / "agent.yaml").write_text("heartbeat: 100ms\n")
    master.lease_ms = 60_000
    agent = make_agent(master, f"--config={tmp_path}/agent.yaml").start(master)
    alone, kept = shell(ID, "trap '' TERM; echo ready; while :; do sleep 0.01; done"), shell("j2/main/0.1", "sleep 600")
    alone.stop_alone, alone.stop_grace_ms = True, 10_000
    agent.run(alone, kept)
    wait_for(lambda: b"ready" in b"".join(c.data for c in agent.logs(ID, follow=False)))
    master.await_state("j2/main/0.1", "RUNNING")
    until_ms, _ = lease_of(agent)
    wait_for(lambda: lease_of(agent)[0] > until_ms, why="heartbeats renew the lease")
    master.lease_ms = 1000
    wait_for(lambda: lease_of(agent)[1] == 1000, why="a short lease, to wait for its end")
    agent.end()
    wait_for(agent.spool(ID).joinpath("exit.json").exists, why="it ends without an agent")
    agent.start(master)
    assert master.await_end(ID) == ("LOST", 137, "DISCONNECTED")
    assert master.await_state("j2/main/0.1", "RUNNING")
    agent.stop("j2/main/0.1", 0)
    master.await_end("j2/main/0.1")


def test_a_stop_with_a_long_grace_ends_with_the_lease_too(master: FakeMaster, make_agent: MakeAgent) -> None:
    master.lease_ms = 60_000
    agent = make_agent(master).start(master)
    alone = shell(ID, "trap '' TERM USR1; echo ready; while :; do sleep 0.01; done")
    alone.stop_alone = True
    agent.run(alone)
    wait_for(lambda: b"ready" in b"".join(c.data for c in agent.logs(ID, follow=False)))
    agent.stop(ID, 600_000)
    agent.end()
    (agent.data_dir / "lease").write_text("0 1000\n")
    wait_for(agent.spool(ID).joinpath("exit.json").exists, why="it ends without an agent")
    agent.start(master)
    assert master.await_end(ID) == ("KILLED", 137, "CANCELLED")


def test_a_task_that_stood_still_beyond_its_lease_is_killed_without_a_grace(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    master.lease_ms = 60_000
    agent = make_agent(master).start(master)
    alone = shell(ID, f"trap 'touch {tmp_path}/asked' TERM; echo ready; while :; do sleep 0.01; done")
    alone.stop_alone, alone.stop_grace_ms = True, 60_000
    agent.run(alone)
    wait_for(lambda: b"ready" in b"".join(c.data for c in agent.logs(ID, follow=False)))
    supervisor = psutil.Process(json.loads((agent.spool(ID) / "supervisor.json").read_text())["pid"])
    agent.end()
    stopped = [supervisor, *supervisor.children(recursive=True)]
    for process in stopped:
        with contextlib.suppress(psutil.NoSuchProcess):  # its `sleep` ends at any time
            process.suspend()
    (agent.data_dir / "lease").write_text("0 10000\n")
    for process in reversed(stopped):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
    wait_for(agent.spool(ID).joinpath("exit.json").exists)
    assert not (tmp_path / "asked").exists()
    agent.start(master)
    assert master.await_end(ID) == ("LOST", 137, "DISCONNECTED")


def test_an_order_that_comes_when_the_lease_is_over_starts_nothing_until_the_masters_repeat_it(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    master.lease_ms = 1
    agent = make_agent(master).start(master)
    task = shell(ID, f"touch {tmp_path}/ran")
    with pytest.raises(grpc.RpcError, match="its lease is over"):
        agent.run(task)  # it was on the way while the node stood still, say
    assert not agent.spool(ID).exists()
    with pytest.raises(grpc.RpcError, match="its lease is over"):
        agent.run(shell("j2/main/0.1", "exit 0"))
    master.lease_ms, master.start = 60_000, [task]
    agent.end()
    agent.start(master)
    assert master.await_end(ID) == ("SUCCEEDED", 0, "")


def test_a_supervisor_that_begins_when_the_lease_is_over_starts_nothing(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    master.lease_ms = 60_000
    agent = make_agent(master).start(master)
    master.vanish()  # it would renew the lease, as its last answer may that is still on the way
    wait_for(lambda: any("does not answer" in line for line in agent.lines))
    (agent.data_dir / "lease").write_text("0 10000\n")
    alone = shell(ID, f"touch {tmp_path}/ran")
    alone.stop_alone = True
    agent.run(alone)
    # Only now: a master that is back renews the lease, maybe before the supervisor reads it.
    wait_for(lambda: any('"task ended"' in line for line in agent.lines))
    master.serve()
    assert master.await_end(ID) == ("LOST", None, "DISCONNECTED")
    assert not (tmp_path / "ran").exists()


def lease_of(agent: Agent) -> tuple[int, int]:
    until_ms, length_ms = (agent.data_dir / "lease").read_text().split()
    return int(until_ms), int(length_ms)


def test_the_lease_ends_a_task_early_enough_for_its_grace_and_the_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = 0
    monkeypatch.setattr(lease, "boot_ms", lambda: now_ms)
    (tmp_path / "lease").write_text("10000 10000\n")

    def stop_at(grace_ms: int) -> int:
        stop = lease.Lease(str(tmp_path / "lease"), grace_ms).expired()
        assert stop is not None
        return stop.grace_ms

    def first_stop(grace_ms: int) -> tuple[int, int]:
        nonlocal now_ms
        looked = lease.Lease(str(tmp_path / "lease"), grace_ms)
        for now_ms in range(0, 10_000, 100):
            if (stop := looked.expired()) is not None:
                return now_ms, stop.grace_ms
        raise AssertionError("it outlives its lease")

    assert first_stop(60_000) == (7000, 2000)  # a fifth for SIGTERM, a tenth for the kill
    assert first_stop(500) == (8500, 500)
    now_ms = 8600  # it could not look in time: what is left of the grace is left
    assert stop_at(500) == 400
    now_ms = 20_000
    assert stop_at(60_000) == 0
    (tmp_path / "lease").unlink()
    assert first_stop(500) == (0, 0)


def test_a_nursery_that_was_killed_is_replaced_and_its_tasks_go_on(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell(ID, f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; exit 7"))
    master.await_state(ID, "RUNNING")  # until it has begun, a new supervisor holds its nursery's socket open
    nursery = nursery_of(agent)
    nursery.kill()
    wait_for(lambda: nursery.status() == psutil.STATUS_ZOMBIE, why="what it is asked while it dies is lost")
    agent.run(shell("j2/main/0.1", "exit 8"))
    assert master.await_end("j2/main/0.1") == ("FAILED", 8, "NONZERO_EXIT")
    (tmp_path / "go").touch()
    assert master.await_end(ID) == ("FAILED", 7, "NONZERO_EXIT")


def nursery_of(agent: Agent) -> psutil.Process:
    assert agent.process is not None
    children = psutil.Process(agent.process.pid).children()
    return next(child for child in children if any("supervisor.nursery" in word for word in child.cmdline()))
