"""What a user submits: a job, its task groups, and the rules of their placement, gang, restarts and time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from math import prod

from gosched.core.resources import ZERO, AmountMap, Resources

# A map in a record: pairs sorted by key, so that equal maps are equal records.
StringMap = tuple[tuple[str, str], ...]


class Named(IntEnum):
    """Prints as its name: people read it."""

    def __str__(self) -> str:
        return self.name


class Runtime(IntEnum):
    UNSPECIFIED = 0
    PROCESS = 1
    ROOTFS = 2
    DOCKER = 3
    SPARK = 4


class Strategy(IntEnum):
    UNSPECIFIED = 0
    BINPACK = 1
    SPREAD = 2
    FRAGMENTATION = 3
    EXPECTED_WASTE = 4


class Mode(IntEnum):
    UNSPECIFIED = 0
    REQUIRED = 1
    PREFERRED = 2


class LabelOp(IntEnum):
    """GT and LT compare whole numbers; a label that is none fails them."""

    UNSPECIFIED = 0
    IN = 1
    NOT_IN = 2
    EXISTS = 3
    NOT_EXISTS = 4
    GT = 5
    LT = 6


class TaintEffect(IntEnum):
    UNSPECIFIED = 0
    NO_SCHEDULE = 1
    PREFER_NO_SCHEDULE = 2
    NO_EXECUTE = 3


class TolerationOp(IntEnum):
    UNSPECIFIED = 0
    EXISTS = 1
    EQUAL = 2


class MemberFailure(IntEnum):
    UNSPECIFIED = 0
    RESTART_GANG = 1
    FAIL_JOB = 2
    CONTINUE = 3


class RetryCause(IntEnum):
    UNSPECIFIED = 0
    NODE_LOST = 1
    PREEMPTED = 2
    FAILED = 3


class OnDisconnect(IntEnum):
    UNSPECIFIED = 0
    KEEP = 1
    STOP = 2


class Framework(IntEnum):
    UNSPECIFIED = 0
    NONE = 1
    TORCH = 2
    MPI = 3


class Pull(IntEnum):
    """When a container image is fetched."""

    UNSPECIFIED = 0
    MISSING = 1
    ALWAYS = 2
    NEVER = 3


class Network(IntEnum):
    """NONE: a network namespace of its own with loopback alone."""

    UNSPECIFIED = 0
    HOST = 1
    NONE = 2


class PreemptionPolicy(IntEnum):
    """Of a job: whom it may evict. Of a queue: what its jobs may do at most; OBSERVE_ONLY says what it would do."""

    UNSPECIFIED = 0
    NEVER = 1
    LOWER_PRIORITY = 2
    OBSERVE_ONLY = 3


class OnMiss(IntEnum):
    """Of a deadline that cannot be met at submission."""

    UNSPECIFIED = 0
    CONTINUE = 1
    REFUSE = 2


class Condition(IntEnum):
    """How the job that another one waits for has to end."""

    UNSPECIFIED = 0
    SUCCESS = 1
    FAILURE = 2
    ANY = 3


class Overlap(IntEnum):
    """What becomes of a scheduled run while the one before still lives."""

    UNSPECIFIED = 0
    ALLOW = 1
    FORBID = 2
    REPLACE = 3


SPARK_DRIVER, SPARK_WORKER = "spark-driver", "spark-worker"
SELF = "self"  # in anti-affinity: the job itself


NODE_LEVEL, NUMA_LEVEL, LINK_LEVEL = "node", "numa", "gpu_link"  # below the levels that the config names


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRule:
    """The gang stands in one domain of the level: a label key of the config's topology, or a fixed level below it."""

    level: str
    mode: Mode = Mode.REQUIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadRule:
    """Domains of the level differ by at most `max_skew` (> 0) tasks of the group."""

    level: str
    max_skew: int = 1
    mode: Mode = Mode.REQUIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """A condition on a node's label. `weight` 0: required; else it counts for nodes that meet it (below 0: against)."""

    label: str
    op: LabelOp
    values: tuple[str, ...] = ()
    weight: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AntiAffinity:
    """No domain of the level holds two tasks of the job (SELF), or a task of this one and one of the named job. Nodes
    outside of all domains take no task that keeps apart from its own job."""

    job: str = SELF
    level: str = NODE_LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """An empty `key` with EXISTS tolerates every taint; effect UNSPECIFIED stands for all effects."""

    key: str = ""
    op: TolerationOp = TolerationOp.EXISTS
    value: str = ""
    effect: TaintEffect = TaintEffect.UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    key: str
    value: str = ""
    effect: TaintEffect = TaintEffect.NO_SCHEDULE


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A path of the node that the task sees under another one. Absolute paths."""

    host: str
    to: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rlimit:
    """As setrlimit(2) knows it, without RLIMIT_ and in small letters: nofile, core, ... -1: unlimited."""

    name: str
    soft: int
    hard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """How a task is kept to itself on its node, beyond its resources. 0, None and empty stand for the node's
    default.

    `cpu_soft`: it may use CPUs that others leave idle, its own are its weight; otherwise its CPUs are a hard limit.
    `memory_low_bytes` is kept from reclaim while others have more than theirs; beyond `memory_high_bytes` it is
    throttled. `hugepages`: bytes by page size (2Mi, 1Gi). `io_weight` 1 to 10000; the others per second.
    `registry`: name of the credentials, which are in the agent's config. `read_only`: of a root filesystem.
    """

    user: str = ""
    umask: int | None = None
    rlimits: tuple[Rlimit, ...] = ()
    volumes: tuple[Volume, ...] = ()
    network: Network = Network.UNSPECIFIED
    read_only: bool = False
    pull: Pull = Pull.UNSPECIFIED
    registry: str = ""
    cpu_soft: bool = False
    memory_low_bytes: int = 0
    memory_high_bytes: int = 0
    swap_bytes: int | None = None
    pids: int = 0
    hugepages: AmountMap = ()
    io_weight: int = 0
    io_read_bytes: int = 0
    io_write_bytes: int = 0
    io_reads: int = 0
    io_writes: int = 0


PLAIN = Isolation()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroup:
    """`count` (> 0) equal tasks; `min_count` of them start together or not at all (0: all), the others are elastic.

    `gpu_memory_bytes`: what the task needs of each of its GPUs; of a GPU that it shares, its share of the memory.
    `image`: of ROOTFS a directory or tarball on the node, of DOCKER a name. SPARK: the command is the words after
    spark-submit, or one of the two roles of an application, SPARK_DRIVER and its words, and SPARK_WORKER.
    """

    name: str
    count: int
    resources: Resources = ZERO
    gpu_model: str = ""
    runtime: Runtime = Runtime.PROCESS
    image: str = ""
    command: tuple[str, ...] = ()
    env: StringMap = ()
    working_dir: str = ""
    node_selector: StringMap = ()
    strategy: Strategy = Strategy.UNSPECIFIED
    framework: Framework = Framework.NONE
    min_count: int = 0
    gpu_memory_bytes: int = 0
    topology: tuple[TopologyRule, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    affinity: tuple[Affinity, ...] = ()
    anti_affinity: tuple[AntiAffinity, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    isolation: Isolation = PLAIN

    @property
    def floor(self) -> int:
        """Tasks that start together."""
        return self.min_count or self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPolicy:
    """`min_tasks`: the sum of the groups' floors. `wait_ms`: a job that has not started so long after it could is
    FAILED; 0: it waits for ever. CONTINUE: the gang goes on while every group has its floor. `ends_with`: a group;
    once all of it has succeeded the others are stopped, and the job has succeeded."""

    min_tasks: int
    on_member_failure: MemberFailure = MemberFailure.RESTART_GANG
    wait_ms: int = 0
    ends_with: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    max_restarts: int = 0
    backoff_ms: int = 0
    when: tuple[RetryCause, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """`policy`: whether the job may evict others; `preemptible`: whether others may evict it, once an attempt ran for
    `min_runtime_ms`. A job that its retry policy would not start again after a preemption is never evicted.

    Before its end a victim gets `checkpoint_signal` (a number; 0: none) and up to `grace_ms` to save itself.
    """

    policy: PreemptionPolicy = PreemptionPolicy.LOWER_PRIORITY
    preemptible: bool = True
    grace_ms: int = 0
    checkpoint_signal: int = 0
    min_runtime_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """`job`: a name or an id in a spec, an id in a Job."""

    job: str
    condition: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One variable of a matrix and its values."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """Elements `first`, `first + step`, ... up to `last`, or one for each combination of the matrix, numbered from 0,
    the last axis running fastest. `parallelism`: elements that may live at once; `max_failures`: that many may fail,
    one more ends the array; -1: any number. `step` 0 and no matrix: the job is no array."""

    first: int = 0
    last: int = 0
    step: int = 0
    matrix: tuple[Axis, ...] = ()
    parallelism: int = 0
    max_failures: int = -1

    @property
    def size(self) -> int:
        if self.matrix:
            return prod(len(axis.values) for axis in self.matrix)
        return (self.last - self.first) // self.step + 1 if self.step else 0

    def index(self, position: int) -> int:
        """Of the element at a position, 0 <= position < size."""
        return position if self.matrix else self.first + position * self.step

    def values(self, index: int) -> StringMap:
        """The matrix' variables of an element, in the order of the axes."""
        found: list[tuple[str, str]] = []
        for axis in reversed(self.matrix):
            index, value = divmod(index, len(axis.values))
            found.append((axis.name, axis.values[value]))
        return tuple(reversed(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What a user submitted, with defaults filled in. Groups are never empty and have distinct names.

    A deadline is a moment (`deadline_at_ms`) or a time after submission (`deadline_in_ms`); both 0: none.
    `estimate_ms`: how long an attempt runs, as far as the user knows; `timeout_ms`: when it is ended; 0: none.
    `after`: jobs that must end first. `cron` (with `timezone`): the job is a schedule, and each run a job of its own.
    """

    name: str
    queue: str
    tenant: str = "default"
    priority: int = 0
    labels: StringMap = ()
    gang: GangPolicy
    groups: tuple[TaskGroup, ...]
    retry: RetryPolicy = RetryPolicy()
    on_disconnect: OnDisconnect = OnDisconnect.KEEP
    stop_grace_ms: int = 10_000
    deadline_at_ms: int = 0
    deadline_in_ms: int = 0
    on_miss: OnMiss = OnMiss.CONTINUE
    estimate_ms: int = 0
    timeout_ms: int = 0
    preemption: Preemption = Preemption()
    hold: bool = False
    after: tuple[Dependency, ...] = ()
    array: Array = Array()
    cron: str = ""
    timezone: str = ""
    overlap: Overlap = Overlap.UNSPECIFIED

    @property
    def is_parent(self) -> bool:
        """An array or a schedule: it has no tasks, its children have."""
        return bool(self.cron or self.array.size)

    @property
    def span_ms(self) -> int:
        """How long an attempt is planned to hold its place: the limit, else the estimate; 0: unknown."""
        return self.timeout_ms or self.estimate_ms

    @property
    def leave_ms(self) -> int:
        """From the order to give way until the last task has gone, at most."""
        rules = self.preemption
        return rules.grace_ms + self.stop_grace_ms if rules.checkpoint_signal else rules.grace_ms or self.stop_grace_ms

    @property
    def task_count(self) -> int:
        """Of the job itself."""
        return 0 if self.is_parent else sum(group.count for group in self.groups)

    @property
    def demand(self) -> Resources:
        """Of the whole gang."""
        total = ZERO
        for group in self.groups:
            total = total + group.resources.times(group.count)
        return total
