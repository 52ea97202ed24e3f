"""Heartbeats of an earlier registration or made earlier, orders that were delivered, and goodbyes: over real calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from gosched.core.records.job import JobState
from gosched.core.records.node import NodeState
from gosched.core.records.task import TaskState
from gosched.master.agents import leases
from gosched.master.leader import leader
from gosched.wire.v1 import node_pb2, worker_pb2
from tests.master.harness import RUNNING, FakeAgent, Front, one_master, spec, until

FAST = {"lease": {"node_timeout": "300ms", "first_lease": "400ms", "goodbye": "2s"}}


class Numbered(FakeAgent):
    """Tells registrations apart, and counts its heartbeats."""

    number = 0
    registered = 0
    revision = 0  # of the newest start that was pushed
    holds_back = False  # pushes

    async def StartTasks(self, request: Any, context: Any) -> worker_pb2.StartTasksResponse:
        while self.holds_back:
            await asyncio.sleep(0.005)
        assert request.registration == self.registered
        self.revision = request.revision
        return await super().StartTasks(request, context)

    async def register(self, to: Front, **more: Any) -> node_pb2.RegisterNodeResponse:
        answer = await super().register(to, numbered=True, **more)
        self.registered = answer.registration
        return answer

    async def beat(self, to: Front, **more: Any) -> node_pb2.HeartbeatResponse:
        self.number += 1
        given = {"number": self.number, "registration": self.registered, "heard": self.revision}
        return await super().beat(to, **{**given, **more})


@asynccontextmanager
async def numbered(to: Front, node_id: str = "n1") -> AsyncIterator[Numbered]:
    async with Numbered(node_id).serving() as running:
        assert isinstance(running, Numbered)
        await running.register(to)
        yield running


def run(story: Coroutine[Any, Any, None], monkeypatch: pytest.MonkeyPatch | None = None) -> None:
    if monkeypatch is not None:
        monkeypatch.setattr(leader, "CHECK_S", 0.02)
        monkeypatch.setattr(leases, "STALL_S", 0.1)
    asyncio.run(story)


def test_a_heartbeat_of_an_earlier_registration_renews_and_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with one_master(**FAST) as master, numbered(master) as node:
            before = node.registered
            await until(lambda: master.state.nodes["n1"].state is NodeState.DEAD)
            await node.register(master)
            assert node.registered > before
            answer = await node.beat(master, registration=before)
            assert answer.register_again
            await until(lambda: master.state.nodes["n1"].state is NodeState.DEAD)

    run(story(), monkeypatch)


def test_two_heartbeats_that_come_late_make_no_task_lost() -> None:
    async def story() -> None:
        async with one_master() as master, numbered(master) as node:
            job_id = (await master.submit(spec())).job_id
            await until(lambda: node.orders)
            node.see_all(RUNNING)
            await node.beat(master, number=10)
            assert master.state.tasks[f"{job_id}/main/0"].state is TaskState.RUNNING
            node.observed.clear()
            for number in (8, 9, 8):
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await node.beat(master, number=number)
                assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
            assert master.state.tasks[f"{job_id}/main/0"].state is TaskState.RUNNING
            for number in (11, 12):
                await node.beat(master, number=number)
            assert master.state.tasks[f"{job_id}/main/0"].state is not TaskState.RUNNING

    run(story())


def test_an_order_that_is_pushed_is_not_in_the_answers_too() -> None:
    async def story() -> None:
        async with one_master() as master, numbered(master) as node:
            node.holds_back = True
            await node.beat(master)
            job_id = (await master.submit(spec())).job_id
            await until(lambda: master.state.jobs[job_id].state is JobState.RUNNING)
            allocation = master.state.tasks[f"{job_id}/main/0"].allocation_id
            await asyncio.sleep(0.05)  # the push is on its way
            answer = await node.beat(master)
            assert (list(answer.start), list(answer.under_way)) == ([], [allocation])
            node.holds_back = False
            await until(lambda: node.orders)
            heard = node.revision
            node.observed.clear()
            await asyncio.sleep(0.05)  # the push was answered
            answer = await node.beat(master, heard=heard - 1)  # a heartbeat that was made before it came
            assert (list(answer.start), list(answer.under_way)) == ([], [allocation])
            answer = await node.beat(master, heard=heard)  # and lost it
            assert [order.allocation_id for order in answer.start] == [allocation]

    run(story())


def test_a_goodbye_keeps_the_node_for_its_time_and_places_elsewhere_what_it_has_not_got(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        async with one_master(**FAST) as master, numbered(master) as node:
            node.holds_back = True
            job_id = (await master.submit(spec())).job_id
            await until(lambda: master.state.jobs[job_id].state is JobState.RUNNING)
            answer = await node.beat(master, goodbye=True)
            assert answer.away_ms == 2000
            assert (master.state.jobs[job_id].attempt, master.state.jobs[job_id].state) == (2, JobState.PENDING)
            await asyncio.sleep(0.8)
            assert master.state.nodes["n1"].state is NodeState.CORDONED
            back = Numbered("n1", "boot-2")
            back.address = node.address
            await back.register(master)
            await back.beat(master)
            assert master.state.nodes["n1"].state is NodeState.READY
            await until(lambda: master.state.nodes["n1"].state is NodeState.DEAD, 1.5)  # by the usual lease again

    run(story(), monkeypatch)


def test_a_node_that_stays_away_dies_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with one_master(**FAST) as master, numbered(master) as node:
            await node.beat(master, goodbye=True)
            await until(lambda: master.state.nodes["n1"].state is NodeState.DEAD, 10)
            assert master.state.nodes["n1"].reason == "its agent was stopped, and not started within 2s"

    run(story(), monkeypatch)
