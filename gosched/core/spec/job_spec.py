"""What a user submits: a job with its task groups and policies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.primitives import StringMap
from gosched.core.resources import ZERO, Resources
from gosched.core.spec.array import NO_ARRAY, Array
from gosched.core.spec.dependency import Dependency
from gosched.core.spec.policies import DEFAULT_PREEMPTION, NO_RETRIES, GangPolicy, Preemption, RetryPolicy
from gosched.core.spec.task_group import TaskGroup


class OnDisconnect(IntEnum):
    UNSPECIFIED = 0
    KEEP = 1
    STOP = 2


class OnMiss(IntEnum):
    """Of a deadline that cannot be met at submission."""

    UNSPECIFIED = 0
    CONTINUE = 1
    REFUSE = 2


class Overlap(IntEnum):
    """What becomes of a scheduled run while the one before still lives."""

    UNSPECIFIED = 0
    ALLOW = 1
    FORBID = 2
    REPLACE = 3


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
    retry: RetryPolicy = NO_RETRIES
    on_disconnect: OnDisconnect = OnDisconnect.KEEP
    stop_grace_ms: int = 10_000
    deadline_at_ms: int = 0
    deadline_in_ms: int = 0
    on_miss: OnMiss = OnMiss.CONTINUE
    estimate_ms: int = 0
    timeout_ms: int = 0
    preemption: Preemption = DEFAULT_PREEMPTION
    hold: bool = False
    after: tuple[Dependency, ...] = ()
    array: Array = NO_ARRAY
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


def group_of(spec: JobSpec, rank: int) -> TaskGroup:
    """Whose task has the rank. Raises IndexError for a rank that the job does not have."""
    for group in spec.groups:
        if rank < group.count:
            return group
        rank -= group.count
    raise IndexError(f"job {spec.name} has no such rank")
