"""Who submitted a job: by certificate, by the client's word, by batch, and again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from gosched.wire.codec import to_message
from gosched.wire.v1 import scheduler_pb2, scheduler_pb2_grpc, types_pb2
from tests.master.harness import LIMIT_S, one_master, spec
from tests.master.test_roles import secured


def request(name: str, user: str = "", request_id: str = "") -> scheduler_pb2.SubmitJobRequest:
    return scheduler_pb2.SubmitJobRequest(
        spec=to_message(spec(name), types_pb2.JobSpec), user=user, request_id=request_id, client_id="c"
    )


def requests(*names: str, user: str = "") -> scheduler_pb2.SubmitJobsRequest:
    specs = [to_message(spec(name), types_pb2.JobSpec) for name in names]
    return scheduler_pb2.SubmitJobsRequest(specs=specs, user=user)


def test_without_tls_the_client_says_who_submits_and_nobody_vouches_for_it() -> None:
    async def story() -> None:
        async with one_master() as master:
            await master.scheduler.SubmitJob(request("a", "alice"), timeout=LIMIT_S)
            await master.scheduler.SubmitJob(request("b"), timeout=LIMIT_S)
            await master.scheduler.SubmitJobs(requests("c", "d", user="carol"), timeout=LIMIT_S)
            jobs = {job.spec.name: (job.user, job.authenticated) for job in master.state.jobs.values()}
            assert jobs == {"a": ("alice", False), "b": ("", False), "c": ("carol", False), "d": ("carol", False)}

    asyncio.run(story())


@pytest.mark.parametrize("user", ["a\nb", "x" * 300])
def test_a_user_that_cannot_be_shown_is_refused(user: str) -> None:
    async def story() -> None:
        async with one_master() as master:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await master.scheduler.SubmitJob(request("a", user), timeout=LIMIT_S)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            answer = await master.scheduler.SubmitJobs(requests("a", user=user), timeout=LIMIT_S)
            assert [outcome.code for outcome in answer.outcomes] == ["INVALID_ARGUMENT"]
            assert not master.state.jobs

    asyncio.run(story())


@pytest.mark.parametrize("master", [0, 1], ids=["leader", "follower"])
def test_a_certificate_says_who_submits_whatever_the_client_says(tmp_path: Path, master: int) -> None:
    async def story() -> None:
        async with secured(tmp_path) as run:
            stub = scheduler_pb2_grpc.SchedulerServiceStub(run.channel(run.authority.files("alice", "client"), master))
            await stub.SubmitJob(request("a", "mallory"), timeout=LIMIT_S)
            await stub.SubmitJobs(requests("b", user="mallory"), timeout=LIMIT_S)
            jobs = run.cluster.members["m1"].state.jobs.values()
            assert [(job.user, job.authenticated) for job in jobs] == [("alice", True)] * 2

    asyncio.run(story())


def test_a_repeated_request_keeps_the_first_user() -> None:
    async def story() -> None:
        async with one_master() as master:
            first = await master.scheduler.SubmitJob(request("a", "alice", "r1"), timeout=LIMIT_S)
            again = await master.scheduler.SubmitJob(request("a", "bob", "r1"), timeout=LIMIT_S)
            met = await master.scheduler.SubmitJob(request("a", "bob", "r2"), timeout=LIMIT_S)
            assert (again.job_id, met.job_id, met.unchanged) == (first.job_id, first.job_id, True)
            assert [(job.id, job.user) for job in master.state.jobs.values()] == [(first.job_id, "alice")]

    asyncio.run(story())
