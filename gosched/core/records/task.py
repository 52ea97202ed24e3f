"""Tasks of jobs as they live."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.primitives import Named
from gosched.core.records.usage import NO_USAGE, Usage

#: Reason of a task that is LOST because its node could not start it for want of disk or memory: nothing of it ran.
NODE_FAULT = "NODE_FAULT"


class TaskState(Named):
    UNSPECIFIED = 0
    PENDING = 1
    PLACED = 2
    STARTING = 3
    RUNNING = 4
    STOPPING = 5
    SUCCEEDED = 6
    FAILED = 7
    KILLED = 8
    LOST = 9

    @property
    def is_active(self) -> bool:
        """Holds an allocation."""
        return TaskState.PLACED <= self <= TaskState.STOPPING

    @property
    def is_final(self) -> bool:
        return self >= TaskState.SUCCEEDED

    @property
    def is_failure(self) -> bool:
        """Ended badly by itself. A killed task was ended by somebody."""
        return self in (TaskState.FAILED, TaskState.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`allocation_id` and `node_id` are of the newest placement and stay after its end. `cpus` is a list such as
    "0-3,8" (the kernel's format): CPUs that are the task's alone; empty: it shares those that nobody owns. `moves`: how
    often an elastic task lost its place within the attempt, and waited for another. `usage`: of its newest start, once
    that has ended."""

    id: str
    job_id: str
    group: str
    index: int
    rank: int
    state: TaskState = TaskState.PENDING
    attempt: int = 1
    allocation_id: str = ""
    node_id: str = ""
    gpus: tuple[int, ...] = ()
    cpus: str = ""
    reason: str = ""
    detail: str = ""
    placed_at_ms: int = 0
    started_at_ms: int = 0
    ended_at_ms: int = 0
    exit_code: int | None = None
    moves: int = 0
    usage: Usage = NO_USAGE


def task_id(job_id: str, group: str, index: int) -> str:
    return f"{job_id}/{group}/{index}"


def allocation_id(task: str, attempt: int, moves: int = 0) -> str:
    """One start of one task; an agent starts it at most once."""
    return f"{task}.{attempt}-{moves}" if moves else f"{task}.{attempt}"
