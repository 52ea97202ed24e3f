"""What becomes of a gang: a member fails, all are stopped, the last one ends.

Rule: a job is settled by its intent, and only once none of its tasks holds an allocation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from gosched.core.job import Job, JobIntent, JobState, MemberFailure, RetryCause, Task, TaskState
from gosched.core.limits import MAX_BACKOFF_MS, MAX_FREE_RESTARTS
from gosched.core.outcome import Event
from gosched.core.state import ClusterState
from gosched.machine.changes import change_job, change_task

MEMBER_FAILED = "GANG_MEMBER_FAILED"
NOT_NEEDED = "NOT_NEEDED"  # an elastic task that got no place before the others were done
_MAX_DOUBLINGS = 20


def after_ends(state: ClusterState, events: list[Event], ended: dict[str, Task | None]) -> None:
    """`ended`: the jobs whose tasks just ended, each with the first of these that did not succeed."""
    for job_id, failed in ended.items():
        if failed is not None and state.jobs[job_id].intent is JobIntent.RUN:
            _member_failed(state, events, state.jobs[job_id], failed)
        if state.jobs[job_id].active == 0:
            settle(state, events, state.jobs[job_id])


def evict(state: ClusterState, events: list[Event], job: Job, reason: str, detail: str) -> None:
    """Stops a gang that did nothing wrong. It starts again if its policy restarts it after a preemption, else it fails;
    one that is on its way out already stays so. The job holds an allocation."""
    if job.intent is not JobIntent.RUN:
        return
    intent = JobIntent.RESTART if _may_restart(job, RetryCause.PREEMPTED) else JobIntent.FAIL
    stop_all(state, events, replace(job, intent=intent, reason=reason, detail=detail, exit_code=None), reason)


def stop_all(state: ClusterState, events: list[Event], job: Job, reason: str) -> None:
    """Writes the job, and orders those of its tasks that hold an allocation to stop; the others get none any more."""
    state.put_job(replace(job, running=0, unplaced=0))
    for task in state.tasks_of(job):
        if task.state.is_active and task.state is not TaskState.STOPPING:
            change_task(state, events, task, replace(task, state=TaskState.STOPPING, reason=reason))


def settle(state: ClusterState, events: list[Event], job: Job) -> None:
    """The job's tasks hold nothing (any more): its end, or its next attempt."""
    match job.intent:
        case JobIntent.RUN:
            done = replace(job, state=JobState.SUCCEEDED, reason="", detail="", exit_code=0, unplaced=0)
        case JobIntent.FAIL:
            done = replace(job, state=JobState.FAILED)
        case JobIntent.CANCEL:
            done = replace(job, state=JobState.CANCELLED, exit_code=None)
        case JobIntent.RESTART | JobIntent.SUSPEND:
            _next_attempt(state, events, job)
            return
        case JobIntent.UNSPECIFIED:
            raise ValueError(f"job {job.id} has no intent")
        case _:
            assert_never(job.intent)
    reason = NOT_NEEDED if done.state is JobState.SUCCEEDED else job.reason
    for task in state.tasks_of(job):
        if task.state is TaskState.PENDING:
            ended = replace(task, state=TaskState.KILLED, reason=reason, ended_at_ms=state.clock_ms)
            change_task(state, events, task, ended)
    change_job(state, events, job, replace(done, ended_at_ms=state.clock_ms))


def _member_failed(state: ClusterState, events: list[Event], job: Job, task: Task) -> None:
    cause = RetryCause.NODE_LOST if task.state is TaskState.LOST else RetryCause.FAILED
    again = _may_restart(job, cause)
    job = replace(
        job,
        intent=JobIntent.RESTART if again else JobIntent.FAIL,
        restarts=job.restarts + (again and cause is RetryCause.FAILED),
        reason=task.reason or "TASK_FAILED",
        detail=f"task {task.group}/{task.index}: {task.detail or _how_it_ended(task)}",
        exit_code=None if again else task.exit_code,
    )
    stop_all(state, events, job, MEMBER_FAILED)


def _may_restart(job: Job, cause: RetryCause) -> bool:
    """A failure of its own costs the job one of `max_restarts`. A lost node or a preemption costs it nothing, up to
    MAX_FREE_RESTARTS; but a job that wants no restarts (`max_restarts` 0) gets none of either kind.
    """
    policy = job.spec.retry
    if job.spec.gang.on_member_failure is not MemberFailure.RESTART_GANG or cause not in policy.when:
        return False
    if cause is RetryCause.FAILED:
        return job.restarts < policy.max_restarts
    free_restarts = job.attempt - 1 - job.restarts
    return policy.max_restarts > 0 and free_restarts < MAX_FREE_RESTARTS


def _how_it_ended(task: Task) -> str:
    if task.exit_code is None:
        return task.state.name.lower()
    return f"exit code {task.exit_code}"


def _next_attempt(state: ClusterState, events: list[Event], job: Job) -> None:
    for task in state.tasks_of(job):
        fresh = Task(
            id=task.id,
            job_id=task.job_id,
            group=task.group,
            index=task.index,
            rank=task.rank,
            attempt=job.attempt + 1,
            allocation_id=task.allocation_id,
            node_id=task.node_id,
        )
        if task.state is TaskState.PENDING:  # an elastic one that never got a place
            state.put_task(fresh)
        else:
            change_task(state, events, task, fresh)
    waiting = replace(
        job,
        state=JobState.PENDING,
        intent=JobIntent.RUN,
        attempt=job.attempt + 1,
        succeeded=0,
        failed=0,
        not_before_ms=state.clock_ms + _backoff_ms(job),
    )
    change_job(state, events, job, waiting)


def _backoff_ms(job: Job) -> int:
    """Doubles with each attempt, up to MAX_BACKOFF_MS or what the user asked for, whichever is more."""
    first = job.spec.retry.backoff_ms
    doublings = min(job.attempt - 1, _MAX_DOUBLINGS)
    return min(first << doublings, max(first, MAX_BACKOFF_MS))
