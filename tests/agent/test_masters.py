"""The session: masters come, go, change and refuse."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest

from gosched.agent.orders import MAX_EPOCH_JUMP
from gosched.agent.session import Session
from gosched.core.reasons import RefusalReason
from gosched.wire.v1 import worker_pb2
from tests.agent.conftest import LIMIT_S, NAMES, Agent, FakeMaster, lives, number_in, shell, wait_for

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
    assert dict(me.labels).items() >= {"gpu": "true", "zone": "us-east-1a", "gosched.io/node": me.node_id}.items()
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
    time.sleep(0.5)  # an outage, long enough for several tries; not a wait for something to happen
    master.serve()
    assert master.await_end("j1/main/0.1") == ("SUCCEEDED", 0, "")
    assert len(master.registrations) == registered  # a lease that still holds needs no new registration


@pytest.fixture
def beats_seldom(tmp_path: Path, master: FakeMaster, second: FakeMaster) -> str:
    """The flag of an agent that says nothing by itself for longer than a test waits."""
    master.heartbeat_ms = second.heartbeat_ms = 10 * int(LIMIT_S) * 1000
    master.lease_ms = second.lease_ms = 2 * master.heartbeat_ms
    (tmp_path / "agent.yaml").write_text("heartbeat: 10m\n")
    return f"--config={tmp_path}/agent.yaml"


def test_the_next_master_is_told_at_once_when_one_dies(
    master: FakeMaster, second: FakeMaster, make_agent: MakeAgent, beats_seldom: str
) -> None:
    agent = make_agent(f"{master.address},{second.address}", beats_seldom)
    agent.launch()
    wait_for(lambda: master.heartbeats or second.heartbeats)
    first, other = (master, second) if master.heartbeats else (second, master)
    agent.identity = first.registrations[-1]
    first.vanish()
    agent.run(shell("j1/main/0.1", "exit 0"))
    other.await_end("j1/main/0.1")


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


def test_an_epoch_that_no_leader_can_have_is_refused_and_the_masters_are_asked(
    master: FakeMaster, make_agent: MakeAgent, beats_seldom: str
) -> None:
    agent = make_agent(master, beats_seldom).start(master)
    me, beats = agent.identity, len(master.heartbeats)
    freeze = worker_pb2.FreezeTasksRequest(epoch=1 << 62, node_id=me.node_id, incarnation=me.incarnation)
    with pytest.raises(grpc.RpcError) as refused:
        agent.call("FreezeTasks", freeze)
    assert "heard of epoch 1 last" in refused.value.details()
    wait_for(lambda: len(master.heartbeats) > beats, why="it asks at once")
    master.epoch = 1 + MAX_EPOCH_JUMP
    agent.run(shell("j1/main/0.1", "exit 0"), epoch=master.epoch)  # elections that it has not heard of yet
    agent.run(shell("j1/main/1.1", "exit 0"), epoch=master.epoch)
    master.await_end("j1/main/1.1")


@pytest.mark.parametrize("stop_first", [[], ["j0/main/0.1"]])
def test_an_agent_that_believed_in_an_epoch_that_never_was_recovers(
    master: FakeMaster, make_agent: MakeAgent, stop_first: list[str]
) -> None:
    agent = make_agent(master).start(master)
    agent.end(signal.SIGTERM)
    (agent.data_dir / "epoch").write_text(f"{1 << 62}\n")
    master.epoch = 3
    agent.launch()
    joined = len(master.registrations)
    wait_for(lambda: len(master.registrations) > joined + 1, why="it keeps asking")
    assert (agent.data_dir / "epoch").read_text() == f"{1 << 62}\n"  # this master may be one of the past
    master.stop_first = stop_first
    master.epoch_confirmed = True
    wait_for(lambda: (agent.data_dir / "epoch").read_text() == "3\n")
    master.stop_first = []
    wait_for(lambda: master.heartbeats and master.heartbeats[-1].incarnation == master.registrations[-1].incarnation)
    agent.identity = master.registrations[-1]
    agent.run(shell("j1/main/0.1", "exit 0"), epoch=3)
    master.await_end("j1/main/0.1")


def test_a_live_agent_that_believed_in_an_epoch_that_never_was_recovers(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    master.epoch = 9
    agent = make_agent(master).start(master)
    master.epoch, master.epoch_confirmed = 3, True
    agent.run(shell("j1/main/0.1", "exit 0"), epoch=9)  # a change: it reports at once
    wait_for(lambda: (agent.data_dir / "epoch").read_text() == "3\n")
    agent.run(shell("j1/main/1.1", "exit 0"), epoch=3)
    master.await_end("j1/main/1.1")


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
    agent.run(shell("j1/main/2.1", "exit 0"))  # a change: the next heartbeat comes at once
    wait_for(lambda: len(master.registrations) > 2 and len(master.heartbeats) > master.beats_before[-1])
    assert not lives(pid)
    assert master.await_end("j1/main/0.1")[0] == "KILLED"
    after = [task for beat in master.heartbeats[master.beats_before[1] :] for task in beat.tasks]
    assert {NAMES[task.state] for task in after if task.allocation_id == "j1/main/0.1"} == {"KILLED"}
    master.await_state("j1/main/1.1", "RUNNING")
    agent.stop("j1/main/1.1", 0)
    master.await_end("j1/main/1.1")


def test_an_agent_that_waits_for_leftovers_to_end_does_everything_else_meanwhile() -> None:
    async def story() -> None:
        session, has_ended = object.__new__(Session), asyncio.Event()
        session._changed = asyncio.Event()
        session._changed.set()  # something to tell does not keep it from waiting
        session._tasks = SimpleNamespace(live=lambda ids: [] if has_ended.is_set() else ids)
        asyncio.get_running_loop().call_later(0.01, has_ended.set)
        await session._wait_until_ended(["j1/main/0.1"])
        assert has_ended.is_set()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("code", "why"),
    [
        pytest.param("", "node id n-1 is in use by another agent at 10.0.0.7:9100", id="of an older master, in words"),
        pytest.param(RefusalReason.NODE_ID_IN_USE, "node id n-1 has another agent at 10.0.0.7:9100", id="a code"),
    ],
)
def test_a_node_that_is_not_let_in_ends_with_the_masters_reason(
    master: FakeMaster, make_agent: MakeAgent, code: str, why: str
) -> None:
    master.refusal, master.refusal_reason = (grpc.StatusCode.FAILED_PRECONDITION, why), code
    agent = make_agent(master)
    agent.launch()
    assert agent.exit_code() == 1
    assert agent.lines[-1] == f"gosched-agent: the masters refuse this node: {why}"
    named, other = [registration.node_id for registration in master.registrations]
    assert named == socket.gethostname()  # which another agent of the host may have
    assert other.startswith(f"{named}-")


def test_an_agent_whose_clock_the_masters_doubt_says_so_once_and_waits(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    why = "the clock that is in use here is 3600 s ahead of the masters': set the node's clock"
    master.refusal, master.refusal_reason = (grpc.StatusCode.FAILED_PRECONDITION, why), RefusalReason.CLOCK_SKEW
    agent = make_agent(master)
    agent.launch()
    wait_for(lambda: len(master.registrations) >= 4)
    assert len([line for line in agent.lines if why in line]) == 1
    master.refusal = None
    wait_for(lambda: master.heartbeats)
    assert abs(master.heartbeats[-1].clock_ms / 1000 - time.time()) < 30


def test_no_leader_yet_is_not_a_refusal(master: FakeMaster, make_agent: MakeAgent) -> None:
    master.refusal = (grpc.StatusCode.UNAVAILABLE, "no leader")
    agent = make_agent(master)
    agent.launch()
    wait_for(lambda: len(master.registrations) >= 3)
    master.refusal = None
    wait_for(lambda: master.heartbeats)


def test_a_change_is_told_at_once_and_not_at_the_next_heartbeat(
    master: FakeMaster, make_agent: MakeAgent, beats_seldom: str
) -> None:
    agent = make_agent(master, beats_seldom).start(master)
    agent.run(shell("j1/main/0.1", "exit 0"))
    master.await_end("j1/main/0.1")
