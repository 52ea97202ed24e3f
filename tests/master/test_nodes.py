"""Agents joining, reporting, leaving."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpc
import pytest

from gosched.core.reasons import RefusalReason
from gosched.core.records.job import JobState
from gosched.core.records.node import NodeState
from gosched.core.records.task import TaskState
from gosched.master.agents import leases, node_service
from gosched.master.leader import leader
from gosched.wire.refusals import refusal_reason
from gosched.wire.v1 import node_pb2
from tests.master.harness import (
    LIMIT_S,
    RUNNING,
    SUCCEEDED,
    FakeAgent,
    Front,
    agent,
    one_master,
    spec,
    two_masters,
    until,
)

FAST = {"lease": {"node_timeout": "300ms", "first_lease": "400ms"}}


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases of FAST: a machine that stands still between two looks costs no node its lease, here as anywhere."""
    monkeypatch.setattr(leader, "CHECK_S", 0.02)
    monkeypatch.setattr(leases, "STALL_S", 0.1)


async def ordered(node: FakeAgent, to: Front, count: int) -> None:
    """Sends heartbeats until it has so many orders."""
    async with asyncio.timeout(LIMIT_S):
        while len(node.orders) < count:
            await node.beat(to)
            await asyncio.sleep(0.02)


async def refusal(agent: FakeAgent, to: Front, **more: object) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await agent.register(to, **more)
    return raised.value.code(), raised.value.details() or ""


def test_a_silent_node_dies_and_its_gang_goes_to_another(looks_often: None) -> None:
    async def story() -> None:
        async with one_master(**FAST) as master, agent(master, "n1") as n1:
            job_id = (await master.submit(spec(count=2, restarts=1))).job_id
            await ordered(n1, master, 2)
            async with agent(master, "n2") as n2:
                await ordered(n2, master, 2)  # n2 is heard, n1 is not
                assert master.state.nodes["n1"].state is NodeState.DEAD
                assert master.state.nodes["n2"].state is NodeState.READY
                assert master.state.jobs[job_id].attempt == 2

    asyncio.run(story())


def test_a_node_that_comes_back_ends_its_leftovers_before_it_takes_work(looks_often: None) -> None:
    async def story() -> None:
        async with one_master(**FAST) as master, agent(master, "n1") as n1:
            await master.submit(spec())
            await ordered(n1, master, 1)
            n1.see_all(RUNNING)
            await until(lambda: master.state.nodes["n1"].state is NodeState.DEAD)
            answer = await n1.beat(master)
            assert answer.register_again
            leftovers = list(n1.observed)
            answer = await n1.register(master)
            assert list(answer.stop_first) == leftovers
            assert master.state.nodes["n1"].state is NodeState.DEAD
            n1.see_all(SUCCEEDED, exit_code=0)
            answer = await n1.register(master)
            assert not answer.stop_first
            assert master.state.nodes["n1"].state is NodeState.READY

    asyncio.run(story())


def test_a_node_id_that_is_in_use_by_a_living_agent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_service, "PROBE_TIMEOUT_S", LIMIT_S)

    async def story() -> None:
        copied = FakeAgent("n1", "boot-2")
        async with one_master() as master, agent(master, "n1") as n1, copied.serving() as copy:
            code, detail = await refusal(copy, master)
            assert code is grpc.StatusCode.FAILED_PRECONDITION
            assert (
                detail == f"node id n1 is in use by the agent at {n1.address}: give this agent its own data directory"
            )
            assert master.state.nodes["n1"].incarnation == "boot-1"

    asyncio.run(story())


def test_a_refusal_carries_its_code_also_through_a_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_service, "PROBE_TIMEOUT_S", LIMIT_S)

    async def story() -> None:
        async with (
            two_masters() as (_, leader, follower),
            agent(leader, "n1"),
            FakeAgent("n1", "boot-2").serving() as copy,
        ):
            for master in (leader, follower):
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await copy.register(master)
                assert refusal_reason(raised.value) == RefusalReason.NODE_ID_IN_USE

    asyncio.run(story())


def test_a_node_whose_agent_is_slow_to_answer_is_not_given_to_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(FakeAgent):
        async def GetIdentity(self, request: Any, context: Any) -> Any:
            await asyncio.Event().wait()

    async def story() -> None:
        monkeypatch.setattr(node_service, "PROBE_TIMEOUT_S", 0.2)
        async with one_master() as master, Slow("n1").serving() as n1, FakeAgent("n1", "boot-2").serving() as copy:
            await n1.register(master)
            code, _ = await refusal(copy, master)
            assert code is grpc.StatusCode.UNAVAILABLE
            assert master.state.nodes["n1"].incarnation == "boot-1"

    asyncio.run(story())


def test_an_agent_started_anew_on_another_port_takes_over_its_node_and_its_tasks() -> None:
    async def story() -> None:
        async with one_master() as master:
            async with agent(master, "n1") as n1:
                job_id = (await master.submit(spec())).job_id
                await until(lambda: n1.orders)
                n1.see_all(RUNNING)
                await n1.beat(master)
            async with FakeAgent("n1", "boot-2").serving() as again:
                again.observed = dict(n1.observed)
                assert not (await again.register(master)).stop_first
                assert (await n1.beat(master)).register_again
                again.see_all(SUCCEEDED, exit_code=0)
                await again.beat(master)
                assert master.state.jobs[job_id].state is JobState.SUCCEEDED

    asyncio.run(story())


def test_a_node_of_another_cluster_is_sent_away_and_told_to_stop_nothing() -> None:
    async def story() -> None:
        async with one_master() as master, FakeAgent("n1").serving() as n1:
            ours = master.state.cluster_id
            n1.see("theirs/main/0.1", RUNNING)
            for more in ({"cluster_id": "theirs"}, {}):
                code, detail = await refusal(n1, master, **more)
                assert code is grpc.StatusCode.FAILED_PRECONDITION
                assert f"this is cluster {ours}: correct the agent's masters" in detail
            assert not master.state.nodes
            n1.observed.clear()
            assert (await n1.register(master)).cluster_id == ours
            n1.see("gone/main/0.1", RUNNING)  # a node that is known may have anything
            assert (await n1.register(master)).stop_first == ["gone/main/0.1"]
            assert (await n1.beat(master)).cluster_id == ours

    asyncio.run(story())


def test_a_clock_an_hour_off_is_refused_with_the_way_out() -> None:
    async def story() -> None:
        async with one_master() as master, FakeAgent("n1").serving() as n1:
            code, detail = await refusal(n1, master, clock_ms=int((time.time() + 3600) * 1000))
            assert code is grpc.StatusCode.FAILED_PRECONDITION
            assert "ahead of the masters'" in detail
            assert "NTP" in detail
            assert not master.state.nodes

    asyncio.run(story())


def test_a_result_may_be_forgotten_only_after_it_is_committed() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            job_id = (await master.submit(spec())).job_id
            await until(lambda: n1.orders)
            n1.see_all(SUCCEEDED, exit_code=0)
            answer = await n1.beat(master)
            assert list(answer.forget) == [f"{job_id}/main/0.1"]
            assert master.state.tasks[f"{job_id}/main/0"].state is TaskState.SUCCEEDED

    asyncio.run(story())


def test_a_heartbeat_without_news_leaves_no_trace_in_the_log() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            await master.submit(spec())
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            await n1.beat(master)
            before = master.state.revision
            for _ in range(5):
                await n1.beat(master)
            assert master.state.revision == before
            listed = await master.nodes.ListNodes(node_pb2.ListNodesRequest(), timeout=LIMIT_S)
            assert 0 <= listed.nodes[0].heartbeat_age_ms < LIMIT_S * 1000
            assert listed.nodes[0].tasks == 1

    asyncio.run(story())


def test_an_unknown_task_on_a_node_is_stopped() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            n1.see("gone/main/0.1", RUNNING)
            answer = await n1.beat(master)
            assert [(s.allocation_id, s.grace_ms) for s in answer.stop] == [("gone/main/0.1", 0)]

    asyncio.run(story())
