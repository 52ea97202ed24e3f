"""Commands about jobs and schedules."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.records.reservation import Reservation
from gosched.core.spec.job_spec import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitJob:
    """Submits a job. A live job with the same name and spec is met instead."""

    #: Chosen by the leader.
    job_id: str
    spec: JobSpec
    #: One or none: the start that keeps its deadline.
    reservation: tuple[Reservation, ...] = ()
    #: Of a schedule; 0 otherwise.
    next_run_at_ms: int = 0
    #: Who submits it; empty below FeatureLevel.BOUNDED, as all that follow.
    user: str = ""
    #: `user` is from a certificate.
    authenticated: bool = False
    #: W3C trace context that the call came with.
    traceparent: str = ""
    #: Jobs of the spec's `after` that its submitter does not see: they count as not there.
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob:
    """Cancels a live job."""

    #: Id or name.
    job_id: str
    #: One code; empty: CANCELLED.
    reason: str = ""


class Action(IntEnum):
    """What people do to a live job."""

    UNSPECIFIED = 0
    #: It is not started (again) until it is released.
    HOLD = 1
    RELEASE = 2
    #: Its tasks are ended, which frees what they hold.
    SUSPEND = 3
    #: Undoes SUSPEND and FREEZE: a frozen job runs on, a suspended one waits in its old place in the queue.
    RESUME = 4
    #: SUSPEND and RESUME at once.
    REQUEUE = 5
    #: Its tasks stand still where they are, and keep what they hold.
    FREEZE = 6
    #: So many of its tasks are wanted from now on: elastic ones beyond are stopped, and wait.
    SCALE = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlJob:
    """Does something to a live job."""

    #: Id or name.
    job_id: str
    action: Action
    #: Of SCALE: a number of tasks, `gang.min_tasks` at least; otherwise 0.
    tasks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSchedule:
    """Makes the run of a schedule that is due."""

    #: Id of the schedule.
    job_id: str
    #: Id of the run.
    child_id: str
    #: When it was due; refused unless this is the run that the schedule waits for.
    due_at_ms: int
    #: The run after that; 0: there is none.
    next_run_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRun:
    """When a schedule runs next."""

    job_id: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitNote:
    """Why a pending job waits."""

    job_id: str
    #: One code.
    code: str
    #: One line for people; may be empty.
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteWaitReasons:
    """Notes in the history why jobs wait. It changes nothing of the state."""

    #: At most MAX_NOTES.
    notes: tuple[WaitNote, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropFinishedJobs:
    """Forgets jobs that have ended."""

    #: So many are kept: the oldest beyond them are forgotten.
    keep: int
    #: All that ended before are forgotten.
    ended_before_ms: int
