"""Gangs: a gang's minimum is placed, or nothing of it."""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.records.task import TaskState, allocation_id, task_id
from gosched.core.spec.policies import MemberFailure
from gosched.core.state.cluster_state import ClusterState


def gang_problems(state: ClusterState) -> Iterator[str]:
    """Yield gangs that are placed with less than their minimum or more than is wanted, and tasks that should be
    stopping and are not."""
    for job in state.jobs.values():
        if job.spec.is_parent:
            continue
        states = [state.tasks[t].state for t in job.task_ids() if t in state.tasks]
        pending = states.count(TaskState.PENDING)
        runs = job.state is JobState.RUNNING and job.intent is JobIntent.RUN
        if job.state is JobState.PENDING and (pending != len(states) or job.intent is not JobIntent.RUN):
            yield f"job {job.id} is PENDING with {job.intent.name}, and only {pending} of its tasks are"
        if job.state is JobState.SUSPENDED and pending != len(states):
            yield f"job {job.id} is SUSPENDED, and only {pending} of its tasks are PENDING"
        if job.unplaced != (pending if runs else 0):
            yield f"job {job.id} is {job.state.name} and counts {job.unplaced} tasks without a place, not {pending}"
        kept = sum(s.is_active and s is not TaskState.STOPPING for s in states)
        if runs and 0 < job.wanted < kept:
            yield f"job {job.id} keeps {kept} tasks, {job.wanted} are wanted"
        if job.state is JobState.RUNNING and not job.active:
            yield f"job {job.id} is RUNNING and holds nothing"
        if job.state.is_final and not all(s.is_final for s in states):
            yield f"job {job.id} is {job.state.name} and not all its tasks have ended"
        if job.intent is not JobIntent.RUN and any(s.is_active and s is not TaskState.STOPPING for s in states):
            yield f"job {job.id} is to {job.intent.name} and not all its tasks are stopping"
        if job.frozen and not runs:
            yield f"job {job.id} is {job.state.name} to {job.intent.name}, and frozen"
        if runs and job.failed and not _continues(job):
            yield f"job {job.id} runs on with a failed member"
        if job.state in (JobState.RUNNING, JobState.SUCCEEDED):
            yield from _minimum(state, job)


def _minimum(state: ClusterState, job: Job) -> Iterator[str]:
    for group in job.spec.groups:
        tasks = [state.tasks[t] for i in range(group.count) if (t := task_id(job.id, group.name, i)) in state.tasks]
        placed = [t for t in tasks if t.allocation_id == allocation_id(t.id, t.attempt, t.moves)]
        if _continues(job):
            runs = job.state is JobState.RUNNING and job.intent is JobIntent.RUN
            placed = [t for t in placed if not (runs and t.state.is_failure)]
        if len(placed) < group.floor:
            yield f"job {job.id} is {job.state.name}, {len(placed)} tasks of group {group.name} were placed"
        succeeded = sum(task.state is TaskState.SUCCEEDED for task in placed)
        needed = group.floor if _continues(job) else len(placed)
        if job.spec.gang.ends_with and job.spec.gang.ends_with != group.name and _all_succeeded(state, job):
            needed = 0
        if job.state is JobState.SUCCEEDED and succeeded < needed:
            yield f"job {job.id} SUCCEEDED, not all tasks of group {group.name} that were placed did"


def _all_succeeded(state: ClusterState, job: Job) -> bool:
    """Return whether the group with which the job ends has succeeded."""
    own = [task for task in state.tasks_of(job) if task.group == job.spec.gang.ends_with]
    return all(task.state is TaskState.SUCCEEDED for task in own)


def _continues(job: Job) -> bool:
    return job.spec.gang.on_member_failure is MemberFailure.CONTINUE
