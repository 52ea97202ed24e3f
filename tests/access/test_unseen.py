"""What one tenant is answered does not change with what another one does: the same calls on two clusters, compared.

Both have the same jobs of tenant a. In one of them tenant b is busy as well: its jobs have names of a's, they end
between those of a, wait, are held, are made by arrays and schedules. What every user may know is left out before the
answers are compared: the number of jobs that there were and the revision, the totals of status, the time.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from gosched.core.records.access import AccessRole, Binding
from gosched.core.replace import replace
from gosched.core.spec.array import Array
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.placement_rules import AntiAffinity
from gosched.wire.codec import to_message
from gosched.wire.v1 import access_pb2, history_pb2, history_pb2_grpc, node_pb2, scheduler_pb2, secret_pb2, types_pb2
from tests.access.stage import BINDINGS, Stage, job_of, staged
from tests.access.walk import ROUTES, SERVICES
from tests.master import http_client
from tests.master.harness import LIMIT_S, until
from tests.replication.certificates import Authority

USERS = ("sue", "vera")
ENDED = 3  # jobs of tenant a that have ended; between them some of b end
#: How tenant a may call jobs of tenant b: names that a has, too, and names that it has not.
FOREIGN = ("nightly", "b/own", "many.0")
OWN = ("own", "a/done", "array")
#: Requests about no single job.
LISTS: dict[str, list[Any]] = {
    "ListJobs": [
        scheduler_pb2.ListJobsRequest(),
        scheduler_pb2.ListJobsRequest(rows=True, order=scheduler_pb2.JOB_ORDER_NAME),
        scheduler_pb2.ListJobsRequest(rows=True, tenant="b"),
        scheduler_pb2.ListJobsRequest(rows=True, queue="root.b"),
        scheduler_pb2.ListJobsRequest(parent="many"),
    ],
    "ListWaits": [scheduler_pb2.ListWaitsRequest(jobs=["own", "nightly"])],
    "ListQuotas": [scheduler_pb2.ListQuotasRequest()],
    "ListReservations": [scheduler_pb2.ListReservationsRequest()],
    "ListEvents": [
        history_pb2.ListEventsRequest(),
        history_pb2.ListEventsRequest(page_size=3),
        history_pb2.ListEventsRequest(since_ms=1, page_size=2),
        history_pb2.ListEventsRequest(tenant="b"),
    ],
    "ListFinishedJobs": [history_pb2.ListFinishedJobsRequest(), history_pb2.ListFinishedJobsRequest(tenant="b")],
    "ListUsage": [node_pb2.ListUsageRequest(tasks=True)],
    "ListNodes": [node_pb2.ListNodesRequest()],
    "ListTokens": [access_pb2.ListTokensRequest()],
    "ListBindings": [access_pb2.ListBindingsRequest()],
    "ListSecrets": [secret_pb2.ListSecretsRequest(tenant="b"), secret_pb2.ListSecretsRequest()],
}
#: Requests about a job.
ABOUT: dict[str, Any] = {
    "GetJob": lambda job: scheduler_pb2.GetJobRequest(job=job),
    "WatchJob": lambda job: scheduler_pb2.GetJobRequest(job=job),
    "ExplainJob": lambda job: scheduler_pb2.GetJobRequest(job=job),
    "StreamJobLogs": lambda job: scheduler_pb2.StreamJobLogsRequest(job=job),
    "ListAttempts": lambda job: history_pb2.ListAttemptsRequest(job=job),
    "ListUsage": lambda job: node_pb2.ListUsageRequest(job=job),
    "ListEvents": lambda job: history_pb2.ListEventsRequest(job=job),
    "ListJobs": lambda job: scheduler_pb2.ListJobsRequest(parent=job),
    "CheckAccess": lambda job: access_pb2.CheckAccessRequest(permission="exec", job=job),
    "CancelJob": lambda job: scheduler_pb2.CancelJobRequest(job=job, reason="x" * 2000),
    "ControlJob": lambda job: scheduler_pb2.ControlJobRequest(job=job, action=types_pb2.ACTION_SCALE, tasks=99),
}
PAGES = ("/", "/jobs", "/jobs?name=nightly", "/jobs?tenant=b", "/jobs?sort=name", "/schedule", "/nodes", "/queues")
#: Of what counts for all tenants together.
TOTALS = (
    "GET /api/v1/status",
    "GET /api/v1/queues",
    "GET /api/v1/queues/root",
    "GET /api/v1/cluster/members",
    "GET /",
    "GET /queues",
)
_PUBLIC = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?|\d\d:\d\d:\d\d"), "TIME"),
    (re.compile(r"(\d+ (s|min|h)\b ?)+(ago)?"), "SPAN"),
    (re.compile(r"\b\d{13}\b"), "MS"),
    (re.compile(r'("(?:revision|sequence|oldest)": ?|data-revision=|id="revision">)"?\d+"?'), r"\1N"),
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), "ADDRESS"),
    (re.compile(r'(name="nonce" value=|data-nonce=)"\w+"'), "NONCE"),
)


async def made(stage: Stage, *, busy: bool) -> None:
    """Make the jobs."""
    sue, bert = stage.scheduler("sue"), stage.scheduler("bert")
    for number in range(ENDED):
        await submitted(sue, job_of("done", "a"))
        await sue.CancelJob(scheduler_pb2.CancelJobRequest(job="done", reason="see nightly and b/nightly"))
        for name in (f"x-{number}", "done") if busy else ():
            await submitted(bert, job_of(name, "b"))
            await bert.CancelJob(scheduler_pb2.CancelJobRequest(job=name))
    if busy:
        for name in ("nightly", "own", "array.0"):
            await submitted(bert, job_of(name, "b"))
        await submitted(bert, replace(job_of("etl", "b"), after=after("nightly")))
        await submitted(bert, replace(job_of("held", "b"), hold=True))
        await submitted(bert, replace(job_of("many", "b"), array=Array(last=1, step=1)))
        await submitted(bert, replace(job_of("cron", "b"), cron="0 2 * * *", timezone="UTC"))
        await stage.access("bert").CreateToken(
            access_pb2.CreateTokenRequest(name="t", role=types_pb2.ACCESS_ROLE_VIEWER, lasts_ms=60_000)
        )
    await submitted(sue, replace(job_of("array", "a"), array=Array(last=1, step=1)))
    await submitted(sue, replace(job_of("waits", "a"), after=after("own")))
    await until(lambda: stage.state.find_job("a/array").children.made == 2)
    ours = {job.id for job in stage.state.jobs.values() if job.spec.tenant == "a" and job.id in stage.state.pending}
    stub = history_pb2_grpc.HistoryServiceStub(stage.channel("root"))
    async with asyncio.timeout(LIMIT_S):  # until it is noted why they wait
        while True:
            queued = await stub.ListEvents(history_pb2.ListEventsRequest(kinds=["job_queued"]))
            if ours <= {event.job_id for event in queued.events}:
                break
            await asyncio.sleep(0.05)


def after(job: str) -> tuple[Dependency, ...]:
    return (Dependency(job=job, condition=Condition.ANY),)


async def submitted(scheduler: Any, spec: JobSpec) -> str:
    request = scheduler_pb2.SubmitJobRequest(spec=to_message(spec, types_pb2.JobSpec))
    return str((await scheduler.SubmitJob(request)).job_id)


async def outcome(call: Awaitable[Any]) -> str:
    """Return the answer of a call, or how it is refused."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name}: {error.details()} {error.trailing_metadata()}"
    return MessageToJson(answer) if isinstance(answer, Message) else str(answer is grpc.aio.EOF)


async def read(stage: Stage, user: str) -> dict[str, str]:
    """Return all that a user reads, and how it is refused, by what was asked."""
    found: dict[str, str] = {}
    for module in SERVICES.values():
        for method in [one for service in module.DESCRIPTOR.services_by_name.values() for one in service.methods]:
            asked = LISTS.get(method.name, [])
            asked = [*asked, *[ABOUT[method.name](job) for job in (*FOREIGN, *OWN) if method.name in ABOUT]]
            for request in asked:
                found[f"{method.name} {MessageToJson(request, indent=None)}"] = await rpc(stage, user, method, request)
    spec = job_of("new", "a")
    for job in FOREIGN:
        apart = replace(spec.groups[0], anti_affinity=(AntiAffinity(job=job),))
        for what, planned in (("after", replace(spec, after=after(job))), ("apart", replace(spec, groups=(apart,)))):
            request = scheduler_pb2.PlanJobRequest(specs=[to_message(planned, types_pb2.JobSpec)])
            found[f"plan {what} {job}"] = await outcome(stage.scheduler(user).PlanJob(request))
    if user == "vera":
        return found
    tls, address = stage.context(user), f"localhost:{stage.servers[0].record.http_address.rpartition(':')[2]}"
    for path in paths():
        answer = await http_client.request(address, "GET", path, tls=tls)
        found[f"GET {path}"] = f"{answer.status} {answer.text}"
    return found


async def submit(stage: Stage) -> dict[str, str]:
    """Submit jobs that have names of hidden jobs, or name such; return what is answered."""
    sue, spec, found = stage.scheduler("sue"), job_of("new", "a"), dict[str, str]()
    for number, job in enumerate(FOREIGN):
        apart = replace(spec.groups[0], anti_affinity=(AntiAffinity(job=job),))
        for what, named in (("after", replace(spec, after=after(job))), ("apart", replace(spec, groups=(apart,)))):
            found[f"submit {what} {job}"] = await outcome(submitted(sue, replace(named, name=f"{what}-{number}")))
            both = [to_message(replace(named, name=f"{what}-{number}-{n}"), types_pb2.JobSpec) for n in range(2)]
            batch = scheduler_pb2.SubmitJobsRequest(specs=both, all_or_nothing=True)
            found[f"submit twice {what} {job}"] = await outcome(sue.SubmitJobs(batch))
    for name in ("nightly", "many.0", "etl"):
        found[f"submit {name}"] = await outcome(submitted(sue, job_of(name, "a")))
    return found


def paths() -> Iterator[str]:
    """Yield the addresses of REST and of pages, those of jobs for each of the jobs."""
    values = {"queue": "root", "node": "n", "tenant": "b", "name": "w", "token": "none", "member": "m9"}
    jobs = [quote(job, safe="") for job in (*FOREIGN, *OWN)]
    for route in [route.removeprefix("GET ") for route in ROUTES if route.startswith("GET ")]:
        yield from dict.fromkeys(route.format(job=job, **values) for job in jobs)
    yield from (f"/jobs/{job}" for job in jobs)
    yield from (f"/jobs/{jobs[0]}/{page}" for page in ("logs", "usage", "spec"))
    yield from (f"/submit?like={job}" for job in jobs)
    yield from (f"/api/v1/events?job={job}" for job in jobs)
    yield from PAGES


async def rpc(stage: Stage, user: str, method: Any, request: Any) -> str:
    write, parse = type(request).SerializeToString, GetMessageClass(method.output_type).FromString
    multi = stage.channel(user).unary_stream if method.server_streaming else stage.channel(user).unary_unary
    path = f"/{method.containing_service.full_name}/{method.name}"
    call = multi(path, request_serializer=write, response_deserializer=parse)(request)
    try:
        async with asyncio.timeout(LIMIT_S):
            return await outcome(call.read() if method.server_streaming else call)
    finally:
        call.cancel()


def normal(found: dict[str, str], ids: dict[str, str]) -> dict[str, str]:
    """Return the answers without what every user may know, and with names in the place of ids."""
    texts = {}
    for asked, text in found.items():
        for job_id, name in ids.items():
            text = text.replace(job_id, f"<{name}>")
        for pattern, instead in _PUBLIC:
            text = pattern.sub(instead, text)
        texts[asked] = text.replace(", ", ",\n")
    return texts


def test_what_a_tenant_is_answered_does_not_tell_what_another_one_does(tmp_path: Path) -> None:
    async def answers(folder: Path, *, busy: bool) -> dict[str, str]:
        async with staged(folder, authority=Authority(tmp_path / "ca")) as stage:
            await made(stage, busy=busy)
            found = {f"{user}: {asked}": text for user in USERS for asked, text in (await read(stage, user)).items()}
            found |= await submit(stage)
            own = [job for job in stage.state.jobs.values() if job.spec.tenant == "a"]
            return normal(found, {job.id: f"<a-{place}>" for place, job in enumerate(own)})

    quiet, busy = [asyncio.run(answers(tmp_path / str(one), busy=one)) for one in (False, True)]
    differ = [asked for asked in quiet if quiet[asked] != busy[asked] and asked.partition(": ")[2] not in TOTALS]
    told = {asked: [*unified_diff(quiet[asked].split("\n"), busy[asked].split("\n"), n=0)][2:20] for asked in differ}
    assert not told, f"{len(told)} of {len(quiet)} answers differ: {json.dumps(told, indent=1)}"


def test_a_name_is_first_one_of_the_callers_own_tenants_and_pages_end_with_its_own_jobs(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path, masters=("m1",)) as stage:
            await made(stage, busy=True)
            ours = await submitted(stage.scheduler("sue"), job_of("nightly", "a"))
            theirs = stage.state.find_job("b/nightly").id
            await check_names(stage, ours, theirs)
            await check_pages(stage)

    asyncio.run(story())


async def check_names(stage: Stage, ours: str, theirs: str) -> None:
    async def found(user: str, job: str) -> str:
        said = await outcome(stage.scheduler(user).GetJob(scheduler_pb2.GetJobRequest(job=job)))
        return (
            said.partition(" Metadata")[0]
            if said.startswith("N") or "INVALID" in said
            else json.loads(said)["job"]["id"]
        )

    assert [await found(user, "nightly") for user in ("sue", "bert", "vera")] == [ours, theirs, ours]
    assert [await found("root", job) for job in ("a/nightly", "b/nightly")] == [ours, theirs]
    both = "INVALID_ARGUMENT: 2 live jobs are named nightly: say which one, a/nightly or b/nightly"
    assert await found("root", "nightly") == both
    assert await found("sue", "b/nightly") == "NOT_FOUND: there is no job 'b/nightly'"
    await stage.bind(*BINDINGS, Binding(name="eye", role=AccessRole.VIEWER, users=("sue",), tenants=("b",)))
    assert await found("sue", "nightly") == ours, "it sees both, and one is of its own tenant"
    await stage.bind(*BINDINGS)
    address = f"localhost:{stage.servers[0].record.http_address.rpartition(':')[2]}"
    for path, status in (
        ("/api/v1/jobs/a%2Fnightly", 200),
        ("/api/v1/jobs/a%2fnightly/attempts", 200),
        ("/jobs/a%2Fnightly", 200),
        ("/api/v1/jobs/b%2Fnightly", 404),
        ("/api/v1/jobs/nightly", 200),
        ("/api/v1/jobs/a/nightly", 404),
    ):
        answer = await http_client.request(address, "GET", path, tls=stage.context("sue"))
        assert (path, answer.status) == (path, status)
        assert status != 200 or theirs not in answer.text
    answer = await http_client.request(address, "POST", "/api/v1/jobs/b%2Fnightly/cancel", tls=stage.context("bert"))
    assert json.loads(answer.text)["id"] == theirs


async def check_pages(stage: Stage) -> None:
    """Look at each page of one job, and at what its token says."""
    await submitted(stage.scheduler("bert"), job_of("later", "b"))
    history = history_pb2_grpc.HistoryServiceStub(stage.channel("sue"))
    token, lengths = "", list[int]()
    while len(lengths) < 9 and (token or not lengths):
        page = await history.ListFinishedJobs(history_pb2.ListFinishedJobsRequest(page_size=1, page_token=token))
        lengths.append(len(page.jobs))
        last, token = token, page.next_page_token
        assert not token or token.split(":")[1] == page.jobs[0].job_id
    assert lengths == [1] * ENDED
    request = history_pb2.ListFinishedJobsRequest(page_size=1, page_token=last)
    others = history_pb2_grpc.HistoryServiceStub(stage.channel("bert"))
    assert "page_token is of another request" in await outcome(others.ListFinishedJobs(request))
    seen = [job for job in stage.state.jobs.values() if job.spec.tenant == "a"]
    for order in (scheduler_pb2.JOB_ORDER_SUBMITTED, scheduler_pb2.JOB_ORDER_NAME):
        first = scheduler_pb2.ListJobsRequest(rows=True, page_size=2, order=order)
        page = await stage.scheduler("vera").ListJobs(first)
        _, _, _, horizon, _, sequence = json.loads(base64.urlsafe_b64decode(page.next_page_token + "=="))
        assert horizon == 1 + max(job.sequence for job in seen) < stage.state.next_sequence
        assert sequence in [job.sequence for job in seen]
        first.page_token = page.next_page_token
        assert "page_token is of another request" in await outcome(stage.scheduler("mate").ListJobs(first))
        assert len((await stage.scheduler("vera").ListJobs(first)).rows) == 2
