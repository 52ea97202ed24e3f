"""Jobs as they live. A job is one gang: its tasks start together or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.primitives import Named, added
from gosched.core.records.task import task_id
from gosched.core.records.usage import NOTHING_SPENT, Spent
from gosched.core.replace import quickly_made
from gosched.core.spec.dependency import Dependency
from gosched.core.spec.job_spec import JobSpec


class JobState(Named):
    """The states of a job; `core/lifecycle.py` has its steps."""

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
    SUSPEND = 5
    SUCCEED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """The children of an array or a schedule, counted."""

    #: So far.
    made: int = 0
    #: Of these, those that have not ended.
    live: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    #: A schedule's next run; 0: there is none.
    next_run_at_ms: int = 0


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it lives: its spec, its state and its counters."""

    #: Chosen by the leader; of the element of an array `parent.number`.
    id: str
    #: What was submitted.
    spec: JobSpec
    #: `core/lifecycle.py` has the steps.
    state: JobState = JobState.PENDING
    #: What becomes of it once none of its tasks holds an allocation.
    intent: JobIntent = JobIntent.RUN
    #: One code; empty: there is none.
    reason: str = ""
    #: One line for people; may be empty.
    detail: str = ""
    #: Numbers the jobs in the order of submission, from 1.
    sequence: int
    #: Counts all starts of the gang, from 1; while the job waits, the start that it waits for.
    attempt: int = 1
    #: Attempts that followed a failure of its own.
    restarts: int = 0
    #: Tasks that hold an allocation.
    active: int = 0
    #: Tasks that are RUNNING; at most `active`.
    running: int = 0
    #: Tasks that have succeeded, in this attempt.
    succeeded: int = 0
    #: Tasks that have failed or are lost, in this attempt.
    failed: int = 0
    #: Elastic tasks of a RUNNING job that have no place yet.
    unplaced: int = 0
    #: All moments are in ms since 1970, by the clock of the state.
    submitted_at_ms: int
    #: When it may start: its begin, the end of a backoff, or when it was released; of an array, when it makes its first
    #: child, or tries again to make the next one. 0: at once.
    not_before_ms: int = 0
    #: When the first attempt was placed; 0: never.
    started_at_ms: int = 0
    #: 0: it has not ended.
    ended_at_ms: int = 0
    #: Of the task that decided the end; None: there is none.
    exit_code: int | None = None
    #: Id of the array or schedule that made it; empty: none did.
    parent: str = ""
    #: Its number there; 0 without a parent.
    element: int = 0
    #: Of an array or a schedule.
    children: Children = Children()
    #: It is not started until it is released.
    held: bool = False
    #: What of `spec.after` is not met yet, by id.
    waits_for: tuple[Dependency, ...] = ()
    #: When this attempt was placed; 0: not yet.
    placed_at_ms: int = 0
    #: When this attempt last saved itself; 0: never.
    checkpoint_at_ms: int = 0
    #: It got its place on the condition that it may be evicted then; 0: no condition.
    until_ms: int = 0
    #: Attempts that followed an eviction.
    preemptions: int = 0
    #: Ids of the jobs that it was last evicted for, the newest first; MAX_EVICTORS at most.
    evicted_for: tuple[str, ...] = ()
    #: A start that keeps the deadline was reserved at submission, and still is.
    deadline_promised: bool = False
    #: It had not succeeded by its deadline.
    deadline_missed: bool = False
    #: Its tasks stand still where they are, and keep what they hold.
    frozen: bool = False
    #: By the starts that have ended.
    spent: Spent = NOTHING_SPENT
    #: Who submitted it: the name in the caller's certificate, else the login name that its client gave; empty: not
    #: known.
    user: str = added("")
    #: `user` is from a certificate.
    authenticated: bool = added(False)
    #: W3C trace context of its submission; empty: it came with none.
    traceparent: str = added("")
    #: The port that this attempt has for itself on the node of its first task; 0: it is not placed.
    port: int = added(0)
    #: How many of its tasks are wanted since it was scaled; 0: as many as its spec says.
    scaled_to: int = added(0, 2)
    #: When its end became known; 0: at `ended_at_ms`, or it has not ended.
    end_known_at_ms: int = added(0, 3)
    #: When a member's failure ended this attempt; 0: none has, or a node's loss explains it.
    failed_at_ms: int = added(0, 4)
    #: When this attempt last lost a member with its node, and went on; 0: never.
    lost_at_ms: int = added(0, 4)
    #: Starts of single members that followed a failure of their own, while the gang went on.
    member_restarts: int = added(0, 4)
    #: When this attempt last had a member fail, and went on; 0: never.
    member_failed_at_ms: int = added(0, 4)
    #: Since when it waits for an attempt that follows another one; 0: for the first.
    requeued_at_ms: int = added(0, 4)
    #: What nine of ten jobs like it ran no longer than, when this attempt was placed; 0: it was not known, or this one
    #: has run for longer.
    likely_ms: int = added(0, 5)

    @property
    def deadline_ms(self) -> int:
        """Return the moment of the deadline, in ms since 1970; 0: none."""
        return self.spec.deadline_ms(self.submitted_at_ms)

    @property
    def kept_since_ms(self) -> int:
        """Return when its end became known, by which the jobs that have ended are in order; 0: it has not ended."""
        return self.end_known_at_ms or self.ended_at_ms

    @property
    def begin_ms(self) -> int:
        """Return the moment before which it does not start for the first time, in ms since 1970; 0: none."""
        return self.spec.begin_ms(self.submitted_at_ms)

    def begins_later(self, now_ms: int) -> bool:
        """Return whether it has not started, and has to wait for its begin."""
        return not self.started_at_ms and self.begin_ms > now_ms

    @property
    def shown_state(self) -> JobState:
        """Return the state as people see it: a frozen job is suspended, though it holds as much as one that runs."""
        return JobState.SUSPENDED if self.frozen and self.state is JobState.RUNNING else self.state

    @property
    def shown_attempt(self) -> int:
        """Return the attempt as people see it: the newest that was placed, not the one that the job waits for; 0: none
        was placed."""
        return self.attempt if self.placed_at_ms else self.attempt - 1

    @property
    def wanted(self) -> int:
        """Return how many of its tasks are wanted in their places; 0: all."""
        return self.scaled_to or self.spec.gang.initial_tasks

    @property
    def may_join(self) -> int:
        """Return how many of its tasks without a place are wanted in one, while it runs."""
        wanted = self.wanted
        return min(self.unplaced, max(0, wanted - self.active)) if wanted else self.unplaced

    @property
    def is_element(self) -> bool:
        """Return whether an array made it; the runs of a schedule have ids of their own."""
        return bool(self.parent) and self.id == f"{self.parent}.{self.element}"

    def task_ids(self) -> list[str]:
        """Return the ids of its tasks in order of rank."""
        if self.spec.is_parent:
            return []
        return [task_id(self.id, g.name, i) for g in self.spec.groups for i in range(g.count)]


def wants_placement(job: Job) -> bool:
    """Return whether a gang may start and has not, or runs and has elastic tasks without a place. Nothing joins a
    frozen gang."""
    if job.intent is not JobIntent.RUN or job.held or job.waits_for or job.frozen or job.spec.is_parent:
        return False
    return (job.state is JobState.PENDING and job.active == 0) or (job.state is JobState.RUNNING and job.may_join > 0)
