"""Gangs, and tasks that join one, get their places.

Invariant: the caller has checked that they may; nothing is refused here.
"""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.events import Event
from gosched.core.records.allocation import Allocation, TaskPlacement
from gosched.core.records.job import Job, JobState
from gosched.core.records.task import Task, TaskState, allocation_id, task_id
from gosched.core.replace import replace
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine.accounts import bring_up
from gosched.state_machine.changes import change_job, change_task
from gosched.state_machine.ports import free_port
from gosched.state_machine.reservations import forget
from gosched.state_machine.run_times import likely_ms
from gosched.state_machine.unix_accounts import give_account

Placements = tuple[TaskPlacement, ...]


def by_group(job: Job, tasks: Placements) -> Iterator[tuple[TaskGroup, int, Placements]]:
    """Yield each group with its first rank and the placements of its tasks; the ranks ascend."""
    first = begin = 0
    for group in job.spec.groups:
        end = begin
        while end < len(tasks) and tasks[end].rank < first + group.count:
            end += 1
        yield group, first, tasks[begin:end]
        first += group.count
        begin = end


def place(state: ClusterState, events: list[Event], job: Job, tasks: Placements, until_ms: int) -> None:
    """Start the gang, or let the tasks join it if it runs."""
    bring_up(state, job.spec)
    give_account(state, job)
    for group, first, placements in by_group(job, tasks):
        for placement in placements:
            task = state.tasks[task_id(job.id, group.name, placement.rank - first)]
            _place_task(state, events, task, group, placement)
    placed = len(tasks)
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
        placed_at_ms=now,
        checkpoint_at_ms=0,
        until_ms=until_ms,
        port=free_port(state, job, tasks[0].node_id),
        likely_ms=likely_ms(state, job),
    )
    change_job(state, events, job, running, wait_ms=now - job.submitted_at_ms if first_start else None)
    forget(state, events, job.id)


def _place_task(
    state: ClusterState, events: list[Event], task: Task, group: TaskGroup, placement: TaskPlacement
) -> None:
    now = state.clock_ms
    node = state.nodes[placement.node_id]
    allocation = Allocation(
        id=allocation_id(task.id, task.attempt, task.moves),
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
    placed = Task(  # nothing of an earlier start stays
        id=task.id,
        job_id=task.job_id,
        group=task.group,
        index=task.index,
        rank=task.rank,
        state=TaskState.PLACED,
        attempt=task.attempt,
        allocation_id=allocation.id,
        node_id=node.id,
        gpus=placement.gpus,
        cpus=placement.cpus,
        placed_at_ms=now,
        moves=task.moves,
    )
    change_task(state, events, task, placed)
