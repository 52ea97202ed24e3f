"""Policies of a job: its gang, its retries, its preemption."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.primitives import added


class MemberFailure(IntEnum):
    """What becomes of a gang when one of its tasks fails."""

    UNSPECIFIED = 0
    #: All tasks are stopped, and start again as the retry policy says.
    RESTART_GANG = 1
    #: All tasks are stopped, and the job has failed.
    FAIL_JOB = 2
    #: The gang goes on while every group has its floor.
    CONTINUE = 3


class RetryCause(IntEnum):
    """What made an attempt end that may be followed by another."""

    UNSPECIFIED = 0
    NODE_LOST = 1
    PREEMPTED = 2
    FAILED = 3


class PreemptionPolicy(IntEnum):
    """Of a job: what it may evict. Of a queue: what its jobs may evict at most."""

    UNSPECIFIED = 0
    NEVER = 1
    LOWER_PRIORITY = 2
    #: Of a queue: nothing is evicted, but what would be is told.
    OBSERVE_ONLY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPolicy:
    """How the tasks of a job start, fail and end together."""

    #: The sum of the groups' floors.
    min_tasks: int
    #: What becomes of the gang when a task fails.
    on_member_failure: MemberFailure = MemberFailure.RESTART_GANG
    #: A job that has not started so long after it could is FAILED; 0: it waits for ever.
    wait_ms: int = 0
    #: Name of a group: once all of it has succeeded, the others are stopped and the job has succeeded. Empty: all
    #: groups must end.
    ends_with: str = ""
    #: So many tasks are wanted at first; from then on the application says how many. An elastic task that succeeds has
    #: given its place back, and gets another when more are wanted again. 0: all tasks are wanted.
    initial_tasks: int = added(0)
    #: How long a member whose node is not heard any more may live on before it is replaced, where the gang goes on
    #: without it; 0: it is replaced at once.
    replace_after_ms: int = added(0, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When an attempt that ended is followed by another."""

    #: After failures of the job's own; 0: no attempt is ever followed by another.
    max_restarts: int = 0
    #: Wait before the first restart; it doubles with each further one.
    backoff_ms: int = 0
    #: Causes after which it starts again; empty: none.
    when: tuple[RetryCause, ...] = ()


NO_RETRIES = RetryPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Whether the job may evict others, and be evicted by them. A job that its retry policy would not start again after
    a preemption is never evicted."""

    #: Whether it may evict jobs of lower priority.
    policy: PreemptionPolicy = PreemptionPolicy.LOWER_PRIORITY
    #: Whether others may evict it.
    preemptible: bool = True
    #: How long a victim may take to save itself after `checkpoint_signal`; without a signal, to stop.
    grace_ms: int = 0
    #: Number of the signal that a victim gets before it is stopped; 0: none.
    checkpoint_signal: int = 0
    #: How long an attempt runs before it may be evicted; 0: not at all.
    min_runtime_ms: int = 0
    #: Whether little is lost when it is evicted, though it has no checkpoint signal.
    cheap: bool = added(False, 4)

    @property
    def is_cheap(self) -> bool:
        return self.cheap or self.checkpoint_signal > 0


DEFAULT_PREEMPTION = Preemption()
