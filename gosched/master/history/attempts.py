"""The attempts of a job: those that have ended, from the history, and the one that runs, from the state.

Invariant: a start of a task is there once. What the state still has of a job is shown also where the history lacks it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gosched.api.history import Attempt, TaskAttempt
from gosched.core.records.job import Job, JobState
from gosched.core.records.task import Task, allocation_id
from gosched.core.state.cluster_state import ClusterState
from gosched.master.history.words import node_name

Kept = Mapping[int, tuple[Attempt | None, Sequence[tuple[int, TaskAttempt]]]]


def attempts(state: ClusterState, job: Job | None, kept: Kept) -> list[Attempt]:
    """Return the attempts, the oldest first. `job`: None for one that the state has forgotten."""
    live = [*_in_state(state, job)] if job is not None else []
    numbers = sorted({*kept, *([job.attempt] if live and job is not None else [])})
    found = []
    for number in numbers:
        header, tasks = kept.get(number, (None, ()))
        ranked = {task.allocation_id: (rank, task) for rank, task in tasks}
        if job is not None and number == job.attempt:
            for rank, task in live:
                ranked.setdefault(task.allocation_id, (rank, task))
            header = header or _header(job)
        ordered = [task for _, task in sorted(ranked.values(), key=lambda pair: (pair[0], pair[1].placed_at_ms))]
        found.append(_whole(header or Attempt(number=number, state=_guess(ordered)), ordered))
    return found


def _in_state(state: ClusterState, job: Job) -> Iterator[tuple[int, TaskAttempt]]:
    """Yield the starts of this attempt that the state knows, with their ranks."""
    for task in state.tasks_of(job):
        if task.placed_at_ms and task.allocation_id == allocation_id(task.id, job.attempt, task.moves):
            yield task.rank, _start_of(task, node_name(state, task.node_id))


def _start_of(task: Task, node: str) -> TaskAttempt:
    return TaskAttempt(
        task_id=task.id,
        group=task.group,
        index=task.index,
        allocation_id=task.allocation_id,
        node_id=task.node_id,
        node_name=node,
        state=task.state,
        reason=task.reason,
        detail=task.detail,
        exit_code=task.exit_code,
        placed_at_ms=task.placed_at_ms,
        started_at_ms=task.started_at_ms,
        ended_at_ms=task.ended_at_ms,
        gpus=task.gpus,
    )


def _header(job: Job) -> Attempt:
    """Return what the job itself says of its newest attempt."""
    return Attempt(
        number=job.attempt,
        state=job.state,
        reason=job.reason,
        detail=job.detail,
        exit_code=job.exit_code,
        placed_at_ms=job.placed_at_ms,
        ended_at_ms=job.ended_at_ms,
    )


def _guess(tasks: Sequence[TaskAttempt]) -> JobState:
    """Return how an attempt ended of which only tasks are kept."""
    return JobState.FAILED if any(task.state.is_failure for task in tasks) else JobState.CANCELLED


def _whole(header: Attempt, tasks: Sequence[TaskAttempt]) -> Attempt:
    """Return the attempt with its tasks, and what follows from them: when the first one ran, what the one that failed
    first ended with."""
    starts = [task.started_at_ms for task in tasks if task.started_at_ms]
    failed = [task for task in tasks if task.state.is_failure and task.exit_code is not None]
    first = min(failed, key=lambda task: task.ended_at_ms, default=None)
    code = header.exit_code
    if code is None and first is not None and header.state is JobState.FAILED:
        code = first.exit_code
    return replace(
        header,
        tasks=tuple(tasks),
        exit_code=code,
        placed_at_ms=header.placed_at_ms or min([task.placed_at_ms for task in tasks], default=0),
        started_at_ms=min(starts, default=0),
    )
