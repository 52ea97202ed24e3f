"""A job as a listing shows it: what people read of it, without the rest of its spec, and why it waits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gosched.core.primitives import StringMap
from gosched.core.records.job import Children, Job, JobState
from gosched.core.records.usage import Spent
from gosched.core.spec.dependency import Dependency
from gosched.core.spec.job_spec import Overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One row. Fields of the same name are as in `Job` and `JobSpec`."""

    id: str
    name: str
    queue: str
    tenant: str
    user: str
    authenticated: bool
    priority: int
    labels: StringMap
    #: As people see it: SUSPENDED of a frozen job.
    state: JobState
    reason: str
    detail: str
    #: The newest attempt that was placed; 0: none was.
    attempt: int
    restarts: int
    preemptions: int
    task_count: int
    running: int
    succeeded: int
    failed: int
    exit_code: int | None
    parent: str
    element: int
    #: 0: it is no array.
    array_size: int
    #: Empty: it is no schedule.
    cron: str
    timezone: str
    overlap: Overlap
    #: None: it is neither array nor schedule.
    children: Children | None
    held: bool
    frozen: bool
    waits_for: tuple[Dependency, ...]
    #: It does not start for the first time before; 0: as soon as it can.
    begin_ms: int
    deadline_ms: int
    deadline_missed: bool
    estimate_ms: int
    timeout_ms: int
    checkpoint_at_ms: int
    until_ms: int
    spent: Spent
    submitted_at_ms: int
    #: When this attempt was placed; 0: it was not.
    placed_at_ms: int
    #: When the first attempt was placed; 0: never.
    started_at_ms: int
    ended_at_ms: int
    #: Why it waits; empty: it does not, or it is not known.
    wait_code: str = ""
    #: The same in one line.
    wait_message: str = ""
    #: Since when it waits for this reason, in ms since 1970; 0: not known.
    waits_since_ms: int = 0
    #: The estimated start, in ms since 1970; 0: not known.
    start_ms: int = 0
    #: How many of its tasks are wanted in their places; 0: all.
    wanted: int = 0


def row_of(
    job: Job, *, wait_code: str = "", wait_message: str = "", waits_since_ms: int = 0, start_ms: int = 0
) -> JobRow:
    """Return the row of a job, with why it waits."""
    spec = job.spec
    return JobRow(
        id=job.id,
        name=spec.name,
        queue=spec.queue,
        tenant=spec.tenant,
        user=job.user,
        authenticated=job.authenticated,
        priority=spec.priority,
        labels=spec.labels,
        state=job.shown_state,
        reason=job.reason,
        detail=job.detail,
        attempt=job.shown_attempt,
        restarts=job.restarts + job.member_restarts,
        preemptions=job.preemptions,
        task_count=spec.task_count,
        running=job.running,
        succeeded=job.succeeded,
        failed=job.failed,
        exit_code=job.exit_code,
        parent=job.parent,
        element=job.element,
        array_size=0 if spec.cron else spec.array.size,
        cron=spec.cron,
        timezone=spec.timezone,
        overlap=spec.overlap,
        children=job.children if spec.is_parent else None,
        held=job.held,
        frozen=job.frozen,
        waits_for=job.waits_for,
        begin_ms=job.begin_ms,
        deadline_ms=job.deadline_ms,
        deadline_missed=job.deadline_missed,
        estimate_ms=spec.estimate_ms,
        timeout_ms=spec.timeout_ms,
        checkpoint_at_ms=job.checkpoint_at_ms,
        until_ms=job.until_ms,
        spent=job.spent,
        submitted_at_ms=job.submitted_at_ms,
        placed_at_ms=job.placed_at_ms,
        started_at_ms=job.started_at_ms,
        ended_at_ms=job.ended_at_ms,
        wait_code=wait_code,
        wait_message=wait_message,
        waits_since_ms=waits_since_ms,
        start_ms=start_ms,
        wanted=job.wanted,
    )


def without_contents(row: JobRow) -> JobRow:
    """Return the row as others than its tenant may see it: name, queue, state, and what it takes."""
    return replace(row, labels=(), detail="", wait_message="", waits_for=())
