"""The future: plans that are not committed, and what is reserved."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.api.explanation import JobExplanation, NodeTasks, Victim
from gosched.core.records.fence import Fence
from gosched.core.records.reservation import Reservation
from gosched.core.records.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """What would become of a job if it were submitted now."""

    name: str
    #: starts, starts_after_evictions, waits or refused.
    outcome: str
    #: The nodes that its tasks would start on.
    nodes: tuple[NodeTasks, ...] = ()
    victims: tuple[Victim, ...] = ()
    #: Now, or the estimated start; 0: unknown.
    start_ms: int = 0
    #: Of one that waits or is refused, else None. Its `job` is empty: nothing was submitted.
    explanation: JobExplanation | None = None
    warnings: tuple[str, ...] = ()
    #: When it ends as half of the jobs like it did; 0: not known.
    expected_end_ms: int = 0
    #: When it ends as nine of ten of them did; 0: not known.
    likely_end_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedStart:
    """The reserved start of another job, without and with the planned ones; 0: none is reserved."""

    job_id: str
    name: str
    before_ms: int
    after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What would become of several jobs."""

    #: In the order in which they were given.
    jobs: tuple[PlannedJob, ...]
    #: Reserved starts of others that would change.
    moved: tuple[MovedStart, ...]
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """All that is reserved; of each kind what starts first before the others."""

    #: Made by operators.
    windows: tuple[Window, ...]
    #: Reserved starts of pending jobs.
    reservations: tuple[Reservation, ...]
    #: The capacity kept for jobs whose victims have not ended yet.
    fences: tuple[Fence, ...]
    revision: int
