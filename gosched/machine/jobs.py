"""Jobs: submitted, cancelled, forgotten."""

from __future__ import annotations

from dataclasses import replace

from gosched.core.cluster import Tenant
from gosched.core.command import CancelJob, DropFinishedJobs, SubmitJob
from gosched.core.job import Job, JobIntent, JobSpec, JobState, Task, task_id
from gosched.core.limits import (
    MAX_LIVE_JOBS,
    MAX_NAME_LENGTH,
    MAX_TASKS,
    MAX_TASKS_DROPPED_AT_ONCE,
    MAX_TENANTS,
)
from gosched.core.outcome import Accepted, Code, Event, JobChanged, Outcome, Rejected
from gosched.core.state import ClusterState
from gosched.machine.gangs import settle, stop_all
from gosched.machine.names import name_problem
from gosched.machine.queues import submission_refusal
from gosched.machine.specs import spec_problem


def submit(state: ClusterState, command: SubmitJob, events: list[Event]) -> Outcome:
    """A live job's name with the same spec meets that job."""
    spec = command.spec
    problem = name_problem("job id", command.job_id) or spec_problem(spec)
    if problem:
        return Rejected(code=Code.INVALID, detail=problem)
    namesake = state.jobs.get(state.names.get(spec.name, ""))
    if namesake is not None and not namesake.state.is_final:
        if namesake.spec == spec:
            return Accepted(subject=namesake.id, unchanged=True)
        detail = f"job {spec.name} is live with another spec: cancel it first, or take another name"
        return Rejected(code=Code.ALREADY_EXISTS, detail=detail)
    if command.job_id in state.jobs:
        return Rejected(code=Code.ALREADY_EXISTS, detail=f"job id {command.job_id} is taken")
    refused = submission_refusal(state, spec) or _room_refusal(state, spec)
    if refused is not None:
        return refused
    _create(state, command.job_id, spec)
    events.append(
        JobChanged(job_id=command.job_id, queue=spec.queue, before=JobState.UNSPECIFIED, after=JobState.PENDING)
    )
    return Accepted(subject=command.job_id)


def _room_refusal(state: ClusterState, spec: JobSpec) -> Rejected | None:
    if len(state.jobs) - len(state.finished) >= MAX_LIVE_JOBS:
        what = f"{MAX_LIVE_JOBS} live jobs"
    elif len(state.tasks) + spec.task_count > MAX_TASKS:
        what = f"{MAX_TASKS} tasks"
    elif spec.tenant not in state.tenants and len(state.tenants) >= MAX_TENANTS:
        what = f"{MAX_TENANTS} tenants"
    else:
        return None
    return Rejected(code=Code.EXHAUSTED, detail=f"the cluster holds {what}, its limit: try again when some are gone")


def _create(state: ClusterState, job_id: str, spec: JobSpec) -> None:
    if spec.tenant not in state.tenants:
        state.put_tenant(Tenant(name=spec.tenant, created_at_ms=state.clock_ms))
    state.put_job(Job(id=job_id, spec=spec, sequence=state.next_sequence, submitted_at_ms=state.clock_ms))
    state.next_sequence += 1
    rank = 0
    for group in spec.groups:
        name = group.name
        for index in range(group.count):
            state.put_task(Task(id=task_id(job_id, name, index), job_id=job_id, group=name, index=index, rank=rank))
            rank += 1


def cancel(state: ClusterState, command: CancelJob, events: list[Event]) -> Outcome:
    """By id or name. The job of the answer is CANCELLED once its tasks have stopped."""
    job = state.find_job(command.job_id)
    if job is None:
        return Rejected(code=Code.NOT_FOUND, detail=f"no job {command.job_id[:MAX_NAME_LENGTH]!a}")
    if job.state.is_final or job.intent is JobIntent.CANCEL:
        return Accepted(subject=job.id, unchanged=True)
    reason = command.reason[:MAX_NAME_LENGTH] or "CANCELLED"
    job = replace(job, intent=JobIntent.CANCEL, reason=reason, detail="", exit_code=None)
    if job.active:
        stop_all(state, events, job, reason)
    else:
        settle(state, events, job)
    return Accepted(subject=job.id)


def drop_finished(state: ClusterState, command: DropFinishedJobs, events: list[Event]) -> Outcome:
    """Stops after MAX_TASKS_DROPPED_AT_ONCE tasks; who wants all of it asks until the answer is `unchanged`."""
    if command.keep < 0:
        return Rejected(code=Code.INVALID, detail=f"{command.keep} finished jobs cannot be kept: give 0 or more")
    beyond = len(state.finished) - command.keep
    chosen: list[Job] = []
    tasks = 0
    for job in state.finished_oldest_first():
        wanted = job.ended_at_ms < command.ended_before_ms or len(chosen) < beyond
        if not wanted or tasks >= MAX_TASKS_DROPPED_AT_ONCE:
            break
        chosen.append(job)
        tasks += job.spec.task_count
    for job in chosen:
        state.drop_job(job.id)
        events.append(JobChanged(job_id=job.id, queue=job.spec.queue, before=job.state, after=JobState.UNSPECIFIED))
    return Accepted(unchanged=not chosen)
