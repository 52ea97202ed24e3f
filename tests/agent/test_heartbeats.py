"""How often an agent reports: as the masters say, and not in step with the others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from gosched.agent import session as session_module
from gosched.agent.session import EARLIEST, HEARTBEAT_S, HEARTBEATS_PER_LEASE, Session
from gosched.core.commands.nodes import RegisterNode
from gosched.core.resources import Resources
from gosched.wire.v1 import node_pb2, node_pb2_grpc
from tests.agent.conftest import LIMIT_S, Agent, FakeMaster, wait_for


def session(*, heartbeat_ms: int | None = None, tasks: tuple[Any, ...] = ()) -> Session:
    me = RegisterNode(
        node_id="n1", name="n1", address="127.0.0.1:1", incarnation="i", capacity=Resources(cpu_millis=1000)
    )
    fake: Any = SimpleNamespace(running=lambda: tasks, write_lease=lambda until_ms, length_ms: None)
    return Session(
        lambda: me, ["m"], fake, fake, fake, fake, asyncio.Event(), asyncio.Event(), fake, heartbeat_ms=heartbeat_ms
    )


def test_agents_that_are_answered_again_together_spread_over_the_whole_time() -> None:
    agents = [session() for _ in range(400)]
    firsts, seconds = [agent._pause_s() for agent in agents], [agent._pause_s() for agent in agents]
    assert min(firsts) < HEARTBEAT_S / 10
    assert max(firsts) > HEARTBEAT_S * 9 / 10
    assert EARLIEST * HEARTBEAT_S <= min(seconds) < max(seconds) <= HEARTBEAT_S
    for agent in agents:
        agent._failures = 3
        agent._answered()
    assert min(agent._pause_s() for agent in agents) < HEARTBEAT_S / 10


def test_the_masters_say_how_often_and_a_setting_of_the_agent_is_a_bound() -> None:
    free, bound = session(), session(heartbeat_ms=2000)
    for agent in (free, bound):
        agent._beat_every(20_000)
        agent._beat_every(0)
        agent._pause_s()
    assert 20 * EARLIEST <= free._pause_s() <= 20
    assert 2 * EARLIEST <= bound._pause_s() <= 2


def test_a_task_that_ends_with_the_lease_makes_heartbeats_frequent() -> None:
    alone = SimpleNamespace(order=SimpleNamespace(stop_alone=True))
    agent = session(tasks=(alone,))
    agent._answered(0, 10_000)
    assert all(agent._pause_s() <= 10 / HEARTBEATS_PER_LEASE for _ in range(20))


def test_an_agent_takes_over_how_often_from_the_answer_to_a_heartbeat(master: FakeMaster, tmp_path: Path) -> None:
    master.heartbeat_ms = 200
    agent = Agent(tmp_path / "data", master.address)
    try:
        agent.start(master)
        master.heartbeat_ms = 100
        before = len(master.heartbeats)
        wait_for(lambda: len(master.heartbeats) > before + 5, limit_s=LIMIT_S)
        master.heartbeat_ms = 600_000
        before = len(master.heartbeats)
        wait_for(lambda: len(master.heartbeats) > before, limit_s=LIMIT_S)
        before = len(master.heartbeats)
        assert agent.end() != 0
        assert len(master.heartbeats) <= before + 1
    finally:
        if agent.process is not None and agent.process.poll() is None:
            agent.end()


def test_an_answer_that_does_not_count_is_asked_for_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "ASK_AGAIN_S", 0.05, raising=False)
    problems = ["", "its lease is over, it asks its masters first"]

    async def obey(*_: object, **__: object) -> str:
        return problems.pop()

    async def story() -> None:
        agent = session()
        agent._tasks = agent._kept_logs = SimpleNamespace(obey=obey, forget_jobs=lambda jobs: None)  # type: ignore[assignment]
        await agent._obey(node_pb2.HeartbeatResponse(), 1)
        assert not agent._changed.is_set()
        async with asyncio.timeout(LIMIT_S):
            await agent._changed.wait()
        agent._changed.clear()
        await agent._obey(node_pb2.HeartbeatResponse(), 1)
        await asyncio.sleep(0.1)
        assert not agent._changed.is_set()

    asyncio.run(story())


def test_a_disk_that_fails_at_the_goodbye_is_told_of_and_ends_it_no_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []

    async def take(request: Any, **_: object) -> node_pb2.HeartbeatResponse:
        heard.append(request)
        return node_pb2.HeartbeatResponse(away_ms=300_000, lease_ms=30_000)

    async def nothing(*_: object) -> Any:
        return SimpleNamespace(close=nothing)

    def failing(until_ms: int, length_ms: int) -> None:
        raise OSError(5, "Input/output error")

    async def story() -> None:
        agent = session()
        agent._connect, agent._registered = nothing, True
        agent._tasks = SimpleNamespace(close_to_orders=nothing)  # type: ignore[assignment]
        agent._data_dir = SimpleNamespace(belongs_to=lambda cluster: True, write_lease=failing)  # type: ignore[assignment]
        monkeypatch.setattr(agent, "_news", node_pb2.HeartbeatRequest)
        monkeypatch.setattr(node_pb2_grpc, "NodeServiceStub", lambda channel: SimpleNamespace(Heartbeat=take))
        with structlog.testing.capture_logs() as lines:
            await agent.goodbye()
        assert [line["event"] for line in lines if line["log_level"] == "error"] == [
            "cannot write the lease: tasks that end with it do not wait so long"
        ]
        assert [request.goodbye for request in heard] == [True]

    asyncio.run(story())
