"""REST of accounting: the attempts of a job, and jobs that have ended."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from starlette.responses import Response

from gosched.api.history import Attempt, FinishedJob
from gosched.api.json.history import attempt_json, finished_job_json
from gosched.master.history.service import MAX_PAGE
from gosched.master.http.call import Call, JsonResponse
from gosched.master.http.routes import JobName, Stale, answers, moment_of, rest_router
from gosched.wire.codec import to_record
from gosched.wire.v1 import history_pb2

router = rest_router("history")

Ended = Literal["SUCCEEDED", "FAILED", "CANCELLED"]
_page = {
    "type": "object",
    "properties": {
        "jobs": {"type": "array", "items": {**finished_job_json.schema(), "title": "FinishedJob"}},
        "next_page_token": {"type": "string"},
    },
    "required": ["jobs", "next_page_token"],
    "additionalProperties": False,
}


@router.get(
    "/jobs/{job}/attempts", summary="List a job's attempts", **answers("Attempt", attempt_json.schema(), many=True)
)
async def list_attempts(job: JobName, call: Call, stale: Stale = False) -> Response:
    answer = await call.ask("ListAttempts", history_pb2.ListAttemptsRequest(job=job), stale=stale)
    return JsonResponse([attempt_json(to_record(attempt, Attempt)) for attempt in answer.attempts])


@router.get("/history/jobs", summary="List jobs that have ended, the newest first", **answers("FinishedJobs", _page))
async def list_finished_jobs(
    call: Call,
    since: Annotated[str, Query(description="Ended then or later: RFC 3339, or 2h for two hours ago.")] = "",
    until: Annotated[str, Query(description="Ended before: as in `since`.")] = "",
    tenant: Annotated[str, Query(max_length=300)] = "",
    queue: Annotated[str, Query(max_length=300)] = "",
    user: Annotated[str, Query(max_length=300)] = "",
    state: Annotated[list[Ended], Query()] = [],  # noqa: B006 - FastAPI copies it
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 1000,
    page_token: Annotated[str, Query(max_length=600)] = "",
    stale: Stale = False,
) -> Response:
    request = history_pb2.ListFinishedJobsRequest(
        since_ms=moment_of("since", since),
        until_ms=moment_of("until", until),
        tenant=tenant,
        queue=queue,
        user=user,
        states=[f"JOB_STATE_{name}" for name in state],
        page_size=limit,
        page_token=page_token,
    )
    answer = await call.ask("ListFinishedJobs", request, stale=stale)
    jobs = [finished_job_json(to_record(job, FinishedJob)) for job in answer.jobs]
    return JsonResponse({"jobs": jobs, "next_page_token": answer.next_page_token})
