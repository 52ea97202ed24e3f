"""Jobs: what is asked about them, and done to them."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gosched.client import records
from gosched.client.answers import Controlled, NotSubmitted, Submitted
from gosched.client.arguments import member
from gosched.client.calls import SCHEDULER, Call, Metadata, Pages, names, rpc
from gosched.client.errors import Refused
from gosched.wire.codec import to_message, to_record
from gosched.wire.v1 import scheduler_pb2, types_pb2

S_PER_JOB = 0.005  # of a batch; more than it takes on a small machine
FIRST_ROWS = 200
ROWS = 2000


def submit(spec: records.JobSpec, request_id: str | None, metadata: Metadata) -> Call[Submitted]:
    return submit_message(to_message(spec, types_pb2.JobSpec), request_id, metadata)


def submit_message(spec: types_pb2.JobSpec, request_id: str | None, metadata: Metadata) -> Call[Submitted]:
    request = scheduler_pb2.SubmitJobRequest(**names(request_id), spec=spec, user=login_name())
    return Call(rpc=rpc(SCHEDULER, "SubmitJob"), request=request, read=_submitted, is_change=True, metadata=metadata)


def submit_all(
    specs: Sequence[records.JobSpec], all_or_nothing: bool, request_id: str | None, metadata: Metadata
) -> Call[list[Submitted | NotSubmitted]]:
    messages = [to_message(spec, types_pb2.JobSpec) for spec in specs]
    return submit_messages(messages, all_or_nothing, request_id, metadata)


def submit_messages(
    specs: Sequence[types_pb2.JobSpec], all_or_nothing: bool, request_id: str | None, metadata: Metadata
) -> Call[list[Submitted | NotSubmitted]]:
    request = scheduler_pb2.SubmitJobsRequest(
        **names(request_id), specs=specs, all_or_nothing=all_or_nothing, user=login_name()
    )
    return Call(
        rpc=rpc(SCHEDULER, "SubmitJobs"),
        request=request,
        read=lambda answer: [_outcome(outcome) for outcome in answer.outcomes],
        is_change=True,
        metadata=metadata,
        more_s=len(specs) * S_PER_JOB,
    )


def get_job(job: str) -> Call[records.JobDetail]:
    """Return a job by its id, its name or TENANT/NAME."""
    request = scheduler_pb2.GetJobRequest(job=job)
    return Call(rpc=rpc(SCHEDULER, "GetJob"), request=request, read=lambda answer: to_record(answer, records.JobDetail))


def list_jobs(
    *,
    states: Sequence[records.JobState | str] = (),
    queue: str = "",
    tenant: str = "",
    user: str = "",
    labels: Mapping[str, str] | None = None,
    since_ms: int = 0,
    parent: str = "",
    order: records.JobOrder | str = "submitted",
    direction: records.Direction | str | None = None,
    limit: int | None = None,
) -> Pages[records.Job]:
    """Return jobs, the newest first unless `order` says otherwise. `states`: such as "RUNNING". `queue`: also of every
    queue below it. `since_ms`: submitted or ended then or later. `parent`: the elements of an array, the runs of a
    schedule."""
    query = records.JobQuery(
        states=tuple([member(records.JobState, state) for state in states]),
        queue=queue,
        tenant=tenant,
        user=user,
        labels=tuple(sorted((labels or {}).items())),
        since_ms=since_ms,
        parent=parent,
        order=member(records.JobOrder, order),
        direction=records.Direction.UNSPECIFIED if direction is None else member(records.Direction, direction),
    )

    def read(page: scheduler_pb2.ListJobsResponse) -> list[records.Job]:
        _check_understood(page, query)
        return [to_record(job, records.Job) for job in page.jobs]

    request = to_message(query, scheduler_pb2.ListJobsRequest)
    return Pages(rpc(SCHEDULER, "ListJobs"), request, read, limit=limit)


def job_rows(query: records.JobQuery, *, limit: int | None = None) -> Pages[list[records.JobRow]]:
    """Yield the rows of the jobs that a query chooses, page by page, as they are asked for; `limit` of them at most."""
    return _Rows(query, limit)


def cancel(job: str, *, reason: str = "", request_id: str | None = None) -> Call[str]:
    """Cancel a job, by its id, its name or TENANT/NAME, and return its id. Tasks that run get their stop grace."""
    request = scheduler_pb2.CancelJobRequest(**names(request_id), job=job, reason=reason)
    return Call(
        rpc=rpc(SCHEDULER, "CancelJob"), request=request, read=lambda answer: str(answer.job_id), is_change=True
    )


def request_cancel(job: str, *, reason: str = "", request_id: str | None = None) -> Call[Controlled]:
    """Cancel a job as `cancel` does, and return whether that changed anything: it may have ended."""
    request = scheduler_pb2.CancelJobRequest(**names(request_id), job=job, reason=reason)
    return Call(rpc=rpc(SCHEDULER, "CancelJob"), request=request, read=_controlled, is_change=True)


def control(job: str, action: records.Action | str, *, request_id: str | None = None) -> Call[Controlled]:
    """Hold, release, suspend, resume, requeue or freeze a job, by its id, its name or TENANT/NAME. FREEZE lets
    its tasks stand still where they are; what SUSPEND and REQUEUE end goes back to its old place in the queue."""
    chosen = f"ACTION_{member(records.Action, action).name}"
    request = scheduler_pb2.ControlJobRequest(**names(request_id), job=job, action=chosen)
    return Call(
        rpc=rpc(SCHEDULER, "ControlJob"),
        request=request,
        read=_controlled,
        is_change=True,
    )


def scale(job: str, tasks: int, *, request_id: str | None = None) -> Call[Controlled]:
    """Let an elastic job have so many of its tasks, from `gang.min` to all: those beyond are stopped and wait, the
    others join as there is room. By its id, its name or TENANT/NAME."""
    request = scheduler_pb2.ControlJobRequest(**names(request_id), job=job, action="ACTION_SCALE", tasks=tasks)
    return Call(rpc=rpc(SCHEDULER, "ControlJob"), request=request, read=_controlled, is_change=True)


def explain(job: str) -> Call[records.JobExplanation]:
    """Return why a job waits, or where it runs; by its id, its name or TENANT/NAME."""
    request = scheduler_pb2.GetJobRequest(job=job)
    return Call(
        rpc=rpc(SCHEDULER, "ExplainJob"), request=request, read=lambda answer: to_record(answer, records.JobExplanation)
    )


def plan(jobs: records.JobLike | Sequence[records.JobLike]) -> Call[records.JobPlan]:
    """Return what would become of these jobs if they were submitted now, in this order. Commits nothing."""
    from gosched.client.spec import specs_of

    request = scheduler_pb2.PlanJobRequest(specs=[to_message(spec, types_pb2.JobSpec) for spec in specs_of(jobs)])
    return Call(rpc=rpc(SCHEDULER, "PlanJob"), request=request, read=lambda answer: to_record(answer, records.JobPlan))


def login_name() -> str:
    """Return the name of the user that this process runs as; empty for one that has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""


class _Rows(Pages[list["records.JobRow"]]):
    """Pages of rows; the first is small, so that the first lines are there soon."""

    def __init__(self, query: records.JobQuery, limit: int | None) -> None:
        request = to_message(replace(query, rows=True), scheduler_pb2.ListJobsRequest)
        super().__init__(rpc(SCHEDULER, "ListJobs"), request, self._page, limit=limit, sizes=(FIRST_ROWS, ROWS))
        self._query = query

    def count(self, found: list[list[records.JobRow]]) -> int:
        return len(found[0])

    def _page(self, page: scheduler_pb2.ListJobsResponse) -> list[list[records.JobRow]]:
        """Return the rows of a page; a leader of an earlier release gives whole jobs, of any end."""
        _check_understood(page, self._query)
        if page.understood:
            return [[to_record(row, records.JobRow) for row in page.rows]]
        jobs = [to_record(job, records.Job) for job in page.jobs]
        since_ms = self._query.ended_since_ms
        return [[records.row_of(job) for job in jobs if not job.ended_at_ms or job.ended_at_ms >= since_ms]]


def _check_understood(page: scheduler_pb2.ListJobsResponse, query: records.JobQuery) -> None:
    """Check that the leader knew all of the query. Raises Refused."""
    is_new = query.tenant or query.user or query.since_ms or query.parent or query.order > records.JobOrder.SUBMITTED
    if (is_new or query.direction) and not page.understood:
        raise Refused("the leader is of an earlier release, which lists by states, queue and labels only")


def _controlled(answer: scheduler_pb2.ControlJobResponse | scheduler_pb2.CancelJobResponse) -> Controlled:
    return Controlled(job_id=answer.job_id, unchanged=answer.unchanged)


def _submitted(answer: scheduler_pb2.SubmitJobResponse | scheduler_pb2.SubmitOutcome) -> Submitted:
    return Submitted(job_id=answer.job_id, warnings=tuple(answer.warnings), unchanged=answer.unchanged)


def _outcome(outcome: scheduler_pb2.SubmitOutcome) -> Submitted | NotSubmitted:
    return NotSubmitted(code=outcome.code, problem=outcome.problem) if outcome.code else _submitted(outcome)
