"""What happens to plans, calls and watchers when leadership moves."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import grpc
import pytest

from gosched.core.outcome import Code, Rejected
from gosched.core.records.job import JobState
from gosched.master.api import leader_routing
from gosched.master.planning import planner
from gosched.replication.interface import AppliedBatch
from gosched.wire.metadata import LEADER
from gosched.wire.v1 import scheduler_pb2
from tests.master.harness import LIMIT_S, RUNNING, SUCCEEDED, agent, spec, two_masters, until


def test_a_plan_of_a_deposed_leader_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    planning, go_on = threading.Event(), threading.Event()
    plan_really, calls = planner.schedule, []

    def slow_first_plan(*given: Any) -> Any:
        calls.append(1)
        plan = plan_really(*given)
        if len(calls) == 1:
            planning.set()
            assert go_on.wait(LIMIT_S)
        return plan

    monkeypatch.setattr(planner, "schedule", slow_first_plan)
    refused: list[int] = []

    async def story() -> None:
        async with two_masters() as (cluster, one, two), agent(one, "n1") as n1:

            def on_batch(batch: AppliedBatch) -> None:
                for applied in batch.commands:
                    if isinstance(applied.outcome, Rejected) and applied.outcome.code is Code.STALE_EPOCH:
                        refused.append(applied.command.epoch)
                        cluster.elect("m2")  # the old leader learns of it only now

            two.replication.follow(on_batch)
            job_id = (await one.submit(spec())).job_id
            await until(planning.is_set)
            cluster.members["m1"].cut_off = True
            cluster.elect("m2")
            await until(lambda: two.state.allocations)
            digest_tasks = dict(two.state.tasks)
            cluster.members["m1"].cut_off = False
            go_on.set()
            await until(lambda: refused)
            assert refused == [1]
            assert two.state.tasks == digest_tasks
            assert one.state.digest() == two.state.digest()
            await until(lambda: n1.orders)
            assert n1.epochs == [2]
            assert list(n1.orders) == [f"{job_id}/main/0.1"]

    asyncio.run(story())


def test_the_new_leader_delivers_what_the_old_one_had_committed() -> None:
    async def story() -> None:
        async with two_masters() as (cluster, one, two), agent(one, "n1") as n1:
            job_id = (await one.submit(spec())).job_id
            await until(lambda: n1.orders)
            n1.orders.clear()
            n1.observed.clear()  # the order was lost with its sender
            cluster.elect("m2")
            await until(lambda: list(n1.orders) == [f"{job_id}/main/0.1"])
            assert n1.epochs == [1, 2]
            n1.see_all(SUCCEEDED, exit_code=0)
            await n1.beat(one)  # by way of the follower
            assert two.state.jobs[job_id].state is JobState.SUCCEEDED

    asyncio.run(story())


def test_a_follower_serves_users_by_way_of_the_leader() -> None:
    async def story() -> None:
        async with two_masters() as (_, _, two), agent(two, "n1") as n1:
            job_id = (await two.submit(spec("via"))).job_id
            await until(lambda: n1.orders)
            watched = two.scheduler.WatchJob(scheduler_pb2.GetJobRequest(job="via"), timeout=LIMIT_S)
            first = await watched.read()
            assert first.job.id == job_id
            n1.see_all(SUCCEEDED, exit_code=0)
            await n1.beat(two)
            view = first
            while view.job.state != JobState.SUCCEEDED:
                view = await watched.read()
            assert await watched.read() is grpc.aio.EOF
            await until(lambda: two.replication.state.masters.get("m2"))  # it told the leader where it listens
            status = await two.scheduler.GetClusterStatus(scheduler_pb2.GetClusterStatusRequest(), timeout=LIMIT_S)
            assert status.leader == "m1"
            assert {m.id: m.role for m in status.masters} == {"m1": "leader", "m2": "follower"}

    asyncio.run(story())


def test_an_error_of_the_leader_comes_through_unchanged() -> None:
    async def story() -> None:
        async with two_masters() as (_, _, two):
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await two.job("nobody")
            assert raised.value.code() is grpc.StatusCode.NOT_FOUND
            assert raised.value.details() == "there is no job 'nobody'"

    asyncio.run(story())


@pytest.mark.parametrize("by_follower", [False, True])
def test_a_watch_ends_with_unavailable_when_its_leader_is_deposed(by_follower: bool) -> None:
    async def story() -> None:
        async with two_masters() as (cluster, one, two):
            await one.submit(spec("w", cpus=64))
            front = two if by_follower else one
            watched = front.scheduler.WatchJob(scheduler_pb2.GetJobRequest(job="w"), timeout=LIMIT_S)
            await watched.read()
            cluster.elect("m2")
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await _read_to_the_end(watched)
            assert raised.value.code() is grpc.StatusCode.UNAVAILABLE

    asyncio.run(story())


async def _read_to_the_end(stream: Any) -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass


def test_a_call_that_was_forwarded_to_a_follower_is_not_forwarded_again() -> None:
    async def story() -> None:
        async with two_masters() as (_, _, two):
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await two.scheduler.GetJob(
                    scheduler_pb2.GetJobRequest(job="x"), metadata=(("gosched-forwarded", "1"),), timeout=LIMIT_S
                )
            assert raised.value.code() is grpc.StatusCode.UNAVAILABLE

    asyncio.run(story())


def test_a_follower_says_to_which_leader_it_passed_a_call_on() -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two):
            said = []
            for master in (one, two):
                call = master.scheduler.GetClusterStatus(scheduler_pb2.GetClusterStatusRequest(), timeout=LIMIT_S)
                await call
                said.append(dict(await call.trailing_metadata()).get(LEADER))
            assert said == [None, one.state.masters["m1"].grpc_address]

    asyncio.run(story())


def test_without_a_leader_a_call_is_unavailable_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_routing, "FIND_LEADER_S", 0.2)

    async def story() -> None:
        async with two_masters() as (cluster, _, two):
            cluster.elect("")
            started = asyncio.get_running_loop().time()
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await two.submit(spec())
            assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
            assert raised.value.details() == "there is no leader at the moment; try again"
            assert asyncio.get_running_loop().time() - started > 0.19

    asyncio.run(story())


def test_a_call_is_answered_by_the_leader_that_is_elected_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_routing, "FIND_LEADER_S", LIMIT_S)

    async def story() -> None:
        async with two_masters() as (cluster, _, two):
            cluster.elect("")
            call = asyncio.ensure_future(two.submit(spec()))
            await asyncio.sleep(0.2)
            cluster.elect("m1")
            assert (await call).job_id

    asyncio.run(story())


def test_a_repeated_request_gives_the_first_answer_under_the_next_leader_too() -> None:
    async def story() -> None:
        async with two_masters() as (cluster, one, two):
            first = await one.submit(spec("r"), "request-1")
            cluster.elect("m2")
            again = await two.submit(spec("r"), "request-1")
            assert again.job_id == first.job_id
            assert len(two.state.jobs) == 1

    asyncio.run(story())


def test_running_tasks_are_not_ordered_again_by_the_next_leader() -> None:
    async def story() -> None:
        async with two_masters() as (cluster, one, two), agent(one, "n1") as n1:
            await one.submit(spec())
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            await n1.beat(one)
            cluster.elect("m2")
            await until(lambda: two.leads)
            answer = await n1.beat(two)
            assert answer.epoch == 2
            assert not answer.start
            assert n1.epochs == [1]

    asyncio.run(story())


def test_a_master_that_hands_over_can_end_at_that_very_moment() -> None:
    async def story() -> None:
        async with asyncio.timeout(LIMIT_S), two_masters() as (cluster, one, _):
            await one.server.hand_over()
            assert cluster.members["m2"].role.leader == "m2"

    asyncio.run(story())
