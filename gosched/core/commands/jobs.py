"""Commands about jobs and schedules."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.records.reservation import Reservation
from gosched.core.spec.job_spec import JobSpec


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
class NextRun:
    """Of a schedule."""

    job_id: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DropFinishedJobs:
    """Forgets the jobs that ended before `ended_before_ms`, then the oldest beyond `keep`."""

    keep: int
    ended_before_ms: int
