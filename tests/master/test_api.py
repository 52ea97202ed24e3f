"""What users send, good and bad, and what they get."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import grpc
import pytest

from gosched.core.records.job import JobState
from gosched.core.spec.job_spec import JobSpec
from gosched.master.leader import leader
from gosched.wire.v1 import scheduler_pb2
from tests.master.harness import LIMIT_S, Front, one_master, spec, submission, until


async def refusal(master: Front, job: JobSpec) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await master.submit(job)
    detail = raised.value.details() or ""
    assert "\n" not in detail
    return raised.value.code(), detail


def with_env(job: JobSpec, value: str) -> JobSpec:
    return replace(job, groups=(replace(job.groups[0], env=(("X", value),)),))


def test_bad_jobs_are_refused_in_one_line_and_change_nothing() -> None:
    async def story() -> None:
        async with one_master() as master:
            await master.submit(spec("taken"))
            jobs = dict(master.state.jobs)
            invalid = grpc.StatusCode.INVALID_ARGUMENT
            no_queue = replace(spec(), queue="nope")
            for job, code, words in (
                (no_queue, grpc.StatusCode.NOT_FOUND, "nope"),
                (spec(count=0), invalid, "at least 1"),
                (spec(count=-1), invalid, "at least 1"),
                (spec("with\nnewline"), invalid, "name"),
                (with_env(spec(), "x" * 10_000_000), invalid, "keep data in files"),
                (with_env(spec(), "x" * 300_000), invalid, "keep data in files"),
                (spec("taken", cpus=2), grpc.StatusCode.ALREADY_EXISTS, "taken"),
            ):
                got, detail = await refusal(master, job)
                assert got is code, detail
                assert words in detail
            assert master.state.jobs == jobs

    asyncio.run(story())


def test_bytes_that_are_not_utf8_are_refused_in_one_line() -> None:
    async def story() -> None:
        async with one_master() as master:
            broken = submission(spec("abc")).SerializeToString().replace(b"abc", b"\xff\xfe\xfd")
            call = master.channel.unary_unary("/gosched.v1.SchedulerService/SubmitJob")
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await call(broken, timeout=LIMIT_S)
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "UTF-8" in (raised.value.details() or "")

    asyncio.run(story())


def test_a_request_that_no_node_could_hold_is_accepted_with_a_warning() -> None:
    async def story() -> None:
        async with one_master() as master:
            answer = await master.submit(spec(cpus=9))
            assert answer.warnings == ["no node has joined yet"]
            assert (await master.job(answer.job_id)).job.state == JobState.PENDING

    asyncio.run(story())


def test_a_repeated_request_id_gives_the_first_answer_and_an_equal_live_job_is_found() -> None:
    async def story() -> None:
        async with one_master() as master:
            first = await master.submit(spec("a"), "r1")
            again = await master.submit(spec("a"), "r1")
            equal = await master.submit(spec("a"), "r2")
            assert (again.job_id, again.unchanged) == (first.job_id, False)
            assert (equal.job_id, equal.unchanged) == (first.job_id, True)

    asyncio.run(story())


def test_jobs_are_listed_newest_first_page_by_page() -> None:
    async def story() -> None:
        async with one_master() as master:
            for i in range(5):
                await master.submit(replace(spec(f"j{i}"), labels=(("even", str(i % 2 == 0)),)))
            names, token = [], ""
            while True:
                page = await master.scheduler.ListJobs(
                    scheduler_pb2.ListJobsRequest(page_size=2, page_token=token), timeout=LIMIT_S
                )
                names.append([job.spec.name for job in page.jobs])
                token = page.next_page_token
                if not token:
                    break
            assert names == [["j4", "j3"], ["j2", "j1"], ["j0"]]
            even = await master.scheduler.ListJobs(
                scheduler_pb2.ListJobsRequest(labels={"even": "True"}), timeout=LIMIT_S
            )
            assert [job.spec.name for job in even.jobs] == ["j4", "j2", "j0"]
            done = await master.scheduler.ListJobs(
                scheduler_pb2.ListJobsRequest(states=["JOB_STATE_SUCCEEDED"]), timeout=LIMIT_S
            )
            assert not done.jobs

    asyncio.run(story())


def test_finished_jobs_beyond_the_configured_number_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "RETENTION_CHECK_S", 0.05)

    async def story() -> None:
        async with one_master(retention={"max_jobs": 1}) as master:
            for name in ("a", "b"):
                await master.submit(spec(name))
                await master.scheduler.CancelJob(scheduler_pb2.CancelJobRequest(job=name), timeout=LIMIT_S)
            await until(lambda: "a" not in {job.spec.name for job in master.state.jobs.values()})
            assert [job.spec.name for job in master.state.jobs.values()] == ["b"]

    asyncio.run(story())


def test_grpc_finds_methods_by_name_for_it_looks_at_all_registered_ones_in_each_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registered = []
    make = grpc.aio.server

    def make_watched(**options: Any) -> Any:
        server: Any = make(**options)
        server.add_registered_method_handlers = lambda service, _: registered.append(service)
        return server

    monkeypatch.setattr(grpc.aio, "server", make_watched)

    async def story() -> None:
        async with one_master() as master:
            await master.submit(spec())
            assert registered == []

    asyncio.run(story())
