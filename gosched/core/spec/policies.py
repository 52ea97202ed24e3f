"""Policies of a job: its gang, its retries, its preemption."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


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


class PreemptionPolicy(IntEnum):
    """Of a job: whom it may evict. Of a queue: what its jobs may do at most; OBSERVE_ONLY says what it would do."""

    UNSPECIFIED = 0
    NEVER = 1
    LOWER_PRIORITY = 2
    OBSERVE_ONLY = 3


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


NO_RETRIES = RetryPolicy()


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


DEFAULT_PREEMPTION = Preemption()
