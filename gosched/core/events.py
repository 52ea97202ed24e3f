"""Events: what a command changed, for the shell."""

from __future__ import annotations

from dataclasses import dataclass, field

from gosched.core.commands.plans import Cause
from gosched.core.records.job import Job, JobState
from gosched.core.records.node import Node, NodeState
from gosched.core.records.task import Task, TaskState
from gosched.core.replace import quickly_made
from gosched.core.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochOpened:
    """A master leads."""

    epoch: int
    leader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesChanged:
    """Queues or quotas have changed."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class JobChanged:
    """A job has another state."""

    job_id: str
    queue: str
    #: UNSPECIFIED: the job is new.
    before: JobState
    #: UNSPECIFIED: the job was dropped.
    after: JobState
    #: One code; empty: there is none.
    reason: str = ""
    #: From submission to first placement, with that one change; None otherwise.
    wait_ms: int | None = None
    #: The record after the change; of a job that was dropped, its last one.
    job: Job | None = field(default=None, compare=False, repr=False)
    #: The record before the change; None: the job is new, or was dropped.
    was: Job | None = field(default=None, compare=False, repr=False)


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWork:
    """What a task that has ended did in the time that it held its resources. The two times are part of that."""

    queue: str
    resources: Resources
    #: All of that time.
    held_ms: int
    #: All, if the task succeeded; up to the last checkpoint, if it was evicted.
    useful_ms: int
    #: The rest, if it was evicted.
    lost_ms: int


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChanged:
    """A task has another state."""

    job_id: str
    task_id: str
    #: Of its newest placement; empty: none.
    allocation_id: str
    #: Of its newest placement; empty: none.
    node_id: str
    before: TaskState
    after: TaskState
    #: One code; empty: there is none.
    reason: str = ""
    #: The record after the change.
    task: Task | None = field(default=None, compare=False, repr=False)
    #: None: the task has not ended, or had no placement.
    work: TaskWork | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChanged:
    """A node has another state, or says something new of itself."""

    node_id: str
    #: UNSPECIFIED: the node is new.
    before: NodeState
    #: UNSPECIFIED: the node was removed.
    after: NodeState
    #: In one line; may be empty.
    reason: str = ""
    #: The record after the change; of a node that was removed, its last one.
    node: Node | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvicted:
    """A gang, or elastic tasks of one, was ordered to stop for another job or a window."""

    #: The victim.
    job_id: str
    #: Of the victim.
    queue: str
    #: Job that gets the capacity; empty: a window begins.
    for_job: str
    cause: Cause
    #: How many are stopped.
    tasks: int
    #: All of the gang.
    whole: bool
    #: Work since the start or the last checkpoint, times the tasks that are stopped.
    lost_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceChanged:
    """A fence was made, or is gone: its job has started, or never will there."""

    job_id: str
    node_ids: tuple[str, ...]
    #: False: it is gone.
    made: bool
    #: Why it was dropped, in one line; empty: it was made, or its job has started.
    why: str = ""
    #: Where its victims hold something, which counts as free while it is there.
    victims_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationChanged:
    """A reservation was made, has changed, or is gone."""

    job_id: str
    #: 0: it is gone.
    start_ms: int
    #: It was to keep a deadline, and does not any more.
    broken: bool = False
    #: When the job was to start before the change; 0: there was no reservation.
    before_ms: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowsChanged:
    """Windows have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessChanged:
    """Bindings or tokens have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeJoined:
    """An agent used a token to join with, and gets a certificate. Its node registers next."""

    #: The node's id.
    name: str
    token_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSet:
    """The clock of the state was set back: moments that were after `to_ms` are earlier now, in any record."""

    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFailed:
    """A command met a bug before it had changed anything, and was refused for it; or operators had it skipped."""

    #: Its name: "SubmitJob".
    command: str
    #: What it met, in one line; alike on all masters.
    why: str
    #: Where it was raised, in one line; empty: it was skipped.
    trace: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineMissed:
    """A job had not succeeded by its deadline. It goes on."""

    job_id: str
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUpdated:
    """Something of a job has changed that the planner sees, but not its state: held, released, freed of a
    dependency."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitReasonNoted:
    """A pending job waits for this reason now, as the planner found. Nothing of the state has changed."""

    job_id: str
    #: One code.
    code: str
    #: One line for people; may be empty.
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFrozen:
    """The tasks of a job are to stand still, or to run on. A frozen job that is stopped thaws without this event."""

    job_id: str
    #: False: they are to run on.
    frozen: bool
    #: Where they are.
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
    | AccessChanged
    | NodeJoined
    | ClockSet
    | CommandFailed
    | DeadlineMissed
    | JobUpdated
    | JobFrozen
    | WaitReasonNoted
)
