"""A node belongs to one cluster: the masters of another one are not obeyed, and nothing is stopped for them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from gosched.wire.v1 import worker_pb2
from tests.agent.conftest import Agent, FakeMaster, lives, number_in, shell, wait_for

MakeAgent = Callable[..., Agent]

ID = "j1/main/0.1"


@pytest.fixture
def other() -> Iterator[FakeMaster]:
    """Of another cluster, further in its epochs; it would stop what it does not know."""
    fake = FakeMaster(epoch=99)
    fake.cluster_id = "theirs"
    fake.stop_first = [ID]
    fake.serve()
    yield fake
    fake.vanish()


@pytest.fixture
def ours(master: FakeMaster) -> FakeMaster:
    master.cluster_id = "ours"
    return master


def running(agent: Agent, directory: Path) -> int:
    """The pid of a task that runs until it is stopped."""
    agent.run(shell(ID, f"echo $$ > {directory}/pid; sleep 600"), cluster_id="ours")
    return number_in(directory / "pid")


@pytest.mark.parametrize("has_id", [True, False])
def test_an_agent_that_is_pointed_at_another_cluster_stops_nothing_and_says_what_to_do(
    ours: FakeMaster, other: FakeMaster, make_agent: MakeAgent, tmp_path: Path, has_id: bool
) -> None:
    agent = make_agent(ours).start(ours)
    pid = running(agent, tmp_path)
    agent.end(signal.SIGTERM)
    if not has_id:
        other.cluster_id = ""  # of an older release, or not raised yet
    lost = make_agent(other)
    lost.launch()
    wait_for(lambda: len(other.registrations) >= 3, why="it goes on asking")
    assert lives(pid)
    assert not other.heartbeats
    assert (agent.data_dir / "epoch").read_text() == "1\n"
    (said,) = [line for line in lost.lines if "it goes on asking" in line]
    assert "belongs to ours: nothing is stopped; correct --master" in said
    lost.end(signal.SIGTERM)
    agent.start(ours)
    ours.await_state(ID, "RUNNING")
    agent.stop(ID, 0, cluster_id="ours")
    ours.await_end(ID)


def test_an_agent_whose_address_leads_to_another_cluster_meanwhile_stays_with_its_own(
    ours: FakeMaster, other: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    other.stop = [worker_pb2.StopOrder(allocation_id=ID)]
    (tmp_path / "agent.yaml").write_text("heartbeat: 100ms\n")
    agent = make_agent(f"{ours.address},{other.address}", f"--config={tmp_path}/agent.yaml")
    agent.data_dir.mkdir()
    (agent.data_dir / "cluster").write_text("ours\n")  # or it may ask the other one first
    agent.start(ours)
    pid = running(agent, tmp_path)
    ours.vanish()
    asked = len(other.heartbeats) + len(other.registrations)
    wait_for(lambda: len(other.heartbeats) + len(other.registrations) > asked + 2, why="it asks the other one")
    ours.serve()
    beats = len(ours.heartbeats)
    wait_for(lambda: len(ours.heartbeats) > beats, why="its own are back")
    assert lives(pid)
    agent.stop(ID, 0, cluster_id="ours")
    ours.await_end(ID)


def test_orders_of_another_cluster_are_refused(ours: FakeMaster, make_agent: MakeAgent, tmp_path: Path) -> None:
    agent = make_agent(ours).start(ours)
    pid = running(agent, tmp_path)
    for cluster_id in ("theirs", ""):
        with pytest.raises(grpc.RpcError) as raised:
            agent.stop(ID, 0, epoch=99, cluster_id=cluster_id)
        assert raised.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "belongs to cluster ours" in raised.value.details()
    assert lives(pid)
    agent.stop(ID, 0, cluster_id="ours")
    ours.await_end(ID)


def test_a_node_of_a_cluster_without_an_id_takes_the_one_that_it_gets_later(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    (tmp_path / "agent.yaml").write_text("heartbeat: 100ms\n")
    agent = make_agent(master, f"--config={tmp_path}/agent.yaml").start(master)
    assert not (agent.data_dir / "cluster").exists()
    master.cluster_id = "ours"
    wait_for((agent.data_dir / "cluster").exists)
    assert (agent.data_dir / "cluster").read_text() == "ours\n"
    agent.end(signal.SIGTERM)
    assert agent.start(master).identity.cluster_id == "ours"


def test_an_agent_goes_over_to_a_cluster_that_was_restored_from_its_own_and_tells_all_it_knows(
    ours: FakeMaster, other: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    """What runs goes on; what ended and was forgotten is reported again, and what the new one does not know is dropped,
    so that its id may come again."""
    ended, unknown = "j2/main/0.1", "j3/main/0.1"
    (tmp_path / "agent.yaml").write_text("heartbeat: 100ms\n")
    agent = make_agent(f"{ours.address},{other.address}", f"--config={tmp_path}/agent.yaml")
    agent.data_dir.mkdir()
    (agent.data_dir / "cluster").write_text("ours\n")
    agent.start(ours)
    pid = running(agent, tmp_path)
    for id in (ended, unknown):
        agent.run(shell(id, "true"), cluster_id="ours")
        ours.await_state(id, "SUCCEEDED")
    ours.forget = [ended, unknown]
    wait_for(lambda: {task.allocation_id for task in ours.heartbeats[-1].tasks} == {ID}, why="both are forgotten")
    ours.vanish()
    other.stop_first, other.epoch = [], 1
    other.forget_first, other.lineage = [unknown], ["older", "ours"]
    wait_for(lambda: len(other.heartbeats) > 1)
    wait_for(lambda: {task.allocation_id for task in other.heartbeats[-1].tasks} == {ID, ended}, why="it goes over")
    first, second = other.registrations[-2:]
    assert ({task.allocation_id for task in first.tasks}, first.cluster_id) == ({ID}, "ours")
    assert ({task.allocation_id for task in second.tasks}, second.cluster_id) == ({ID, ended, unknown}, "theirs")
    assert (agent.data_dir / "cluster").read_text() == "theirs\n"
    assert lives(pid)
    agent.run(shell(unknown, f"touch {tmp_path}/again"), cluster_id="theirs")
    wait_for((tmp_path / "again").exists, why="the id may come again")
    agent.stop(ID, 0, cluster_id="theirs")
    other.await_end(ID)


def test_an_agent_finds_masters_that_came_after_those_that_it_was_told_of(
    ours: FakeMaster, make_agent: MakeAgent
) -> None:
    later = FakeMaster(epoch=1)
    later.cluster_id = "ours"
    later.serve()
    try:
        ours.masters = [ours.address, later.address]
        ours.heartbeat_ms = 200
        make_agent(ours).start(ours)
        wait_for(lambda: len(ours.heartbeats) >= 2, why="it has heard of the other")
        ours.vanish()
        wait_for(lambda: later.heartbeats, why="it goes on with the master that nobody configured")
    finally:
        later.vanish()
