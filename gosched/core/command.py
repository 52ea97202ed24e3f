"""Commands: everything that may change the cluster's state. Ids and times travel in them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.cluster import (
    UNKNOWN_HARDWARE,
    ClosedBy,
    Configuration,
    Hardware,
    Master,
    Queue,
    Quota,
    Reservation,
    TaskPlacement,
    Window,
)
from gosched.core.features import FeatureLevel
from gosched.core.job import TaskState
from gosched.core.resources import Resources
from gosched.core.spec import JobSpec, StringMap, Taint
from gosched.core.usage import NO_USAGE, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Noop:
    """Changes nothing; once it is applied, all that was committed before it is too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEpoch:
    """A new leader's first command; the answer's subject is the epoch."""

    leader: Master


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFeatureLevel:
    """Raises the level of the cluster; one that has no id yet gets this one. The first command of a new cluster."""

    level: int
    cluster_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQueues:
    """Replaces all queues, and with `sets_quotas` all quotas too, or changes nothing."""

    queues: tuple[Queue, ...]
    quotas: tuple[Quota, ...] = ()
    sets_quotas: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQuotas:
    """Sets the quotas of these tenants; one without any limit is taken away. `replace`: those of all others too."""

    quotas: tuple[Quota, ...]
    replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnounceMaster:
    master: Master


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMembers:
    """In an entry of a kind of its own, by the replica that leads: its members use it before it is applied."""

    configuration: Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitJob:
    """`reservation`: one or none, the start that keeps its deadline. `next_run_at_ms`: of a schedule."""

    job_id: str
    spec: JobSpec
    reservation: tuple[Reservation, ...] = ()
    next_run_at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob:
    job_id: str
    reason: str = ""


class Action(IntEnum):
    """What people do to a live job. FREEZE stops its tasks where they are, which keep their room; SUSPEND ends them and
    frees it. RESUME undoes either: a frozen job runs on, one without room waits in its old place in the queue. REQUEUE
    suspends and resumes at once."""

    UNSPECIFIED = 0
    HOLD = 1
    RELEASE = 2
    SUSPEND = 3
    RESUME = 4
    REQUEUE = 5
    FREEZE = 6


class NodeAction(IntEnum):
    """CORDON: no new work. DRAIN: and what is there leaves, what can start again elsewhere at once. UNCORDON ends
    both."""

    UNSPECIFIED = 0
    CORDON = 1
    UNCORDON = 2
    DRAIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlJob:
    job_id: str
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSchedule:
    """The run of a schedule that is due, and when the next one is. Refused unless `due_at_ms` is the one that waits."""

    job_id: str
    child_id: str
    due_at_ms: int
    next_run_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTime:
    """Nothing but its time: what was due by then happens (timeouts, deadlines, waits that are over)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRun:
    """Of a schedule."""

    job_id: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetClock:
    """Sets the state's clock: forward, beyond what a stamp may move it by, or back; then what it has stamped since goes
    back with it. `runs`: the next runs of schedules that are others by the new time."""

    to_ms: int
    runs: tuple[NextRun, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetWindow:
    """Makes a window, or changes the one of that name."""

    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class DropWindow:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DropFinishedJobs:
    """Forgets the jobs that ended before `ended_before_ms`, then the oldest beyond `keep`."""

    keep: int
    ended_before_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNode:
    """The agent has no task that the state does not know: its leftovers are gone."""

    node_id: str
    name: str
    address: str
    incarnation: str
    capacity: Resources
    gpu_model: str = ""
    labels: StringMap = ()
    taints: tuple[Taint, ...] = ()
    hardware: Hardware = UNKNOWN_HARDWARE
    isolation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlNode:
    """`node_id`: id or name. `by`: who wants it; one that another has closed stays closed, but to an OPERATOR.
    `drain_by_ms`: of a drain, when what is still there is stopped; 0: never."""

    node_id: str
    action: NodeAction
    by: ClosedBy
    reason: str = ""
    drain_by_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkNodeDead:
    """Refused when the node has registered anew meanwhile (other incarnation)."""

    node_id: str
    incarnation: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveNode:
    """`node_id`: id or name. Refused unless the node is DEAD."""

    node_id: str


class Cause(IntEnum):
    """Why a victim has to go. PREEMPT: for a higher priority in its queue. RECLAIM: another queue gets its guarantee.
    BACKFILL: it ran on room that was reserved. WINDOW: a reserved window begins. REPAIR: its own gang, which lost a
    member, starts again in place."""

    UNSPECIFIED = 0
    PREEMPT = 1
    RECLAIM = 2
    BACKFILL = 3
    WINDOW = 4
    REPAIR = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Of a whole gang, or (`ranks` not empty) of elastic tasks that it can do without."""

    job_id: str
    attempt: int
    ranks: tuple[int, ...] = ()
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlacement:
    """Task placements in order of rank: the whole gang, its minimum at least, or elastic tasks of one that runs. Taken
    or refused whole, its evictions included: with any, the gang gets a fence and starts when the last victim is gone.
    Evictions without tasks and a job make room for nobody: a window begins. `until_ms`: as in Job."""

    job_id: str
    attempt: int
    tasks: tuple[TaskPlacement, ...]
    evictions: tuple[Eviction, ...] = ()
    until_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """`revision`, `planned_at_ms` and `seed` are what the plan was made from: with them it can be made again.
    `reservations`: new ones, and those that change. `withdrawn`: jobs whose promise cannot be kept any more."""

    revision: int
    gangs: tuple[GangPlacement, ...]
    planned_at_ms: int = 0
    seed: int = 0
    reservations: tuple[Reservation, ...] = ()
    withdrawn: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What an agent saw: RUNNING, a checkpoint, or an end. A task that checkpoints while it is STOPPING has saved
    itself. `usage` of a live task, and `frozen`, do not enter the log. `blames_node`: it ended badly, and not by its
    own fault."""

    allocation_id: str
    state: TaskState
    exit_code: int | None = None
    reason: str = ""
    detail: str = ""
    started_at_ms: int = 0
    ended_at_ms: int = 0
    checkpoint_at_ms: int = 0
    usage: Usage = NO_USAGE
    frozen: bool = False
    blames_node: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTasks:
    node_id: str
    incarnation: str
    reports: tuple[TaskReport, ...]


Body = (
    Noop
    | OpenEpoch
    | SetFeatureLevel
    | SetQueues
    | SetQuotas
    | AnnounceMaster
    | SetMembers
    | SubmitJob
    | CancelJob
    | DropFinishedJobs
    | RegisterNode
    | MarkNodeDead
    | RemoveNode
    | CommitPlan
    | ReportTasks
    | ControlJob
    | ControlNode
    | RunSchedule
    | PassTime
    | SetClock
    | SetWindow
    | DropWindow
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`epoch` 0 is not fenced; an empty `request_id` is not remembered."""

    body: Body
    client_id: str = ""
    request_id: str = ""
    epoch: int = 0
    at_ms: int = 0


#: The feature level of each kind of command that masters of the release before do not know.
LEVEL_OF: dict[type[Body], FeatureLevel] = {
    RemoveNode: FeatureLevel.BOUNDED,
    SetMembers: FeatureLevel.BOUNDED,
}
