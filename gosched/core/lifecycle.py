"""The lifecycle tables. `advance` is the only way a status changes; an illegal step is a bug and raises."""

from __future__ import annotations

from typing import TypeVar

from gosched.core.records.job import JobState
from gosched.core.records.node import NodeState
from gosched.core.records.task import TaskState

J, T, N = JobState, TaskState, NodeState

JOB_STEPS: dict[JobState, tuple[JobState, ...]] = {
    J.PENDING: (J.RUNNING, J.SUSPENDED, J.FAILED, J.CANCELLED),
    J.RUNNING: (J.PENDING, J.SUSPENDED, J.SUCCEEDED, J.FAILED, J.CANCELLED),
    J.SUSPENDED: (J.PENDING, J.RUNNING, J.FAILED, J.CANCELLED),
    J.SUCCEEDED: (),
    J.FAILED: (),
    J.CANCELLED: (),
}

_ENDS = (T.SUCCEEDED, T.FAILED, T.KILLED, T.LOST)

# An ended task goes back to PENDING when its gang restarts, an elastic one also when it lost its place. A parent
# (array, schedule) is RUNNING from its first child on.
TASK_STEPS: dict[TaskState, tuple[TaskState, ...]] = {
    T.PENDING: (T.PLACED, T.KILLED),
    T.PLACED: (T.STARTING, T.RUNNING, T.STOPPING, *_ENDS),
    T.STARTING: (T.RUNNING, T.STOPPING, *_ENDS),
    T.RUNNING: (T.STOPPING, *_ENDS),
    T.STOPPING: _ENDS,
    T.SUCCEEDED: (T.PENDING,),
    T.FAILED: (T.PENDING,),
    T.KILLED: (T.PENDING,),
    T.LOST: (T.PENDING,),
}

NODE_STEPS: dict[NodeState, tuple[NodeState, ...]] = {
    N.READY: (N.CORDONED, N.DRAINING, N.DEAD),
    N.CORDONED: (N.READY, N.DRAINING, N.DEAD),
    N.DRAINING: (N.READY, N.CORDONED, N.DEAD),
    N.DEAD: (N.READY, N.CORDONED),
}

S = TypeVar("S", JobState, TaskState, NodeState)


class IllegalStep(Exception):
    """A handler tried a step that the table does not have."""


def advance(table: dict[S, tuple[S, ...]], now: S, to: S) -> S:
    if to not in table[now]:
        raise IllegalStep(f"{type(now).__name__}: {now.name} -> {to.name}")
    return to
