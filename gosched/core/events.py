"""Events: what a command changed, for the shell."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.commands.plans import Cause
from gosched.core.records.job import JobState
from gosched.core.records.node import NodeState
from gosched.core.records.task import TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochOpened:
    epoch: int
    leader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesChanged:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChanged:
    """`before` is UNSPECIFIED for a new job; `after` is UNSPECIFIED for a dropped one. `wait_ms`: from submission
    to first placement, with that one change only."""

    job_id: str
    queue: str
    before: JobState
    after: JobState
    reason: str = ""
    wait_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChanged:
    job_id: str
    task_id: str
    allocation_id: str
    node_id: str
    before: TaskState
    after: TaskState
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChanged:
    """`before` is UNSPECIFIED for a new node."""

    node_id: str
    before: NodeState
    after: NodeState
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvicted:
    """`for_job`: who gets the room, empty for a window. `lost_ms`: work since the start or the last checkpoint, times
    the tasks that go. `tasks`: how many go; `whole`: all of the gang."""

    job_id: str
    queue: str
    for_job: str
    cause: Cause
    tasks: int
    whole: bool
    lost_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceChanged:
    """A fence was made (`made`), or is gone: its job has started, or never will there."""

    job_id: str
    node_ids: tuple[str, ...]
    made: bool
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationChanged:
    """`start_ms` 0: it is gone. `broken`: a promise that cannot be kept any more."""

    job_id: str
    start_ms: int
    broken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowsChanged:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSet:
    """The state's clock was set back: moments that were after `to_ms` are earlier now, in any record."""

    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineMissed:
    """The job had not succeeded by its deadline. It goes on."""

    job_id: str
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUpdated:
    """Something of a job changed that the planner sees, but not its state: held, released, freed of a dependency."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFrozen:
    """The job's tasks are to stand still where they are, or (`frozen` False) to run on. `node_ids`: where they are. A
    frozen job that is stopped thaws without a word."""

    job_id: str
    frozen: bool
    node_ids: tuple[str, ...]


Event = (
    EpochOpened
    | QueuesChanged
    | JobChanged
    | TaskChanged
    | NodeChanged
    | JobEvicted
    | FenceChanged
    | ReservationChanged
    | WindowsChanged
    | ClockSet
    | DeadlineMissed
    | JobUpdated
    | JobFrozen
)
