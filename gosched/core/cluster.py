"""The cluster's own records: nodes, allocations, queues, tenants, masters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.resources import MILLI, AmountMap, Resources
from gosched.core.spec import Named, PreemptionPolicy, StringMap, Taint
from gosched.core.usage import NOTHING_SPENT, Spent


class NodeState(Named):
    UNSPECIFIED = 0
    READY = 1
    CORDONED = 2
    DRAINING = 3
    DEAD = 4


class ClosedBy(IntEnum):
    """AGENT: it says itself that it is unfit for work. FAILURES: task after task failed there."""

    UNSPECIFIED = 0
    OPERATOR = 1
    AGENT = 2
    FAILURES = 3


class QueueType(IntEnum):
    UNSPECIFIED = 0
    FIFO = 1
    FAIR = 2
    CAPACITY = 3


class QueueOrder(IntEnum):
    """Of the jobs in a queue. UNSPECIFIED: the cluster's algorithm says."""

    UNSPECIFIED = 0
    FIFO = 1
    PRIORITY = 2
    FAIR = 3
    DEADLINE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """How a node is built. Each list is empty where the agent does not know.

    `numa_cpus`: the CPUs of each NUMA node, as lists such as "0-23,48-71". `gpu_numa`, `gpu_links`: for each GPU its
    NUMA node, and its island of fast links (NVLink). `gpu_memory_bytes`: of each GPU; 0: not known. `bad_gpus`: those
    that have errors and take no work.
    """

    numa_cpus: tuple[str, ...] = ()
    gpu_numa: tuple[int, ...] = ()
    gpu_links: tuple[int, ...] = ()
    gpu_memory_bytes: int = 0
    bad_gpus: tuple[int, ...] = ()


UNKNOWN_HARDWARE = Hardware()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine with an agent. `incarnation` names one boot of that agent. `isolation`: what its agent cannot enforce,
    in one line; empty: it enforces everything.

    `closed_by` says who made it CORDONED, and so who may open it again. `drain_by_ms`: when a DRAINING node's tasks are
    stopped; 0: they may end by themselves. `failing`: the jobs whose tasks failed there lately through the node's own
    fault, with no success in between.
    """

    id: str
    name: str
    address: str
    capacity: Resources
    gpu_model: str = ""
    labels: StringMap = ()
    taints: tuple[Taint, ...] = ()
    hardware: Hardware = UNKNOWN_HARDWARE
    state: NodeState = NodeState.READY
    reason: str = ""
    incarnation: str
    registered_at_ms: int
    changed_at_ms: int
    isolation: str = ""
    closed_by: ClosedBy = ClosedBy.UNSPECIFIED
    drain_by_ms: int = 0
    failing: tuple[str, ...] = ()

    @property
    def usable(self) -> Resources:
        """What of its capacity can be promised: GPUs with errors cannot, though a task may hold one still."""
        return self.capacity - Resources(gpu_millis=len(self.hardware.bad_gpus) * MILLI)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What a task holds on a node, from the commit of its placement to its end. `gpu_model`: of the GPUs it holds.
    `leaves_for`: the job whose fence waits for it to end."""

    id: str
    task_id: str
    job_id: str
    node_id: str
    resources: Resources
    gpus: tuple[int, ...] = ()
    cpus: str = ""
    gpu_model: str = ""
    placed_at_ms: int
    leaves_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlacement:
    """Where the task of a rank goes, and what it gets there."""

    rank: int
    node_id: str
    gpus: tuple[int, ...] = ()
    cpus: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Where a job starts as soon as the last allocation that leaves for it has ended. Nobody else gets that room: what
    the fence holds and what still runs there count both, but for what leaves for it."""

    job_id: str
    attempt: int
    tasks: tuple[TaskPlacement, ...]
    made_at_ms: int
    until_ms: int = 0  # as in Job, once it has started
    by_ms: int = 0  # when the last victim has gone, at the latest


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """`count` tasks of a group on a node."""

    group: str
    node_id: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The start that a pending job was promised: not later than `start_ms`, on these nodes, until `end_ms` (0: open).
    `for_deadline`: promised when it was submitted."""

    job_id: str
    attempt: int
    start_ms: int
    end_ms: int = 0
    shares: tuple[Share, ...]
    for_deadline: bool = False
    made_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Nodes that are kept from `start_ms` to `end_ms` (0: open) for jobs of these queues (and what is below them) and
    tenants; for nobody, if none is named: maintenance."""

    name: str
    start_ms: int
    end_ms: int = 0
    nodes: tuple[str, ...]
    queues: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A node of the sharing tree; `research.llm` is a child of `research`. Jobs stand in leaves only.

    `type` says how it takes part among its siblings: CAPACITY has a guarantee (`capacity_pct` of its parent's share,
    or the vector `guaranteed`); what is left is shared by `weight`. It never holds more than `max_pct` of
    what its parent may hold, nor more than `limit`. A resource that a vector does not name has no limit by it.
    `max_running_jobs` 0, `half_life_ms` 0, `tenants` empty: no such rule. `preemption` UNSPECIFIED: as its parent's; a
    topmost queue then lets its jobs do what they ask for.
    """

    path: str
    type: QueueType = QueueType.FIFO
    weight: int = 1
    capacity_pct: int = 0
    max_pct: int = 100
    guaranteed: AmountMap = ()
    limit: AmountMap = ()
    order: QueueOrder = QueueOrder.UNSPECIFIED
    max_running_jobs: int = 0
    tenants: tuple[str, ...] = ()
    half_life_ms: int = 0
    preemption: PreemptionPolicy = PreemptionPolicy.UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a tenant may hold in the whole cluster. `gpu:h100` counts GPUs of one model."""

    tenant: str
    limit: AmountMap = ()
    max_running_jobs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a tenant used in a queue with a half-life: amounts times milliseconds, decayed up to `at_ms`. Read it with
    `core.accounting`, which knows the units."""

    queue: str
    tenant: str
    used: AmountMap = ()
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Who is charged. Made by the first job that names it. `spent`: by all its jobs, since then."""

    name: str
    created_at_ms: int
    spent: Spent = NOTHING_SPENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Master:
    """Where a master's front listens, as it said itself."""

    id: str
    grpc_address: str
    http_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of the replicated log."""

    id: str
    #: host:port of its Raft listener.
    address: str
    #: It is counted and may lead; a learner only gets the log.
    voter: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The members of the replicated log, at some place of it."""

    #: Counts the changes; the first entry that names the members has 1.
    version: int
    #: By their ids, in order.
    members: tuple[Member, ...]
