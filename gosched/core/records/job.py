"""Jobs as they live. A job is one gang: its tasks start together or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.primitives import Named
from gosched.core.records.task import task_id
from gosched.core.records.usage import NOTHING_SPENT, Spent
from gosched.core.spec.dependency import Dependency
from gosched.core.spec.job_spec import JobSpec


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
    SUSPEND = 5
    SUCCEED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """Of an array or a schedule: `made` children so far, of which `live` have not ended. `next_run_at_ms`: a schedule's
    next run."""

    made: int = 0
    live: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    next_run_at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`active` = tasks that hold an allocation; `running` <= `active`. `failed` counts lost tasks too. `unplaced`:
    elastic tasks of a RUNNING job that have no place yet.

    `attempt` counts all starts of the gang; `restarts` those that followed a failure of its own, `preemptions` those
    that followed an eviction. `parent`, `element`: the array or schedule that made it, and its number there. `held`: it
    is not started until it is released. `waits_for`: of `spec.after` what is not met yet. `placed_at_ms`: of this
    attempt. `checkpoint_at_ms`: when this attempt last saved itself. `until_ms`: it got its place on the condition that
    it may be evicted then; 0: none. `evicted_for`: the jobs that it had to give way to last, by id, the newest first.
    `deadline_promised`: at submission, and it still holds. `frozen`: its tasks stand still where they are, and keep
    their room. `spent`: by the starts that have ended.
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
    unplaced: int = 0
    submitted_at_ms: int
    not_before_ms: int = 0
    started_at_ms: int = 0
    ended_at_ms: int = 0
    exit_code: int | None = None
    parent: str = ""
    element: int = 0
    children: Children = Children()
    held: bool = False
    waits_for: tuple[Dependency, ...] = ()
    placed_at_ms: int = 0
    checkpoint_at_ms: int = 0
    until_ms: int = 0
    preemptions: int = 0
    evicted_for: tuple[str, ...] = ()
    deadline_promised: bool = False
    deadline_missed: bool = False
    frozen: bool = False
    spent: Spent = NOTHING_SPENT

    @property
    def deadline_ms(self) -> int:
        """The moment; 0: none."""
        spec = self.spec
        return spec.deadline_at_ms or (spec.deadline_in_ms and self.submitted_at_ms + spec.deadline_in_ms)

    @property
    def shown_state(self) -> JobState:
        """As people see it: a frozen job is suspended, though it holds its room like one that runs."""
        return JobState.SUSPENDED if self.frozen and self.state is JobState.RUNNING else self.state

    @property
    def is_element(self) -> bool:
        """Whether an array made it; the runs of a schedule have ids of their own."""
        return bool(self.parent) and self.id == f"{self.parent}.{self.element}"

    def task_ids(self) -> list[str]:
        """In order of rank."""
        if self.spec.is_parent:
            return []
        return [task_id(self.id, g.name, i) for g in self.spec.groups for i in range(g.count)]


def wants_placement(job: Job) -> bool:
    """A gang that may start and has not, or one that runs and has elastic tasks without a place. Nothing joins one that
    is frozen."""
    if job.intent is not JobIntent.RUN or job.held or job.waits_for or job.frozen or job.spec.is_parent:
        return False
    return (job.state is JobState.PENDING and job.active == 0) or (job.state is JobState.RUNNING and job.unplaced > 0)
