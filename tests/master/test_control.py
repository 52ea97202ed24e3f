"""Holding, suspending and requeueing jobs; windows; what is reserved. Over both masters and over REST."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import grpc
import pytest

from gosched.core.records.job import JobState
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import SPARK_WORKER
from gosched.wire.v1 import scheduler_pb2, types_pb2
from tests.master import http_client
from tests.master.clock import MINUTE_MS, Ahead
from tests.master.harness import LIMIT_S, RUNNING, Front, agent, one_master, spec, two_masters, until

FUTURE_MS = 4_000_000_000_000


async def control(front: Front, job: str, action: str, request_id: str = "") -> scheduler_pb2.ControlJobResponse:
    request = scheduler_pb2.ControlJobRequest(
        job=job, action=f"ACTION_{action}", client_id="test", request_id=request_id
    )
    return await front.scheduler.ControlJob(request, timeout=LIMIT_S)


async def set_window(front: Front, name: str, **more: Any) -> scheduler_pb2.SetWindowResponse:
    resources = more.pop("resources", {})
    window = types_pb2.Window(name=name, start_ms=FUTURE_MS, end_ms=FUTURE_MS + 1000, **more)
    request = scheduler_pb2.SetWindowRequest(window=window, resources=resources)
    return await front.scheduler.SetWindow(request, timeout=LIMIT_S)


async def explained(front: Front, job: str) -> scheduler_pb2.JobExplanation:
    return await front.scheduler.ExplainJob(scheduler_pb2.GetJobRequest(job=job), timeout=LIMIT_S)


async def get(front: Front, path: str) -> Any:
    answer = await http_client.get(front, path)
    assert answer.status == 200
    return answer.json()


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value.code(), raised.value.details() or ""


def test_a_held_job_says_so_and_starts_when_it_is_released() -> None:
    async def story() -> None:
        slow = {"grpc_addr": "127.0.0.1:0", "http_addr": "127.0.0.1:0", "schedule_period": "60s"}
        async with one_master(server=slow) as master, agent(master) as n1:
            job_id = (await master.submit(spec("a", hold=True))).job_id
            why = await explained(master, "a")
            assert (why.code, why.message) == ("HELD", "it is held: goschedctl job release a")
            assert (await master.job("a")).explanation.code == "HELD"
            assert (await get(master, "/api/v1/jobs/a/explain"))["code"] == "HELD"
            assert not n1.orders
            assert (await control(master, "a", "RELEASE")).job_id == job_id
            await until(lambda: n1.orders)  # at once, not after the period

    asyncio.run(story())


def test_a_job_is_suspended_and_resumed_by_any_master_and_a_repeat_changes_nothing() -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two), agent(one) as n1:
            job_id = (await one.submit(spec("a"))).job_id
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            await n1.beat(one)
            assert not (await control(two, "a", "SUSPEND", "r1")).unchanged
            await until(lambda: n1.stops)
            n1.see_all(types_pb2.TASK_STATE_KILLED)
            await n1.beat(one)
            assert one.state.jobs[job_id].state is JobState.SUSPENDED
            assert (await explained(two, "a")).code == "SUSPENDED"
            await control(two, "a", "RESUME")
            await control(two, "a", "SUSPEND", "r1")  # an old request, answered again
            await until(lambda: one.state.jobs[job_id].active)
            code, _ = await refused(control(one, "nobody", "HOLD"))
            assert code is grpc.StatusCode.NOT_FOUND
            code, _ = await refused(control(one, "a", "UNSPECIFIED"))
            assert code is grpc.StatusCode.INVALID_ARGUMENT

    asyncio.run(story())


def test_a_window_is_made_by_name_or_by_amount_listed_and_dropped() -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two), agent(one, "n1"), agent(one, "n2"):
            await one.submit(spec("endless"))
            await until(lambda: one.state.allocations)
            (busy,) = {a.node_id for a in one.state.allocations.values()}
            (idle,) = {"n1", "n2"} - {busy}
            by_name = await set_window(two, "fix", nodes=[busy])
            assert (list(by_name.window.nodes), len(by_name.in_the_way)) == ([busy], 1)
            chosen = await set_window(two, "demo", resources={"cpu": 4000}, queues=["default"])
            assert (list(chosen.window.nodes), list(chosen.in_the_way)) == ([idle], [])
            listed = await two.scheduler.ListReservations(scheduler_pb2.ListReservationsRequest(), timeout=LIMIT_S)
            assert [window.name for window in listed.windows] == ["demo", "fix"]
            shown = await get(two, "/api/v1/reservations")
            assert [(item["kind"], item["id"], item["nodes"]) for item in shown] == [
                ("window", "demo", [idle]),
                ("window", "fix", [busy]),
            ]
            await two.scheduler.DropWindow(scheduler_pb2.DropWindowRequest(name="demo"), timeout=LIMIT_S)
            assert list(one.state.windows) == ["fix"]

    asyncio.run(story())


def test_a_window_is_forgotten_once_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = Ahead(monkeypatch)

    async def story() -> None:
        async with one_master() as master, agent(master, "n1"):
            now_ms = master.state.clock_ms
            window = types_pb2.Window(name="w", nodes=["n1"], start_ms=now_ms, end_ms=now_ms + MINUTE_MS)
            await master.scheduler.SetWindow(scheduler_pb2.SetWindowRequest(window=window), timeout=LIMIT_S)
            job_id = (await master.submit(spec("a"))).job_id
            ahead.by_ms = MINUTE_MS
            await until(lambda: not master.state.windows)
            assert master.state.clock_ms >= window.end_ms
            await until(lambda: master.state.jobs[job_id].active)

    asyncio.run(story())


def test_windows_that_are_made_at_once_are_given_different_nodes() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master, "n1"), agent(master, "n2"):
            made = await asyncio.gather(*[set_window(master, name, resources={"cpu": 4000}) for name in "ab"])
            assert sorted(node for answer in made for node in answer.window.nodes) == ["n1", "n2"]
            again = await set_window(master, "a", resources={"cpu": 4000})  # its own nodes do not stand in its way
            assert again.window == made[0].window

    asyncio.run(story())


def test_a_window_that_cannot_be_is_refused() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master, "n1"):
            for more, code in (
                ({"nodes": ["nobody"]}, grpc.StatusCode.NOT_FOUND),
                ({}, grpc.StatusCode.INVALID_ARGUMENT),
                ({"nodes": ["n1"], "resources": {"cpu": 1}}, grpc.StatusCode.INVALID_ARGUMENT),
                ({"resources": {"cpu": 5000}}, grpc.StatusCode.FAILED_PRECONDITION),
            ):
                got, detail = await refused(set_window(master, "w", **more))
                assert got is code, detail
            drop = scheduler_pb2.DropWindowRequest(name="w")
            got, _ = await refused(master.scheduler.DropWindow(drop, timeout=LIMIT_S))
            assert got is grpc.StatusCode.NOT_FOUND
            assert not master.state.windows

    asyncio.run(story())


def test_a_job_is_scaled_between_its_minimum_and_all_of_its_tasks_unless_it_scales_itself() -> None:
    def scale(front: Front, job: str, action: str = "SCALE", tasks: int = 2) -> Any:
        request = scheduler_pb2.ControlJobRequest(job=job, action=f"ACTION_{action}", tasks=tasks)
        return front.scheduler.ControlJob(request, timeout=LIMIT_S)

    async def story() -> None:
        async with two_masters() as (_, leader, follower), agent(leader) as n1:
            worker = replace(spec("a").groups[0], count=4, min_count=1, name="worker")
            await leader.submit(replace(spec("a"), groups=(worker,), gang=GangPolicy(min_tasks=1)))
            await until(lambda: len(n1.orders) == 4)
            assert not (await scale(follower, "a")).unchanged
            assert (await scale(leader, "a")).unchanged
            assert (await get(leader, "/api/v1/jobs/a"))["wanted"] == 2
            assert (await leader.job("a")).job.scaled_to == 2
            assert "1 (gang.min) to 4 tasks: 9 are not possible" in (await refused(scale(leader, "a", tasks=9)))[1]
            assert "is of scale, not of hold" in (await refused(scale(leader, "a", "HOLD")))[1]
            answer = await http_client.request(leader, "POST", "/api/v1/jobs/a/scale?tasks=3")
            assert (answer.status, answer.json()["unchanged"]) == (200, False)
            driver = replace(worker, name="driver", count=1, min_count=0)
            groups = (driver, replace(worker, command=(SPARK_WORKER, "15")))
            policy = GangPolicy(min_tasks=2, ends_with="driver", initial_tasks=2)
            await leader.submit(replace(spec("b"), groups=groups, gang=policy))
            assert "says how many executors it wants" in (await refused(scale(leader, "b", tasks=3)))[1]

    asyncio.run(story())
