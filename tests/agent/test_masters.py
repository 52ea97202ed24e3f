"""The session: masters come, go, change and refuse."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from tests.agent.conftest import Agent, FakeMaster, lives, number_in, shell, wait_for

MakeAgent = Callable[..., Agent]


@pytest.fixture
def second() -> Iterator[FakeMaster]:
    fake = FakeMaster()
    fake.serve()
    yield fake
    fake.vanish()


def test_registration_says_who_and_what_the_node_is(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master, "--labels=gpu=true,zone=us-east-1a", "--gpu-model=h100", "--resources=cpu=8,gpu=2")
    me = agent.start(master).identity
    assert dict(me.labels) == {"gpu": "true", "zone": "us-east-1a"}
    assert (me.gpu_model, me.capacity.cpu_millis, me.capacity.gpu_millis) == ("h100", 8000, 2000)
    assert me.capacity.memory_bytes > 0
    assert abs(me.clock_ms / 1000 - time.time()) < 30
    assert me.address.startswith("127.0.0.1:")


def test_a_task_goes_on_without_masters_and_its_end_is_told_when_one_is_back(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", f"echo $$ > {tmp_path}/pid; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"))
    pid = number_in(tmp_path / "pid")
    master.vanish()
    (tmp_path / "go").touch()
    wait_for(lambda: not lives(pid))
    registered = len(master.registrations)
    time.sleep(1.0)  # an outage, long enough for several tries; not a wait for something to happen
    master.serve()
    back = time.monotonic()
    assert master.await_end("j1/main/0.1", limit_s=5) == ("SUCCEEDED", 0, "")
    assert time.monotonic() - back < 2.5
    assert len(master.registrations) == registered  # a lease that still holds needs no new registration


def test_the_next_master_is_told_within_a_second_when_one_dies(
    master: FakeMaster, second: FakeMaster, make_agent: MakeAgent
) -> None:
    agent = make_agent(f"{master.address},{second.address}")
    agent.launch()
    wait_for(lambda: master.heartbeats or second.heartbeats)
    first, other = (master, second) if master.heartbeats else (second, master)
    agent.identity = first.registrations[-1]
    first.vanish()
    agent.run(shell("j1/main/0.1", "exit 0"))
    began = time.monotonic()
    other.await_end("j1/main/0.1")
    assert time.monotonic() - began < 1.0


def test_a_master_of_an_older_epoch_is_not_obeyed(
    master: FakeMaster, second: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master)
    master.epoch = 5
    agent.start(master)
    agent.end(signal.SIGTERM)
    second.epoch = 4
    second.start = [shell("j1/main/0.1", f"touch {tmp_path}/ran")]
    stale = make_agent(f"{second.address}")
    stale.launch()
    wait_for(lambda: len(second.registrations) >= 2, why="it keeps asking")
    assert second.heartbeats == []
    assert not (tmp_path / "ran").exists()
    second.epoch = 6
    wait_for(lambda: (tmp_path / "ran").exists())
    wait_for(lambda: (stale.data_dir / "epoch").read_text() == "6\n")
    second.await_end("j1/main/0.1")


def test_leftovers_are_killed_before_the_node_counts_as_registered(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.05; done"))
    agent.run(shell("j1/main/1.1", "sleep 300"))
    pid = number_in(tmp_path / "pid")
    master.await_state("j1/main/1.1", "RUNNING")
    master.stop_first = ["j1/main/0.1"]
    master.register_again = True
    beats = len(master.heartbeats)
    agent.run(shell("j1/main/2.1", "exit 0"))  # a change: the next heartbeat comes at once
    wait_for(lambda: len(master.registrations) >= 3)
    assert not lives(pid)
    wait_for(lambda: len(master.heartbeats) > beats + 1)
    assert master.await_end("j1/main/0.1")[0] == "KILLED"
    master.await_state("j1/main/1.1", "RUNNING")
    agent.stop("j1/main/1.1", 0)
    master.await_end("j1/main/1.1")


@pytest.mark.parametrize(
    "why", ["node id n-1 is in use by another agent at 10.0.0.7:9100", "the clock of this node is 3600 s off"]
)
def test_a_node_that_is_not_let_in_ends_with_the_masters_reason(
    master: FakeMaster, make_agent: MakeAgent, why: str
) -> None:
    master.refusal = (grpc.StatusCode.FAILED_PRECONDITION, why)
    agent = make_agent(master)
    agent.launch()
    assert agent.exit_code() == 1
    assert [line for line in agent.lines if why in line] == [f"gosched-agent: the masters refuse this node: {why}"]
    assert len(master.registrations) == 1


def test_no_leader_yet_is_not_a_refusal(master: FakeMaster, make_agent: MakeAgent) -> None:
    master.refusal = (grpc.StatusCode.UNAVAILABLE, "no leader")
    agent = make_agent(master)
    agent.launch()
    wait_for(lambda: len(master.registrations) >= 3)
    master.refusal = None
    wait_for(lambda: master.heartbeats)


def test_a_change_is_told_at_once_and_not_at_the_next_heartbeat(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    began = time.monotonic()
    agent.run(shell("j1/main/0.1", "exit 0"))
    master.await_end("j1/main/0.1")
    assert time.monotonic() - began < 2.0  # the heartbeat period is 5 s
