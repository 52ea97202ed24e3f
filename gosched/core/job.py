"""Jobs and tasks. A job is one gang: its tasks start together or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.resources import ZERO, Resources

# A map in a record: pairs sorted by key, so that equal maps are equal records.
StringMap = tuple[tuple[str, str], ...]


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


class MemberFailure(IntEnum):
    UNSPECIFIED = 0
    RESTART_GANG = 1
    FAIL_JOB = 2


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


class Named(IntEnum):
    """Prints as its name: people read it."""

    def __str__(self) -> str:
        return self.name


class JobState(Named):
    UNSPECIFIED = 0
    PENDING = 1
    RUNNING = 2
    SUSPENDED = 3
    SUCCEEDED = 4
    FAILED = 5
    CANCELLED = 6

    @property
    def is_final(self) -> bool:
        return self >= JobState.SUCCEEDED


class JobIntent(IntEnum):
    """What becomes of a job once none of its tasks holds an allocation."""

    UNSPECIFIED = 0
    RUN = 1
    RESTART = 2
    CANCEL = 3
    FAIL = 4


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
class TaskGroup:
    """`count` (> 0) equal tasks."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPolicy:
    """`min_tasks` is the number of tasks, until elastic gangs exist."""

    min_tasks: int
    on_member_failure: MemberFailure = MemberFailure.RESTART_GANG


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    max_restarts: int = 0
    backoff_ms: int = 0
    when: tuple[RetryCause, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What a user submitted, with defaults filled in. Groups are never empty and have distinct names."""

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

    @property
    def task_count(self) -> int:
        return sum(group.count for group in self.groups)

    @property
    def demand(self) -> Resources:
        """Of the whole gang."""
        total = ZERO
        for group in self.groups:
            total = total + group.resources.times(group.count)
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`active` = tasks that hold an allocation; `running` <= `active`. `failed` counts lost tasks too.

    `attempt` counts all starts of the gang; `restarts` those that followed a failure of its own.
    """

    id: str
    spec: JobSpec
    state: JobState = JobState.PENDING
    intent: JobIntent = JobIntent.RUN
    reason: str = ""
    detail: str = ""
    sequence: int
    attempt: int = 1
    restarts: int = 0
    active: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    submitted_at_ms: int
    not_before_ms: int = 0
    started_at_ms: int = 0
    ended_at_ms: int = 0
    exit_code: int | None = None

    def task_ids(self) -> list[str]:
        """In order of rank."""
        return [task_id(self.id, g.name, i) for g in self.spec.groups for i in range(g.count)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`allocation_id` and `node_id` are of the newest placement and stay after its end."""

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
    reason: str = ""
    detail: str = ""
    placed_at_ms: int = 0
    started_at_ms: int = 0
    ended_at_ms: int = 0
    exit_code: int | None = None


def task_id(job_id: str, group: str, index: int) -> str:
    return f"{job_id}/{group}/{index}"


def allocation_id(task: str, attempt: int) -> str:
    """One start of one task; an agent starts it at most once."""
    return f"{task}.{attempt}"
