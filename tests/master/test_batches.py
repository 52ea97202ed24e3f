"""SubmitJobs: many submissions by one request, each with an outcome of its own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import grpc
import pytest

from gosched.core.commands.jobs import SubmitJob
from gosched.core.limits import FEW_ANSWERS_PER_CLIENT
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.job_spec import JobSpec, OnMiss
from gosched.master.base.errors import ApiError
from gosched.master.jobs import batches
from gosched.replication.group_commit import BATCH_BYTES
from gosched.replication.interface import AppliedBatch
from gosched.wire.batch import encode_command
from gosched.wire.codec import to_message
from gosched.wire.v1 import scheduler_pb2, types_pb2
from tests.master.harness import LIMIT_S, Front, one_master, spec, two_masters, until


def batch(*jobs: JobSpec, **more: Any) -> scheduler_pb2.SubmitJobsRequest:
    return scheduler_pb2.SubmitJobsRequest(
        client_id="test", specs=[to_message(job, types_pb2.JobSpec) for job in jobs], **more
    )


async def submit(to: Front, *jobs: JobSpec, **more: Any) -> list[scheduler_pb2.SubmitOutcome]:
    return list((await to.scheduler.SubmitJobs(batch(*jobs, **more), timeout=LIMIT_S)).outcomes)


def wrong(name: str) -> JobSpec:
    return spec(name, priority=5000)


def names(master: Front) -> list[str]:
    return [job.spec.name for job in master.state.jobs.values()]


def test_each_job_has_its_outcome_in_the_order_of_the_request() -> None:
    async def story() -> None:
        async with one_master() as master:
            await master.submit(spec("live"))
            jobs = [
                spec("a", cpus=3000),
                wrong("b"),
                replace(spec("c"), queue="nowhere"),
                spec("live"),
                spec("live", cpus=2),
                replace(spec("d"), after=(Dependency(job="a", condition=Condition.ANY),)),
                spec("a", cpus=3000),
            ]
            found = await submit(master, *jobs)
            assert [o.code for o in found] == ["", "INVALID_ARGUMENT", "NOT_FOUND", "", "ALREADY_EXISTS", "", ""]
            assert [o.unchanged for o in found] == [False, False, False, True, False, False, True]
            assert "priority 5000" in found[1].problem
            assert "nowhere" in found[2].problem
            assert found[0].job_id == found[6].job_id
            assert names(master) == ["live", "a", "d"]

    asyncio.run(story())


def test_all_or_nothing_submits_none_where_the_check_finds_something_wrong() -> None:
    async def story() -> None:
        async with one_master() as master:
            await master.submit(spec("live"))
            for bad, code in (
                (wrong("b"), "INVALID_ARGUMENT"),
                (replace(spec("b"), queue="nowhere"), "FAILED_PRECONDITION"),
                (spec("live", cpus=2), "FAILED_PRECONDITION"),
                (spec("a"), "FAILED_PRECONDITION"),
            ):
                revision = master.state.revision
                found = await submit(master, spec("a"), bad, spec("z"), all_or_nothing=True)
                assert [o.code for o in found] == ["ABORTED", code, "ABORTED"]
                assert "at place 1" in found[0].problem
                assert not any(o.job_id for o in found)
                assert master.state.revision <= revision + 2, "nothing but the barrier was proposed"
            assert names(master) == ["live"]
            found = await submit(master, spec("a"), spec("z"), all_or_nothing=True)
            assert [o.code for o in found] == ["", ""]

    asyncio.run(story())


@pytest.mark.parametrize("all_or_nothing", [False, True])
def test_a_repeat_of_a_large_batch_gets_every_first_answer(all_or_nothing: bool) -> None:
    async def story() -> None:
        async with two_masters() as (_, leader, follower):
            jobs = [spec(f"j{number}", hold=True) for number in range(FEW_ANSWERS_PER_CLIENT + 200)]
            more = {"request_id": "r", "all_or_nothing": all_or_nothing}
            first = await submit(follower, *jobs, **more)
            assert len({outcome.job_id for outcome in first}) == len(jobs)
            for job in jobs[:3]:
                await leader.scheduler.CancelJob(scheduler_pb2.CancelJobRequest(job=job.name), timeout=LIMIT_S)
            assert await submit(leader, *jobs, **more) == first
            assert len(leader.state.jobs) == len(jobs)
            taken = leader.state.answer_to("test", "r/1")
            assert taken is not None
            assert taken.subject == first[1].job_id

    asyncio.run(story())


def test_groups_fit_in_an_entry_and_keep_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_GROUP", 30)
    sizes: list[tuple[int, int]] = []

    def note(applied: AppliedBatch) -> None:
        jobs = [c.command for c in applied.commands if isinstance(c.command.body, SubmitJob)]
        if jobs:
            sizes.append((len(jobs), sum(encode_command(command).ByteSize() + 8 for command in jobs)))

    async def story() -> None:
        async with one_master() as master:
            master.replication.follow(note)
            small = [spec(f"s{number}", hold=True) for number in range(100)]
            groups = (replace(small[0].groups[0], env=(("X", "é" * 60_000),)),)
            large = [replace(spec(f"l{n}", hold=True), groups=groups) for n in range(20)]
            jobs = [*small[:50], *[job for n in range(20) for job in (large[n], small[50 + n])], *small[70:]]
            found = await submit(master, *jobs, request_id="r" * 200, user="é" * 200)
            assert not [outcome.problem for outcome in found if outcome.code]
            assert names(master) == [job.name for job in jobs]

    asyncio.run(story())
    assert sum(count for count, _ in sizes) == 120
    assert max(count for count, _ in sizes) == 30
    assert BATCH_BYTES / 2 < max(size for _, size in sizes) <= BATCH_BYTES


def test_jobs_with_deadlines_and_schedules_go_with_the_others() -> None:
    async def story() -> None:
        async with one_master() as master:
            jobs = [
                spec("a"),
                replace(spec("never"), deadline_in_ms=1000, on_miss=OnMiss.REFUSE, estimate_ms=60_000),
                replace(spec("late"), deadline_in_ms=1000, estimate_ms=60_000),
                replace(spec("nightly"), cron="0 3 * * *", timezone="UTC"),
                replace(spec("february"), cron="0 0 31 2 *", timezone="UTC"),
                spec("z"),
            ]
            found = await submit(master, *jobs)
            assert [o.code for o in found][:4] == ["", "FAILED_PRECONDITION", "", ""]
            assert "deadline" in found[2].warnings[0]
            assert names(master)[:3] == ["a", "late", "nightly"]
            assert names(master)[-1] == "z"
            many = [replace(spec(f"d{n}"), deadline_in_ms=1000) for n in range(batches.MAX_DEADLINES + 1)]
            with pytest.raises(grpc.aio.AioRpcError, match="have a deadline"):
                await submit(master, *many)

    asyncio.run(story())


def test_all_or_nothing_looks_at_a_begin_and_a_deadline_that_are_counted_from_different_moments() -> None:
    async def story() -> None:
        async with one_master() as master:
            late = replace(spec("late"), begin_in_ms=1000, deadline_at_ms=1)
            found = await submit(master, spec("a"), late, all_or_nothing=True)
            assert "would begin when its deadline is over" in found[1].problem
            assert names(master) == []

    asyncio.run(story())


def test_what_is_no_batch_is_refused_as_a_whole() -> None:
    async def story() -> None:
        async with one_master() as master:
            for request in (
                batch(),
                batch(spec("a"), request_id="x" * 250),
                scheduler_pb2.SubmitJobsRequest(specs=[types_pb2.JobSpec()] * (batches.MAX_BATCH + 1)),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await master.scheduler.SubmitJobs(request, timeout=LIMIT_S)
                assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            empty = await master.scheduler.SubmitJobs(
                scheduler_pb2.SubmitJobsRequest(specs=[types_pb2.JobSpec()]), timeout=LIMIT_S
            )
            assert empty.outcomes[0].code == "INVALID_ARGUMENT"
            assert not master.state.jobs

    asyncio.run(story())


def test_a_third_batch_waits_for_its_place_and_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "WAIT_S", 0.05)

    async def story() -> None:
        async with one_master() as master:
            service = master.server._scheduler_service.batches
            async with service._place("ann"), service._place("ben"):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await submit(master, spec("a"))
                assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert [o.code for o in await submit(master, spec("a"))] == [""]

    asyncio.run(story())


def test_batches_of_one_user_take_turns_and_leave_a_place_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "WAIT_S", 0.05)

    async def story() -> None:
        async with one_master() as master:
            service = master.server._scheduler_service.batches
            async with service._place("ann"):
                with pytest.raises(ApiError, match="batches of jobs are being submitted already"):
                    async with service._place("ann"):
                        pass
                async with service._place("ben"):
                    pass
            async with service._place("ann"), service._place(""):
                pass
            async with service._place(""), service._place(""):
                pass

    asyncio.run(story())


def test_a_batch_that_breaks_off_is_repeated_at_the_next_leader_without_a_double() -> None:
    async def story() -> None:
        async with two_masters() as (cluster, leader, follower):
            jobs = [spec(f"j{number}") for number in range(30)]
            first = await submit(leader, *jobs[:10], request_id="r")
            cluster.elect("m2")
            await until(lambda: follower.state.leader == "m2")
            again = await submit(follower, *jobs, request_id="r")
            assert again[:10] == first
            assert [job.spec.name for job in follower.state.jobs.values()] == [job.name for job in jobs]

    asyncio.run(story())
