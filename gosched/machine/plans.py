"""Plans: each gang is checked against the state as it is now, then taken or refused whole.

Rule: nothing that the planner believed is trusted; a plan may be old, or wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from gosched.core.cluster import Allocation, TaskPlacement
from gosched.core.command import CommitPlan, GangPlacement
from gosched.core.job import Job, JobState, Task, TaskGroup, TaskState, allocation_id, task_id
from gosched.core.outcome import Accepted, Event, Outcome, Refusal
from gosched.core.state import ClusterState, wants_placement
from gosched.machine.accounts import bring_up
from gosched.machine.changes import change_job, change_task
from gosched.machine.fits import GangFit
from gosched.machine.headroom import Headroom


def commit(state: ClusterState, command: CommitPlan, events: list[Event]) -> Outcome:
    """Takes the gangs that can be taken, in the plan's order; the answer names the others and why."""
    refusals: list[Refusal] = []
    headroom = Headroom(state)
    for gang in command.gangs:
        problem = _job_problem(state, gang)
        if not problem:
            job = state.jobs[gang.job_id]
            problem = _start_problem(job, gang) if job.state is JobState.PENDING else _join_problem(state, job, gang)
            problem = problem or _take(state, events, headroom, job, gang)
        if problem:
            refusals.append(Refusal(job_id=gang.job_id, detail=problem))
    return Accepted(refusals=tuple(refusals))


def _job_problem(state: ClusterState, gang: GangPlacement) -> str:
    job = state.jobs.get(gang.job_id)
    if job is None:
        return "there is no such job"
    if not wants_placement(job):
        return f"the job is {job.state.name} and does not wait for a place"
    if gang.attempt != job.attempt:
        return f"the job is at attempt {job.attempt}, the plan at {gang.attempt}"
    if job.not_before_ms > state.clock_ms:
        return f"the job waits another {job.not_before_ms - state.clock_ms} ms before its next attempt"
    ranks = [placement.rank for placement in gang.tasks]
    if not ranks or ranks[0] < 0 or ranks[-1] >= job.spec.task_count:
        return f"the plan places no task, or ranks beyond the job's: it has ranks 0 to {job.spec.task_count - 1}"
    if any(before >= after for before, after in pairwise(ranks)):
        return "the plan's ranks do not ascend"
    return ""


def _start_problem(job: Job, gang: GangPlacement) -> str:
    for group, _, placements in _by_group(job, gang):
        if len(placements) < group.floor:
            return f"{group.floor} tasks of group {group.name} start together, the plan places {len(placements)}"
    return ""


def _join_problem(state: ClusterState, job: Job, gang: GangPlacement) -> str:
    for group, first, placements in _by_group(job, gang):
        for placement in placements:
            task = state.tasks[task_id(job.id, group.name, placement.rank - first)]
            if task.state is not TaskState.PENDING:
                return f"rank {placement.rank} is {task.state.name} and does not wait for a place"
    return ""


def _by_group(job: Job, gang: GangPlacement) -> Iterator[tuple[TaskGroup, int, tuple[TaskPlacement, ...]]]:
    """Each group with its first rank and the placements of its tasks; the ranks ascend."""
    first = begin = 0
    for group in job.spec.groups:
        end = begin
        while end < len(gang.tasks) and gang.tasks[end].rank < first + group.count:
            end += 1
        yield group, first, gang.tasks[begin:end]
        first += group.count
        begin = end


def _take(state: ClusterState, events: list[Event], headroom: Headroom, job: Job, gang: GangPlacement) -> str:
    """Places the gang, or says why it cannot."""
    fit = GangFit(state)
    for group, _, placements in _by_group(job, gang):
        problem = fit.group_problem(group, placements)
        if problem:
            return problem
    problem = fit.room_problem()
    if problem:
        return problem
    if headroom.is_limited:
        wanted = fit.charge()
        problem = headroom.problem(job, wanted)
        if problem:
            return problem
        headroom.take(job, wanted)
    _place(state, events, job, gang)
    return ""


def _place(state: ClusterState, events: list[Event], job: Job, gang: GangPlacement) -> None:
    bring_up(state, job.spec)
    for group, first, placements in _by_group(job, gang):
        for placement in placements:
            task = state.tasks[task_id(job.id, group.name, placement.rank - first)]
            _place_task(state, events, task, group, placement, job.attempt)
    placed = len(gang.tasks)
    if job.state is JobState.RUNNING:
        state.put_job(replace(job, active=job.active + placed, unplaced=job.unplaced - placed))
        return
    now = state.clock_ms
    first_start = job.attempt == 1
    running = replace(
        job,
        state=JobState.RUNNING,
        reason="",
        detail="",
        active=placed,
        unplaced=job.spec.task_count - placed,
        started_at_ms=now if first_start else job.started_at_ms,
    )
    change_job(state, events, job, running, wait_ms=now - job.submitted_at_ms if first_start else None)


def _place_task(
    state: ClusterState, events: list[Event], task: Task, group: TaskGroup, placement: TaskPlacement, attempt: int
) -> None:
    now = state.clock_ms
    node = state.nodes[placement.node_id]
    allocation = Allocation(
        id=allocation_id(task.id, attempt),
        task_id=task.id,
        job_id=task.job_id,
        node_id=node.id,
        resources=group.resources,
        gpus=placement.gpus,
        cpus=placement.cpus,
        gpu_model=node.gpu_model if group.resources.gpu_millis else "",
        placed_at_ms=now,
    )
    state.put_allocation(allocation)
    placed = Task(  # `replace` costs three times as much
        id=task.id,
        job_id=task.job_id,
        group=task.group,
        index=task.index,
        rank=task.rank,
        state=TaskState.PLACED,
        attempt=attempt,
        allocation_id=allocation.id,
        node_id=node.id,
        gpus=placement.gpus,
        cpus=placement.cpus,
        placed_at_ms=now,
    )
    change_task(state, events, task, placed)
