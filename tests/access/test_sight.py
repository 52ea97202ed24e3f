"""What a user sees of others, and what ends when a role is taken away."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import grpc
import pytest
from google.protobuf.json_format import MessageToJson

from gosched.core.access import Identity, Permission, job_object, may
from gosched.core.records.access import AccessRole, Binding
from gosched.core.spec.isolation import Isolation
from gosched.wire.codec import to_message
from gosched.wire.v1 import history_pb2, history_pb2_grpc, scheduler_pb2, types_pb2
from tests.access.stage import BINDINGS, Stage, end_of, job_of, staged
from tests.audit.lines import whole_lines
from tests.master import http_client
from tests.master.harness import LIMIT_S

SECRET = "foreign"  # the name of the job of tenant b


async def read_all(stage: Stage, user: str, master: int) -> dict[str, str]:
    """Return the answers of all lists to a user, as text."""
    scheduler = stage.scheduler(user, master)
    history = history_pb2_grpc.HistoryServiceStub(stage.channel(user, master))
    found = {
        "jobs": await scheduler.ListJobs(scheduler_pb2.ListJobsRequest()),
        "rows": await scheduler.ListJobs(scheduler_pb2.ListJobsRequest(rows=True)),
        "quotas": await scheduler.ListQuotas(scheduler_pb2.ListQuotasRequest()),
        "reservations": await scheduler.ListReservations(scheduler_pb2.ListReservationsRequest()),
        "waits": await scheduler.ListWaits(scheduler_pb2.ListWaitsRequest(jobs=list(stage.state.jobs))),
        "events": await history.ListEvents(history_pb2.ListEventsRequest()),
        "finished": await history.ListFinishedJobs(history_pb2.ListFinishedJobsRequest()),
        "explain": await scheduler.ExplainJob(scheduler_pb2.GetJobRequest(job="own")),
    }
    texts = {name: MessageToJson(answer) for name, answer in found.items()}
    tls = stage.context(user)
    address = f"localhost:{stage.servers[master].record.http_address.rpartition(':')[2]}"
    for path in (
        "/",
        "/jobs",
        "/schedule",
        "/nodes",
        "/queues",
        "/jobs/own",
        "/jobs?name=foreign",
        "/submit?like=foreign",
    ):
        texts[path] = (await http_client.request(address, "GET", path, tls=tls)).text
    for path in ("jobs", "events", "history/jobs"):
        texts[path] = (await http_client.request(address, "GET", f"/api/v1/{path}", tls=tls)).text
    return texts


@pytest.mark.parametrize("master", [0, 1], ids=["leader", "follower"])
def test_nothing_that_a_user_reads_names_a_job_of_another_tenant(tmp_path: Path, master: int) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            for user in ("sue", "tina", "vera"):
                texts = await read_all(stage, user, master)
                told = [name for name, text in texts.items() if SECRET in text.replace("?name=foreign", "")]
                assert [name for name in told if 'value="foreign"' not in texts[name]] == [], user
            everything = await read_all(stage, "root", master)
            assert all(SECRET in everything[name] for name in ("jobs", "rows", "events", "/jobs", "/"))

    asyncio.run(story())


def test_another_tenants_job_is_listed_without_its_contents_where_the_config_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path, other_tenants="listed") as stage:
            sue = stage.scheduler("sue")
            rows = (await sue.ListJobs(scheduler_pb2.ListJobsRequest(rows=True))).rows
            assert sorted(row.name for row in rows) == ["foreign", "mates", "own"]
            whole = (await sue.ListJobs(scheduler_pb2.ListJobsRequest())).jobs
            assert sorted(job.spec.name for job in whole) == ["mates", "own"]
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await sue.GetJob(scheduler_pb2.GetJobRequest(job="foreign"))
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED

    asyncio.run(story())


@pytest.mark.parametrize("master", [0, 1], ids=["leader", "follower"])
def test_a_stream_ends_when_its_user_loses_its_role(tmp_path: Path, master: int) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage, asyncio.timeout(LIMIT_S):
            watch = stage.scheduler("sue", master).WatchJob(scheduler_pb2.GetJobRequest(job="own"))
            assert (await watch.read()).job.spec.name == "own"
            events = history_pb2_grpc.HistoryServiceStub(stage.channel("sue", master)).WatchEvents(
                history_pb2.ListEventsRequest()
            )
            await events.read()
            await stage.bind(*[one for one in BINDINGS if one.name != "people-of-a"])
            for stream in (watch, events):
                assert await end_of(stream) == "PERMISSION_DENIED"

    asyncio.run(story())


def test_tasks_run_as_accounts_that_a_binding_names(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            people = Binding(
                name="people-of-a",
                role=AccessRole.SUBMITTER,
                users=("mate", "sue"),
                tenants=("a",),
                accounts=("$user", "shared"),
            )
            await stage.bind(people)

            async def submits(user: str, account: str) -> bool:
                spec = to_message(job_of(f"as-{user}-{account or 'none'}", "a"), types_pb2.JobSpec)
                for group in spec.groups:
                    group.isolation.CopyFrom(to_message(Isolation(user=account), types_pb2.Isolation))
                try:
                    await stage.scheduler(user).SubmitJob(scheduler_pb2.SubmitJobRequest(spec=spec))
                except grpc.aio.AioRpcError as error:
                    return error.code() is not grpc.StatusCode.PERMISSION_DENIED
                return True

            accounts = ("", "sue", "shared", "mate", "root", "0")
            assert [await submits("sue", account) for account in accounts] == [True, True, True, False, False, False]
            assert await submits("root", "mate")

    asyncio.run(story())


def test_a_user_of_no_tls_claims_no_job_once_there_is_tls(tmp_path: Path) -> None:
    """A job that was submitted without a certificate is nobody's own, whatever its client said."""

    async def story() -> None:
        async with staged(tmp_path) as stage:
            job = stage.state.find_job("own")
            binding = [one for one in BINDINGS if one.name == "people-of-a"]
            sue = Identity(user="sue")
            assert may(binding, sue, Permission.CHANGE_JOB, job_object(job))
            claimed = type(job)(**{**{f: getattr(job, f) for f in job.__dataclass_fields__}, "authenticated": False})
            assert not may(binding, sue, Permission.CHANGE_JOB, job_object(claimed))

    asyncio.run(story())


def test_a_repeat_of_a_change_gets_its_first_answer_also_when_the_job_is_gone(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            request = scheduler_pb2.CancelJobRequest(job="own", client_id="c", request_id="r")
            first = await stage.scheduler("sue").CancelJob(request)
            assert (await stage.scheduler("sue").CancelJob(request)).job_id == first.job_id
            assert json.loads(MessageToJson(first))["jobId"] == first.job_id

    asyncio.run(story())


def test_the_audit_log_says_what_the_caller_is_not_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path, {"audit": {"path": str(tmp_path / "audit")}}, masters=("m1",)) as stage:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stage.scheduler("sue").GetJob(scheduler_pb2.GetJobRequest(job="foreign"))
            assert refused.value.details() == "there is no job 'foreign'"
        (line,) = [one for one in whole_lines(tmp_path / "audit") if one["action"] == "SchedulerService/GetJob"]
        assert (line["outcome"], line["user"]) == ("refused", "sue")
        assert "of tenant b, queue root.b" in line["reason"]

    asyncio.run(story())
