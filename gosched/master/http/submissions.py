"""REST of submissions: one job, a batch of jobs, and what would become of jobs.

A request that is submitted with `dryRun=true` is parsed and planned, and commits nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import quote

import grpc
from fastapi import Query
from starlette.requests import Request

from gosched.api.forecast import JobPlan
from gosched.api.json.explanations import plan_json
from gosched.api.json.values import Json
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.spec.job_spec import JobSpec
from gosched.master.api.forecast import MAX_SPECS
from gosched.master.base.errors import ApiError
from gosched.master.http.call import Call, HttpCall, JsonResponse, Names
from gosched.master.http.job_bodies import Bad, job_body, jobs_body, read_batch, read_job, read_jobs
from gosched.master.http.problems import Problem, problem_body
from gosched.master.http.routes import DRY_RUN, PREFIX, answers, rest_router
from gosched.master.jobs.batches import MAX_BATCH
from gosched.wire.codec import to_message, to_record
from gosched.wire.v1 import scheduler_pb2, types_pb2

BATCH_TIMEOUT_S = 120.0
TRIES = 3
RETRY_S = 1.0
MAX_PROBLEMS = 100  # jobs of a batch that a problem names

router = rest_router("jobs")

User = Annotated[
    str,
    Query(max_length=MAX_NAME_LENGTH, description="Login name of who submits; the name in a certificate comes first."),
]
DryRun = Annotated[bool, Query(alias=DRY_RUN, description="Parse and plan it, and submit nothing.")]

_ID = {"type": "string"}
_WARNINGS = {"type": "array", "items": {"type": "string"}}
_submitted: Json = {
    "type": "object",
    "properties": {
        "id": _ID,
        "unchanged": {"type": "boolean", "description": "A live job of this name and spec was there already."},
        "warnings": _WARNINGS,
        "revision": {"type": "integer"},
    },
    "required": ["id", "unchanged", "warnings", "revision"],
}
_outcome: Json = {
    "title": "SubmitOutcome",
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Of the job; empty where it could not be read."},
        "id": {"type": ["string", "null"]},
        "unchanged": {"type": "boolean"},
        "warnings": _WARNINGS,
        "code": {"type": "string", "description": "Of a job that was not submitted; otherwise empty."},
        "problem": {"type": "string"},
    },
    "required": ["name", "id", "unchanged", "warnings", "code", "problem"],
}
_batch: Json = {
    "type": "object",
    "properties": {
        "submitted": {"type": "integer"},
        "unchanged": {"type": "integer"},
        "refused": {"type": "integer"},
        "revision": {"type": "integer"},
        "outcomes": {"type": "array", "items": _outcome, "description": "In the order of the request."},
    },
    "required": ["submitted", "unchanged", "refused", "revision", "outcomes"],
}


@router.post(
    "/jobs",
    summary="Submit a job",
    status_code=201,
    responses={
        201: answers("Submitted", _submitted)["responses"][200],
        200: {
            "description": "It was there already; or what was planned, with dryRun",
            "content": {
                "application/json": {
                    "schema": {"anyOf": [{**_submitted, "title": "Submitted"}, {**plan_json.schema(), "title": "Plan"}]}
                }
            },
        },
    },
    openapi_extra=job_body(),
)
async def submit(
    request: Request,
    call: Call,
    names: Names,
    user: User = "",
    dry_run: DryRun = False,
) -> JsonResponse:
    spec = await read_job(request)
    if dry_run:
        return await _plan(call, [spec])
    answer = await call.ask(
        "SubmitJob",
        scheduler_pb2.SubmitJobRequest(
            client_id=names.client_id,
            request_id=names.request_id,
            spec=to_message(spec, types_pb2.JobSpec),
            user=user,
        ),
    )
    body = {
        "id": answer.job_id,
        "unchanged": answer.unchanged,
        "warnings": list(answer.warnings),
        "revision": answer.revision,
    }
    response = JsonResponse(body, 200 if answer.unchanged else 201)
    response.headers["Location"] = f"{PREFIX}/jobs/{quote(answer.job_id, safe='')}"
    return response


@router.post(
    "/jobs:batch",
    summary=f"Submit up to {MAX_BATCH} jobs, each with an outcome of its own",
    description="The body may also be YAML documents, or one JSON object in each line (application/x-ndjson).",
    openapi_extra=jobs_body(MAX_BATCH),
    **answers("Batch", _batch),
)
async def submit_batch(
    request: Request,
    call: Call,
    names: Names,
    user: User = "",
    all_or_nothing: Annotated[
        bool, Query(description="Submit none where one is found wrong before the first submission: 400, or 409.")
    ] = False,
) -> JsonResponse:
    parsed = await read_batch(request)
    is_refused = all_or_nothing and any(isinstance(part, Bad) for part in parsed)
    revision = call.state.revision
    outcomes: Iterator[scheduler_pb2.SubmitOutcome] = iter(())
    specs = [part for part in parsed if not isinstance(part, Bad)]
    if specs and not is_refused:
        asked = scheduler_pb2.SubmitJobsRequest(
            client_id=names.client_id,
            request_id=names.request_id,
            specs=specs,
            all_or_nothing=all_or_nothing,
            user=user,
        )
        answer = await _submitted_by_a_leader(call, asked)
        revision, outcomes = answer.revision, iter(answer.outcomes)
    found = [_bad(part) if isinstance(part, Bad) else _outcome_json(part, next(outcomes, None)) for part in parsed]
    if all_or_nothing and any(outcome["code"] == grpc.StatusCode.ABORTED.name or is_refused for outcome in found):
        return _refusal(found)
    return JsonResponse(
        {
            "submitted": sum([not outcome["code"] and not outcome["unchanged"] for outcome in found]),
            "unchanged": sum([outcome["unchanged"] for outcome in found]),
            "refused": sum([bool(outcome["code"]) for outcome in found]),
            "revision": revision,
            "outcomes": found,
        }
    )


@router.post(
    "/plan",
    summary="Plan jobs: what would become of them if they were submitted now",
    openapi_extra=jobs_body(MAX_SPECS),
    **answers("Plan", plan_json.schema()),
)
async def plan(request: Request, call: Call) -> JsonResponse:
    return await _plan(call, await read_jobs(request, MAX_SPECS))


async def _submitted_by_a_leader(
    call: HttpCall, asked: scheduler_pb2.SubmitJobsRequest
) -> scheduler_pb2.SubmitJobsResponse:
    """Return the outcomes of a batch. One that broke off goes on at the next leader: its request id keeps what was
    submitted from being submitted again. Raises ApiError."""
    for left in reversed(range(TRIES)):
        try:
            answer: scheduler_pb2.SubmitJobsResponse = await call.ask("SubmitJobs", asked, timeout_s=BATCH_TIMEOUT_S)
            return answer
        except ApiError as error:
            if error.code is not grpc.StatusCode.UNAVAILABLE or not left:
                raise
        await asyncio.sleep(RETRY_S)
    raise AssertionError("the last try returns or raises")


async def _plan(call: HttpCall, specs: list[JobSpec]) -> JsonResponse:
    asked = scheduler_pb2.PlanJobRequest(specs=[to_message(spec, types_pb2.JobSpec) for spec in specs])
    return JsonResponse(plan_json(to_record(await call.ask("PlanJob", asked), JobPlan)))


def _bad(part: Bad) -> Json:
    return _not_submitted("", grpc.StatusCode.INVALID_ARGUMENT, part.problem)


def _outcome_json(part: types_pb2.JobSpec, outcome: scheduler_pb2.SubmitOutcome | None) -> Json:
    if outcome is None:
        return _not_submitted(part.name, grpc.StatusCode.ABORTED, "not submitted: another job was refused")
    return {
        "name": part.name,
        "id": outcome.job_id or None,
        "unchanged": outcome.unchanged,
        "warnings": list(outcome.warnings),
        "code": outcome.code,
        "problem": outcome.problem,
    }


def _not_submitted(name: str, code: grpc.StatusCode, problem: str) -> Json:
    return {"name": name, "id": None, "unchanged": False, "warnings": [], "code": code.name, "problem": problem}


def _refusal(outcomes: list[Json]) -> JsonResponse:
    """Return the problem of a batch that was refused as a whole, with its jobs that were found wrong."""
    aborted = grpc.StatusCode.ABORTED.name
    wrong = [{"place": place, **one} for place, one in enumerate(outcomes) if one["code"] != aborted]
    status = 400 if any(one["code"] == grpc.StatusCode.INVALID_ARGUMENT.name for one in wrong) else 409
    code = grpc.StatusCode.INVALID_ARGUMENT if status == 400 else grpc.StatusCode.FAILED_PRECONDITION
    detail = f"none of the {len(outcomes)} jobs was submitted: {len(wrong)} are wrong; place {wrong[0]['place']}:"
    body = problem_body(status, f"{detail} {wrong[0]['problem']}", code.name)
    return JsonResponse({**body, "outcomes": wrong[:MAX_PROBLEMS]}, status, media_type=Problem.media_type)
