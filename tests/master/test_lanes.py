"""Agents, calls and streams have places of their own: whoever fills one lane keeps nobody out of another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import grpc
import pytest

from gosched.core.state.cluster_state import ClusterState
from gosched.master.api import lanes, leader_routing, status_digest
from gosched.master.api.lanes import Bounds, Lane, Lanes
from gosched.master.base.callers import FORWARDED, Caller, Shares
from gosched.master.base.errors import ApiError
from gosched.master.jobs import job_logs
from gosched.master.planning.planner_queries import MAX_WAITING, PlannerQueries
from gosched.wire.roles import Role
from gosched.wire.v1 import scheduler_pb2
from tests.master.harness import LIMIT_S, RUNNING, FakeAgent, Front, agent, one_master, spec, two_masters, until

FEW = Bounds(total=12, each=8, total_bytes=3000, each_bytes=2000)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "BOUNDS", dict.fromkeys(Lane, FEW))


async def watching(to: Front, job: str, count: int, who: str = "") -> list[Any]:
    """Streams that nobody reads any further, once each has shown the job."""
    metadata = ((FORWARDED, who),) if who else None
    calls = [to.scheduler.WatchJob(scheduler_pb2.GetJobRequest(job=job), metadata=metadata) for _ in range(count)]
    for call in calls:
        await call.read()
    return calls


async def once_free(call: Callable[[], Any]) -> Any:
    """Return the first answer of a stream that is refused as long as all places are taken."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                return await call().read()
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
                await asyncio.sleep(0.01)


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value.code(), raised.value.details() or ""


@pytest.mark.usefixtures("few")
def test_idle_watches_are_bounded_and_keep_neither_agents_nor_calls_out() -> None:
    async def story() -> None:
        async with two_masters() as (_, leader, follower), agent(follower) as node:
            job = (await leader.submit(spec())).job_id
            watch = scheduler_pb2.GetJobRequest(job=job)
            open_calls = await watching(follower, job, FEW.each)
            code, detail = await refusal(follower.scheduler.WatchJob(watch).read())
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert detail == "127.0.0.1 has 8 streams (watches, logs, commands) open already: end some of them first"
            # By way of another master it is the same caller.
            code, _ = await refusal(leader.scheduler.WatchJob(watch).read())
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            open_calls += await watching(leader, job, FEW.total - FEW.each, "another")
            code, detail = await refusal(leader.scheduler.WatchJob(watch, metadata=((FORWARDED, "third"),)).read())
            assert (code, "12 streams" in detail) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
            for way in (leader, follower):
                assert not (await node.beat(way)).register_again
                assert (await way.job(job)).job.id == job
            for call in open_calls:
                call.cancel()
            async with asyncio.timeout(LIMIT_S):  # its places are free again
                while True:
                    try:
                        again = await watching(follower, job, FEW.each)
                        break
                    except grpc.aio.AioRpcError as error:
                        if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                            raise
                        await asyncio.sleep(0.05)
            for call in again:
                call.cancel()

    asyncio.run(story())


@pytest.mark.usefixtures("few")
def test_a_call_whose_request_never_comes_has_a_place_and_loses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_routing, "REQUEST_S", 2.0)

    async def story() -> None:
        async with one_master() as run, agent(run) as node:
            job = (await run.submit(spec())).job_id
            silent = [run.channel.stream_stream("/gosched.v1.SchedulerService/GetJob")() for _ in range(FEW.each)]
            for call in silent:
                await call.wait_for_connection()

            async def all_places_taken() -> bool:
                try:
                    await run.job(job)
                except grpc.aio.AioRpcError as error:
                    return error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                return False

            async with asyncio.timeout(LIMIT_S):
                while not await all_places_taken():
                    await asyncio.sleep(0.01)
            assert not (await node.beat(run)).register_again
            for call in silent:
                code, detail = await refusal(call.read())
                assert (code, detail) == (grpc.StatusCode.INVALID_ARGUMENT, "no request came within 2 s")
            assert (await run.job(job)).job.id == job

    asyncio.run(story())


def test_requests_are_bounded_in_bytes_and_callers_without_calls_are_forgotten() -> None:
    places = Lanes(dict.fromkeys(Lane, FEW))
    ann, ben = (Caller(role=Role.CLIENT, name=name) for name in ("ann", "ben"))
    with places.place(Lane.CALLS, ann) as first, places.place(Lane.CALLS, ben) as second:
        first.hold(1500)
        with pytest.raises(ApiError, match="too many bytes"):
            first.hold(501)
        second.hold(1500)
        with places.place(Lane.CALLS, ben) as third, pytest.raises(ApiError, match="too many bytes"):
            third.hold(1)
        with places.place(Lane.STREAMS, ben) as other:
            other.hold(2000)
    counted = places.uses[Lane.CALLS]
    assert (counted.all_calls, counted.all_bytes, dict(counted.calls), dict(counted.size)) == (0, 0, {}, {})


@pytest.mark.usefixtures("few")
def test_health_has_its_place_too() -> None:
    async def story() -> None:
        async with one_master() as run:
            check = run.channel.unary_unary("/grpc.health.v1.Health/Check")
            assert await check(b"", timeout=LIMIT_S) == b"\x08\x01"
            watch = run.channel.unary_stream("/grpc.health.v1.Health/Watch")
            watches = [watch(b"") for _ in range(FEW.each)]
            assert [await call.read() for call in watches] == [b"\x08\x01"] * FEW.each
            code, _ = await refusal(watch(b"").read())
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            watches[0].cancel()
            assert await once_free(lambda: watch(b"")) == b"\x08\x01"

    asyncio.run(story())


def test_digests_are_made_one_at_a_time_and_shared_by_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    at_once = most_at_once = 0
    go_on = threading.Event()

    def slow(self: ClusterState) -> str:
        nonlocal at_once, most_at_once
        at_once += 1
        most_at_once = max(most_at_once, at_once)
        made.append(self.revision)
        assert go_on.wait(LIMIT_S)
        at_once -= 1
        return f"digest-{self.revision}"

    monkeypatch.setattr(ClusterState, "digest", slow)
    monkeypatch.setattr(status_digest, "MAX_WAITING", 20)

    async def story() -> None:
        async with one_master() as run:
            ask = scheduler_pb2.GetClusterStatusRequest(digest=True)

            async def digest() -> scheduler_pb2.ClusterStatus:
                return await run.scheduler.GetClusterStatus(ask, timeout=LIMIT_S)

            first = asyncio.ensure_future(digest())
            await until(lambda: made)
            job = (await run.submit(spec())).job_id  # so that the next one is of a newer state
            assert job
            others = [asyncio.ensure_future(digest()) for _ in range(24)]  # of 20 places one caller may hold ten
            await until(lambda: sum(other.done() for other in others) == 15)
            assert {(await refusal(other))[0] for other in others if other.done()} == {
                grpc.StatusCode.RESOURCE_EXHAUSTED
            }
            waiting = [other for other in others if not other.done()]
            go_on.set()
            answers = [await first, *[await other for other in waiting]]
            assert [a.digest for a in answers] == [f"digest-{a.revision}" for a in answers]
            assert {a.revision for a in answers[1:]} == {made[1]}
            assert made[1] > made[0]
            assert (len(made), most_at_once) == (2, 1)

    asyncio.run(story())


def test_one_caller_leaves_others_a_place_among_planning_queries() -> None:
    asked: list[str] = []

    async def story() -> None:
        go_on = threading.Event()
        with ThreadPoolExecutor(1) as thread:
            queries = PlannerQueries(thread, lambda: (None, None, 0, 0))  # type: ignore[arg-type, return-value]

            async def ask(caller: str) -> str:
                try:
                    await queries.ask(lambda *_: go_on.wait(LIMIT_S), caller)
                except ApiError as error:
                    return error.detail
                asked.append(caller)
                return ""

            many = [asyncio.ensure_future(ask("many")) for _ in range(100)]
            await until(lambda: any(one.done() for one in many))
            few = [asyncio.ensure_future(ask(f"few-{i}")) for i in range(8)]
            await asyncio.sleep(0)
            go_on.set()
            refused = [why for why in [await one for one in many] if why]
            assert [await one for one in few] == [""] * 8
            assert len(refused) == 100 - MAX_WAITING // 2
            assert "of many, " in refused[0]

    asyncio.run(story())
    assert len(asked) == MAX_WAITING // 2 + 8


class Talking(FakeAgent):
    """Its tasks have written a line, and write on."""

    async def StreamLogs(self, request: Any, context: Any) -> AsyncIterator[scheduler_pb2.LogChunk]:
        yield scheduler_pb2.LogChunk(allocation_id=request.allocation_id, data=b"line")
        await asyncio.Event().wait()


def test_logs_that_one_caller_reads_are_bounded_and_counted_until_its_streams_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_logs, "MAX_READERS", 4)

    async def story() -> None:
        async with two_masters() as (_, leader, follower), Talking("n1").serving() as node:
            await node.register(leader)
            job = (await leader.submit(spec(count=3))).job_id
            small = (await leader.submit(spec("small"))).job_id
            async with asyncio.timeout(LIMIT_S):
                while len(node.orders) < 4:
                    await node.beat(leader)
                    await asyncio.sleep(0.02)
            node.see_all(RUNNING)
            await node.beat(leader)
            request = scheduler_pb2.StreamJobLogsRequest(job=job, follow=True)
            first = follower.scheduler.StreamJobLogs(request)
            await first.read()
            code, detail = await refusal(leader.scheduler.StreamJobLogs(request).read())
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "127.0.0.1 reads 4 logs already" in detail
            # The readers of the one that was refused have left: one place of the four is free, and no more.
            fourth = scheduler_pb2.StreamJobLogsRequest(job=small, follow=True)
            assert await once_free(lambda: leader.scheduler.StreamJobLogs(fourth))
            first.cancel()
            assert await once_free(lambda: leader.scheduler.StreamJobLogs(request))

    asyncio.run(story())


def test_a_caller_holds_as_many_places_as_it_leaves_and_others_find_one() -> None:
    shares = Shares(10, "commands run")
    with ExitStack() as held:
        for _ in range(5):
            held.enter_context(shares.place("ann"))
        with pytest.raises(ApiError, match="5 commands run of ann, 5 may be opened, and a caller holds as many as it"):
            held.enter_context(shares.place("ann"))
        for _ in range(3):
            held.enter_context(shares.place("ben"))
        held.enter_context(shares.place("eve"))
        held.enter_context(shares.place("zoe"))
        with pytest.raises(ApiError, match="10 commands run on this master already"):
            held.enter_context(shares.place("new"))
    with ExitStack() as held:
        for _ in range(5):
            held.enter_context(shares.place("ann"))
