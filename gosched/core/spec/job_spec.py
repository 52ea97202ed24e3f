"""What a user submits: a job with its task groups and policies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.primitives import StringMap, added
from gosched.core.resources import ZERO, Resources
from gosched.core.spec.array import NO_ARRAY, Array
from gosched.core.spec.dependency import Dependency
from gosched.core.spec.policies import DEFAULT_PREEMPTION, NO_RETRIES, GangPolicy, Preemption, RetryPolicy
from gosched.core.spec.task_group import TaskGroup


class OnDisconnect(IntEnum):
    """What an agent does with the tasks when it cannot reach any master."""

    UNSPECIFIED = 0
    KEEP = 1
    STOP = 2


class OnMiss(IntEnum):
    """What becomes of a submission whose deadline cannot be met."""

    UNSPECIFIED = 0
    CONTINUE = 1
    REFUSE = 2


class Overlap(IntEnum):
    """What becomes of a scheduled run while the one before it still lives."""

    UNSPECIFIED = 0
    #: Both live.
    ALLOW = 1
    #: The new one is skipped.
    FORBID = 2
    #: The old one is cancelled.
    REPLACE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What a user submitted, with defaults filled in."""

    #: Unique among the live jobs.
    name: str
    #: Path of a leaf: `research.llm`.
    queue: str
    #: What the job is charged to.
    tenant: str = "default"
    #: Higher goes first where the queue's order says so, and may preempt lower.
    priority: int = 0
    #: For users and plugins; the scheduler itself does not read them.
    labels: StringMap = ()
    #: How the tasks start, fail and end together.
    gang: GangPolicy
    #: Never empty; their names are distinct.
    groups: tuple[TaskGroup, ...]
    #: When an attempt is followed by another.
    retry: RetryPolicy = NO_RETRIES
    #: What an agent does that cannot reach any master.
    on_disconnect: OnDisconnect = OnDisconnect.KEEP
    #: From SIGTERM to SIGKILL.
    stop_grace_ms: int = 10_000
    #: When the job must have succeeded, in ms since 1970; 0: see `deadline_in_ms`.
    deadline_at_ms: int = 0
    #: The same, counted from the submission; both 0: no deadline.
    deadline_in_ms: int = 0
    #: What becomes of a deadline that cannot be met at submission.
    on_miss: OnMiss = OnMiss.CONTINUE
    #: How long an attempt runs, as far as the user knows; 0: unknown.
    estimate_ms: int = 0
    #: When an attempt is ended; 0: never.
    timeout_ms: int = 0
    #: Whether it may evict others, and be evicted.
    preemption: Preemption = DEFAULT_PREEMPTION
    #: It is not started until it is released.
    hold: bool = False
    #: Jobs that must end first; empty: none.
    after: tuple[Dependency, ...] = ()
    #: The elements of an array job; NO_ARRAY: it is none.
    array: Array = NO_ARRAY
    #: The job is a schedule, and each run a job of its own; empty: it is none.
    cron: str = ""
    #: Of `cron`, such as Europe/Berlin or UTC; empty without `cron`.
    timezone: str = ""
    #: Of a schedule.
    overlap: Overlap = Overlap.UNSPECIFIED
    #: When it may start for the first time, in ms since 1970; 0: see `begin_in_ms`.
    begin_at_ms: int = added(0)
    #: The same, counted from the submission; both 0: as soon as it can.
    begin_in_ms: int = added(0)

    def begin_ms(self, submitted_at_ms: int) -> int:
        """Return the moment before which a job that was submitted then does not start, in ms since 1970; 0: none."""
        return self.begin_at_ms or (self.begin_in_ms and submitted_at_ms + self.begin_in_ms)

    def deadline_ms(self, submitted_at_ms: int) -> int:
        """Return the deadline of a job that was submitted then, in ms since 1970; 0: none."""
        return self.deadline_at_ms or (self.deadline_in_ms and submitted_at_ms + self.deadline_in_ms)

    @property
    def is_parent(self) -> bool:
        """Return whether it is an array or a schedule: it has no tasks, its children have."""
        return bool(self.cron or self.array.size)

    @property
    def span_ms(self) -> int:
        """Return how long an attempt is planned to hold its place: the timeout, else the estimate; 0: unknown."""
        return self.timeout_ms or self.estimate_ms

    @property
    def eviction_ms(self) -> int:
        """Return how long it takes at most from the order to stop until its last task has ended."""
        rules = self.preemption
        return rules.grace_ms + self.stop_grace_ms if rules.checkpoint_signal else rules.grace_ms or self.stop_grace_ms

    @property
    def task_count(self) -> int:
        """Tasks of the job itself; 0 for an array or a schedule."""
        return 0 if self.is_parent else sum(group.count for group in self.groups)

    @property
    def demand(self) -> Resources:
        """Return what the whole gang requests."""
        total = ZERO
        for group in self.groups:
            total = total + group.resources.times(group.count)
        return total


def group_of(spec: JobSpec, rank: int) -> TaskGroup:
    """Return the group whose task has the rank. Raises IndexError for a rank that the job does not have."""
    for group in spec.groups:
        if rank < group.count:
            return group
        rank -= group.count
    raise IndexError(f"job {spec.name} has no such rank")
