"""Commands: everything that may change the cluster's state. Ids and times travel in them."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.cluster import UNKNOWN_HARDWARE, Hardware, Master, Queue, Quota
from gosched.core.job import JobSpec, StringMap, Taint, TaskState
from gosched.core.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Noop:
    """Changes nothing; once it is applied, all that was committed before it is too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEpoch:
    """A new leader's first command; the answer's subject is the epoch."""

    leader: Master


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
class SubmitJob:
    job_id: str
    spec: JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob:
    job_id: str
    reason: str = ""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkNodeDead:
    """Refused when the node has registered anew meanwhile (other incarnation)."""

    node_id: str
    incarnation: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlacement:
    rank: int
    node_id: str
    gpus: tuple[int, ...] = ()
    cpus: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlacement:
    """Task placements in order of rank: the whole gang, its minimum at least, or elastic tasks of one that runs.
    Taken or refused whole."""

    job_id: str
    attempt: int
    tasks: tuple[TaskPlacement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """`revision` is the one the plan was made from."""

    revision: int
    gangs: tuple[GangPlacement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What an agent saw: RUNNING, or an end."""

    allocation_id: str
    state: TaskState
    exit_code: int | None = None
    reason: str = ""
    detail: str = ""
    started_at_ms: int = 0
    ended_at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTasks:
    node_id: str
    incarnation: str
    reports: tuple[TaskReport, ...]


Body = (
    Noop
    | OpenEpoch
    | SetQueues
    | SetQuotas
    | AnnounceMaster
    | SubmitJob
    | CancelJob
    | DropFinishedJobs
    | RegisterNode
    | MarkNodeDead
    | CommitPlan
    | ReportTasks
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`epoch` 0 is not fenced; an empty `request_id` is not remembered."""

    body: Body
    client_id: str = ""
    request_id: str = ""
    epoch: int = 0
    at_ms: int = 0
