"""Writes changes of states.

Invariant: nothing else does, so each change obeys the lifecycle tables and yields its event.
"""

from __future__ import annotations

from gosched.core.events import Event, JobChanged, TaskChanged, TaskWork
from gosched.core.lifecycle import JOB_STEPS, TASK_STEPS, advance
from gosched.core.records.follow_up import FollowUp, FollowUpKind, FollowUpStep
from gosched.core.records.job import Job
from gosched.core.records.task import Task, TaskState
from gosched.core.records.usage import NOTHING_SPENT, Spent
from gosched.core.replace import replace
from gosched.core.state.cluster_state import ClusterState


def change_task(
    state: ClusterState, events: list[Event], before: Task, after: Task, work: TaskWork | None = None
) -> None:
    """Give a task another state. The caller sees to the job's counters. `work`: of a task that ends."""
    advance(TASK_STEPS, before.state, after.state)
    state.put_task(after)
    events.append(
        TaskChanged(
            job_id=after.job_id,
            task_id=after.id,
            allocation_id=after.allocation_id,
            node_id=after.node_id,
            before=before.state,
            after=after.state,
            reason=after.reason,
            task=after,
            work=work,
        )
    )


def change_job(
    state: ClusterState, events: list[Event], before: Job, after: Job, *, wait_ms: int | None = None
) -> None:
    """Give a job another state."""
    advance(JOB_STEPS, before.state, after.state)
    state.put_job(after)
    events.append(
        JobChanged(
            job_id=after.id,
            queue=after.spec.queue,
            before=before.state,
            after=after.state,
            reason=after.reason,
            wait_ms=wait_ms,
            job=after,
            was=before,
        )
    )


def count_change(
    state: ClusterState, job_id: str, before: TaskState, after: TaskState, spent: Spent = NOTHING_SPENT
) -> None:
    """Move one task of a job from one counter to another, and charge the job for what it has spent."""
    job = state.jobs[job_id]
    counted = replace(
        job,
        active=job.active + after.is_active - before.is_active,
        running=job.running + (after is TaskState.RUNNING) - (before is TaskState.RUNNING),
        succeeded=job.succeeded + (after is TaskState.SUCCEEDED),
        failed=job.failed + after.is_failure,
        spent=job.spent + spent if spent != NOTHING_SPENT else job.spent,
    )
    if counted != job:
        state.put_job(counted)


def add_follow_up(state: ClusterState, job_id: str, kind: FollowUpKind) -> None:
    """Leave something for `follow_ups` to do, after what is left of the job; a cancel makes the rest pointless."""
    known = state.follow_ups.get(job_id)
    before = known.steps if known is not None and kind is not FollowUpKind.CANCEL else ()
    steps = (*[step for step in before if step.kind is not kind], FollowUpStep(kind=kind))
    if known is None or known.steps != steps:
        state.put_follow_up(FollowUp(job_id=job_id, steps=steps))
