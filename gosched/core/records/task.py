"""Tasks of jobs as they live."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.primitives import Named
from gosched.core.records.usage import NO_USAGE, Usage
from gosched.core.replace import quickly_made


class TaskState(Named):
    """The states of a task; `core/lifecycle.py` has its steps."""

    UNSPECIFIED = 0
    #: It waits for a place.
    PENDING = 1
    #: It has an allocation; its agent has not started it yet.
    PLACED = 2
    STARTING = 3
    RUNNING = 4
    #: It was ordered to stop.
    STOPPING = 5
    SUCCEEDED = 6
    FAILED = 7
    #: It was stopped by order.
    KILLED = 8
    #: Its node died, or could not start it.
    LOST = 9

    @property
    def is_active(self) -> bool:
        """Return whether the task holds an allocation."""
        return TaskState.PLACED <= self <= TaskState.STOPPING

    @property
    def is_final(self) -> bool:
        return self >= TaskState.SUCCEEDED

    @property
    def is_failure(self) -> bool:
        """Return whether the task ended badly by itself. A killed task was ended by order."""
        return self in (TaskState.FAILED, TaskState.LOST)


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One process tree of a job, on one node at a time."""

    #: `task_id` of its job, group and index.
    id: str
    job_id: str
    #: Name of its task group.
    group: str
    #: Within its group, from 0.
    index: int
    #: Within its job, from 0.
    rank: int
    #: `core/lifecycle.py` has the steps.
    state: TaskState = TaskState.PENDING
    #: Of its job.
    attempt: int = 1
    #: Of the newest placement, also after its end; empty: it had none.
    allocation_id: str = ""
    #: Of the newest placement, also after its end; empty: it had none.
    node_id: str = ""
    #: Indexes of its GPUs on the node; empty: none.
    gpus: tuple[int, ...] = ()
    #: CPUs that are its own, as a list such as "0-3,8" (the kernel's format); empty: it shares those that no task owns.
    cpus: str = ""
    #: One code; empty: there is none.
    reason: str = ""
    #: One line for people; may be empty.
    detail: str = ""
    #: 0: not yet, in this attempt.
    placed_at_ms: int = 0
    #: 0: not yet, in this attempt.
    started_at_ms: int = 0
    #: 0: not yet, in this attempt.
    ended_at_ms: int = 0
    #: None: it has not ended, or it is not known.
    exit_code: int | None = None
    #: How often an elastic task lost its place within the attempt, and waited for another.
    moves: int = 0
    #: Of its newest start, once that has ended.
    usage: Usage = NO_USAGE


def task_id(job_id: str, group: str, index: int) -> str:
    return f"{job_id}/{group}/{index}"


def allocation_id(task: str, attempt: int, moves: int = 0) -> str:
    """Return the id of one start of one task; an agent starts it at most once."""
    return f"{task}.{attempt}-{moves}" if moves else f"{task}.{attempt}"


def attempt_of(allocation: str) -> int:
    """Return the attempt of an allocation, by its id."""
    return int(allocation.rpartition(".")[2].partition("-")[0])
