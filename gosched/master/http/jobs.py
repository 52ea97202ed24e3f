"""REST of jobs: list, show, explain, control.

Beside it are submissions (`submissions.py`) and logs (`logs.py`). Commands in tasks (exec) need both directions at
once: they are left to gRPC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from gosched.api.details import JobDetail
from gosched.api.explanation import JobExplanation
from gosched.api.job_query import MAX_PAGE, Direction, JobOrder, JobQuery
from gosched.api.job_row import JobRow
from gosched.api.json.explanations import explanation_json
from gosched.api.json.jobs import job_detail_json, job_json, job_with_tasks
from gosched.api.json.values import Json
from gosched.api.usage import TaskUsage
from gosched.config.errors import suggestion
from gosched.config.jobs.writer import Unwritable, job_keys, job_text
from gosched.core.commands.jobs import Action
from gosched.core.limits import MAX_DETAIL_LENGTH, MAX_NAME_LENGTH, MAX_TASKS_PER_JOB
from gosched.core.records.job import JobState
from gosched.master.base.errors import invalid, unmet
from gosched.master.http.call import Call, HttpCall, JsonResponse, Names, json_array
from gosched.master.http.job_bodies import JOB_FILE, JSON, YAML
from gosched.master.http.routes import JobName, Stale, answers, labels_of, moment_of, rest_router
from gosched.master.jobs.page_tokens import MAX_TOKEN_LENGTH
from gosched.wire.codec import to_message, to_record
from gosched.wire.v1 import node_pb2, scheduler_pb2

PAGE = 100  # jobs

router = rest_router("jobs")

State = Literal["PENDING", "RUNNING", "SUSPENDED", "SUCCEEDED", "FAILED", "CANCELLED"]
Sort = Literal[
    "submitted",
    "-submitted",
    "started",
    "-started",
    "ended",
    "-ended",
    "name",
    "-name",
    "priority",
    "-priority",
]

_KEYS = [member.key for member in job_json.members]
_some_of_a_job: Json = {**job_json.schema(), "required": []}
_page: Json = {
    "type": "object",
    "properties": {
        "jobs": {"type": "array", "items": {**_some_of_a_job, "title": "Job"}},
        "next_page_token": {"type": "string", "description": "Empty: these were the last ones."},
        "revision": {"type": "integer"},
    },
    "required": ["jobs", "next_page_token", "revision"],
}
changed_schema: Json = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "unchanged": {"type": "boolean", "description": "It was so already."},
        "revision": {"type": "integer"},
    },
    "required": ["id", "unchanged", "revision"],
}


@router.get("/jobs", summary="List jobs", **answers("JobPage", _page))
async def list_jobs(
    call: Call,
    state: Annotated[list[State], Query(description="In one of these states.")] = [],  # noqa: B006 - FastAPI copies it
    queue: Annotated[str, Query(max_length=MAX_NAME_LENGTH, description="In this queue, or in one below it.")] = "",
    tenant: Annotated[str, Query(max_length=MAX_NAME_LENGTH)] = "",
    user: Annotated[str, Query(max_length=MAX_NAME_LENGTH, description="Submitted by this user.")] = "",
    label: Annotated[list[str], Query(description="With this label, as key=value; with all that are given.")] = [],  # noqa: B006
    since: Annotated[
        str,
        Query(
            max_length=64,
            description="Submitted or ended then or later: RFC 3339, or 2h for two hours ago.",
            examples=["2026-12-01T06:00:00Z", "2h"],
        ),
    ] = "",
    ended_since: Annotated[
        str,
        Query(
            max_length=64,
            description="All that live, and of those that have ended only such as ended then or later; as in `since`.",
            examples=["1h"],
        ),
    ] = "",
    parent: Annotated[
        str, Query(max_length=600, description="Children of this array or schedule, by id, name or TENANT/NAME.")
    ] = "",
    sort: Annotated[
        Sort, Query(description="With - from the last to the first. Jobs without the moment come last, either way.")
    ] = "-submitted",
    page_size: Annotated[int, Query(ge=1, le=MAX_PAGE)] = PAGE,
    page_token: Annotated[
        str,
        Query(
            max_length=MAX_TOKEN_LENGTH,
            description="`next_page_token` of the page before, with the same filters and order.",
        ),
    ] = "",
    fields: Annotated[
        str, Query(max_length=1024, description=f"Members of each job, with commas between them: {', '.join(_KEYS)}.")
    ] = "",
    stale: Stale = False,
) -> JsonResponse:
    wanted = _fields(fields)
    query = JobQuery(
        states=tuple([JobState[name] for name in state]),
        queue=queue,
        tenant=tenant,
        user=user,
        labels=tuple(sorted(labels_of(label).items())),
        since_ms=moment_of("since", since),
        ended_since_ms=moment_of("ended_since", ended_since),
        parent=parent,
        order=JobOrder[sort.removeprefix("-").upper()],
        direction=Direction.DESCENDING if sort.startswith("-") else Direction.ASCENDING,
        page_size=page_size,
        page_token=page_token,
        rows=True,
    )
    page = await call.ask("ListJobs", to_message(query, scheduler_pb2.ListJobsRequest), stale=stale)
    rows = (to_record(message, JobRow) for message in page.rows)
    jobs = await json_array({key: read(row) for key, read in wanted} for row in rows)
    rest = json.dumps({"next_page_token": page.next_page_token, "revision": page.revision}).encode()
    return JsonResponse(b'{"jobs": %b, %b' % (jobs, rest.removeprefix(b"{")))


@router.get("/jobs/{job}", summary="Show a job and its tasks", **answers("JobWithTasks", job_with_tasks.schema()))
async def show_job(job: JobName, call: Call, stale: Stale = False) -> JsonResponse:
    detail = await _detail(call, job, stale=stale)
    live: Iterable[TaskUsage] = ()
    if detail.job.active:
        usage = await call.ask("ListUsage", node_pb2.ListUsageRequest(job=detail.id, tasks=True), stale=stale)
        live = [to_record(task, TaskUsage) for task in usage.tasks]
    return JsonResponse(job_detail_json(detail, live))


@router.get(
    "/jobs/{job}/spec",
    summary="Show a job as the job file that submits it again",
    responses={200: {"description": "JobFile", "content": {kind: {"schema": JOB_FILE} for kind in (JSON, YAML)}}},
)
async def show_spec(job: JobName, call: Call, request: Request, stale: Stale = False) -> Response:
    spec = (await _detail(call, job, stale=stale)).job.spec
    try:
        if _prefers_yaml(request.headers.get("accept", "")):
            return Response(job_text(spec), media_type=YAML)
        return JsonResponse(job_keys(spec))
    except Unwritable as error:
        raise unmet(f"job {spec.name} cannot be written as a job file: {error}") from error


@router.get(
    "/jobs/{job}/explain", summary="Explain why a job waits", **answers("Explanation", explanation_json.schema())
)
async def explain(job: JobName, call: Call) -> JsonResponse:
    message = await call.ask("ExplainJob", scheduler_pb2.GetJobRequest(job=job))
    return JsonResponse(explanation_json(to_record(message, JobExplanation)))


@router.post("/jobs/{job}/cancel", summary="Cancel a job", **answers("ChangedJob", changed_schema))
async def cancel(
    job: JobName,
    call: Call,
    names: Names,
    reason: Annotated[str, Query(max_length=MAX_DETAIL_LENGTH, description="Stored with the job.")] = "",
) -> JsonResponse:
    request = scheduler_pb2.CancelJobRequest(
        client_id=names.client_id, request_id=names.request_id, job=job, reason=reason
    )
    return _changed(await call.ask("CancelJob", request))


@router.post(
    "/jobs/{job}/suspend",
    summary="Freeze a job's tasks where they run, until it is resumed",
    **answers("ChangedJob", changed_schema),
)
async def suspend(
    job: JobName,
    call: Call,
    names: Names,
    free: Annotated[
        bool, Query(description="Stop the tasks instead, which frees their resources; a resume starts them anew.")
    ] = False,
) -> JsonResponse:
    return await _control(call, names, job, Action.SUSPEND if free else Action.FREEZE)


def _add_control(action: Action, summary: str) -> None:
    """Add the route of an action that has no parameters."""

    @router.post(
        f"/jobs/{{job}}/{action.name.lower()}",
        name=action.name.lower(),
        summary=summary,
        **answers("ChangedJob", changed_schema),
    )
    async def control(job: JobName, call: Call, names: Names) -> JsonResponse:
        return await _control(call, names, job, action)


_add_control(Action.HOLD, "Keep a waiting job from starting until it is released")
_add_control(Action.RELEASE, "Let a held job start")
_add_control(Action.RESUME, "Let a suspended job run on, or wait at its old position")
_add_control(Action.REQUEUE, "Stop a job's tasks and put it back into its queue")


@router.post(
    "/jobs/{job}/scale",
    summary="Let an elastic job have so many of its tasks, from gang.min to all",
    **answers("ChangedJob", changed_schema),
)
async def scale(
    job: JobName,
    call: Call,
    names: Names,
    tasks: Annotated[int, Query(ge=1, le=MAX_TASKS_PER_JOB, description="How many are wanted from now on.")],
) -> JsonResponse:
    return await _control(call, names, job, Action.SCALE, tasks)


async def _control(call: HttpCall, names: Names, job: str, action: Action, tasks: int = 0) -> JsonResponse:
    request = scheduler_pb2.ControlJobRequest(
        client_id=names.client_id, request_id=names.request_id, job=job, action=f"ACTION_{action.name}", tasks=tasks
    )
    return _changed(await call.ask("ControlJob", request))


def _changed(answer: scheduler_pb2.CancelJobResponse | scheduler_pb2.ControlJobResponse) -> JsonResponse:
    return JsonResponse({"id": answer.job_id, "unchanged": answer.unchanged, "revision": answer.revision})


async def _detail(call: HttpCall, job: str, *, stale: bool = False) -> JobDetail:
    return to_record(await call.ask("GetJob", scheduler_pb2.GetJobRequest(job=job), stale=stale), JobDetail)


def _fields(fields: str) -> list[tuple[str, Any]]:
    """Return the members that are wanted, with their readers. Raises ApiError."""
    readers = {member.key: member.read for member in job_json.members}
    if not fields:
        return list(readers.items())
    chosen = list(dict.fromkeys(fields.split(",")))
    for key in chosen:
        if key not in readers:
            near = suggestion(key, _KEYS) or f"; there are {', '.join(_KEYS)}"
            raise invalid(f"fields: a job has no member {key[:80]!a}{near}")
    return [(key, readers[key]) for key in chosen]


def _prefers_yaml(accept: str) -> bool:
    """Return whether YAML is preferred to JSON."""
    quality = {"yaml": 0.0, "json": 0.0}
    for item in accept.lower().split(",")[:20]:
        kind, _, parameters = item.strip().partition(";")
        found = re.search(r"q=([01](?:\.[0-9]{1,3})?)", parameters)
        weight = float(found[1]) if found else 1.0
        for name in quality:
            if kind.endswith(name):
                quality[name] = max(quality[name], weight)
    return quality["yaml"] > quality["json"]
