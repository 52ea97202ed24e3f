"""What YARN says and takes, as records. A field that a ResourceManager leaves out has its default.

Invariant: states are YARN's own words, so one that a newer release adds is passed on; none of them is judged here but
whether an application has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

ENDED = frozenset({"FINISHED", "FAILED", "KILLED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    """The ResourceManager that has answered: it may be one on standby."""

    #: Milliseconds since 1970: when it started; the first number in the ids of its applications.
    id: int
    #: `STARTED`, else it is not ready.
    state: str
    #: `ACTIVE` or `STANDBY`.
    ha_state: str
    #: Release of the ResourceManager.
    version: str
    #: Milliseconds since 1970.
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetrics:
    """Sums over the cluster."""

    apps_submitted: int
    apps_pending: int
    apps_running: int
    apps_completed: int
    apps_failed: int
    apps_killed: int
    #: MiB of all nodes that run.
    total_memory_mib: int
    #: MiB that no container holds.
    available_memory_mib: int
    #: MiB that containers hold.
    allocated_memory_mib: int
    total_vcores: int
    available_vcores: int
    allocated_vcores: int
    containers: int
    active_nodes: int
    lost_nodes: int
    unhealthy_nodes: int
    decommissioned_nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnNode:
    """A NodeManager."""

    #: Host and port of the NodeManager.
    id: str
    #: `RUNNING`, `UNHEALTHY`, `LOST`, `DECOMMISSIONED`, ...
    state: str
    host: str
    #: Host and port of its own web page and REST API.
    http_address: str
    rack: str
    labels: tuple[str, ...]
    containers: int
    used_memory_mib: int
    available_memory_mib: int
    used_vcores: int
    available_vcores: int
    #: Release of the NodeManager.
    version: str
    #: Why it is not healthy; empty: it is.
    health_report: str
    #: Milliseconds since 1970: when it was last heard of.
    heard_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnQueue:
    """A queue of the scheduler, with those below it. A percentage that its scheduler does not know is None."""

    #: From `root` on, with dots.
    path: str
    #: `RUNNING`, `STOPPED`, `DRAINING`; empty: the scheduler has no states.
    state: str
    #: Guarantee, in percent of the parent's.
    capacity_pct: float | None
    #: Ceiling, in percent of the parent's.
    max_capacity_pct: float | None
    #: Guarantee, in percent of the cluster.
    absolute_capacity_pct: float | None
    #: Ceiling, in percent of the cluster.
    absolute_max_capacity_pct: float | None
    #: Held now, in percent of the cluster.
    absolute_used_pct: float | None
    #: Of a FairScheduler: the share if all queues had demand, in MiB and vcores.
    steady_memory_mib: int | None
    steady_vcores: int | None
    used_memory_mib: int
    used_vcores: int
    #: Applications that run or wait; of a queue with children, theirs.
    applications: int
    children: tuple[YarnQueue, ...]

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    def all(self) -> tuple[YarnQueue, ...]:
        """Return the queue and all below it, parents first."""
        return (self, *(queue for child in self.children for queue in child.all()))


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnScheduler:
    """The scheduler of a ResourceManager."""

    #: `capacityScheduler`, `fairScheduler` or `fifoScheduler`.
    type: str
    root: YarnQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnApplication:
    """An application, as the active ResourceManager knows it."""

    id: str
    name: str
    #: `SPARK`, `MAPREDUCE`, ...; what its submitter said.
    type: str
    user: str
    queue: str
    #: `NEW`, `NEW_SAVING`, `SUBMITTED`, `ACCEPTED`, `RUNNING`, `FINISHED`, `FAILED`, `KILLED`.
    state: str
    #: What its ApplicationMaster said of the result: `SUCCEEDED`, `FAILED`, `KILLED`; `UNDEFINED` before.
    final_status: str
    progress_pct: float
    priority: int
    tags: tuple[str, ...]
    #: Why it is in this state, in several lines of YARN's.
    diagnostics: str
    #: Where its own page is; empty: it has none yet.
    tracking_url: str
    #: Where the logs of its ApplicationMaster are; empty: it has not been placed yet.
    log_url: str
    #: Milliseconds since 1970; 0: not yet.
    started_ms: int
    launched_ms: int
    finished_ms: int
    #: Held now.
    memory_mib: int
    vcores: int
    containers: int
    #: Held so far.
    memory_mib_seconds: int
    vcore_seconds: int

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApplication:
    """An id for an application that is yet to be submitted."""

    id: str
    #: The most that one container may have.
    max_memory_mib: int
    max_vcores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResource:
    """A file that YARN puts into the working directory of a container."""

    #: Name of the file there.
    name: str
    #: Where it is now, such as `hdfs://host/path`.
    url: str
    #: YARN refuses a file of another size or time than these.
    size_bytes: int
    modified_ms: int
    #: `FILE` or `ARCHIVE`, which is unpacked.
    type: str = "FILE"
    #: `APPLICATION`, `PRIVATE` or `PUBLIC`: who may share the copy.
    visibility: str = "APPLICATION"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """An application to submit. `id` comes from `new_application`; the same id is never submitted twice."""

    id: str
    name: str
    #: Command line of the ApplicationMaster, for a shell on its node.
    command: str
    queue: str = "default"
    #: Memory and vcores of the ApplicationMaster's container.
    memory_mib: int = 1024
    vcores: int = 1
    #: Names and values.
    environment: tuple[tuple[str, str], ...] = ()
    local_resources: tuple[LocalResource, ...] = ()
    type: str = "YARN"
    tags: tuple[str, ...] = ()
    #: None: the queue's default.
    priority: int | None = None
    #: How often YARN starts the ApplicationMaster; at most what the cluster allows.
    max_attempts: int = 1
