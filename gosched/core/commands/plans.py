"""The command that commits a plan: placements, evictions, reservations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.reservation import Reservation


class Cause(IntEnum):
    """Why a job is evicted."""

    UNSPECIFIED = 0
    #: For a higher priority in its queue.
    PREEMPT = 1
    #: Another queue gets its guarantee.
    RECLAIM = 2
    #: It ran on capacity that was reserved.
    BACKFILL = 3
    #: A window begins.
    WINDOW = 4
    #: Its own gang, which lost a member, starts again in place.
    REPAIR = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A victim of a plan."""

    job_id: str
    #: Refused unless the job is at this one.
    attempt: int
    #: Elastic tasks that it can do without; empty: the whole gang.
    ranks: tuple[int, ...] = ()
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlacement:
    """A gang that a plan places. Taken or refused whole, its evictions included: with any, the gang gets a fence, and
    starts when the last victim has ended."""

    #: Empty: the evictions are for a window, and there are no tasks.
    job_id: str
    #: Refused unless the job is at this one.
    attempt: int
    #: In order of rank: the whole gang, its minimum at least, or elastic tasks of one that runs.
    tasks: tuple[TaskPlacement, ...]
    #: Empty: the gang starts at once.
    evictions: tuple[Eviction, ...] = ()
    #: As in Job.
    until_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """Commits a plan. With `revision`, `planned_at_ms` and `seed` it can be made again."""

    #: Of the state that it was made from.
    revision: int
    #: In the order in which they are taken.
    gangs: tuple[GangPlacement, ...]
    #: The planner's clock.
    planned_at_ms: int = 0
    #: Of the planner's random choices.
    seed: int = 0
    #: New ones, and those that change.
    reservations: tuple[Reservation, ...] = ()
    #: Jobs whose reservation cannot be kept any more.
    withdrawn: tuple[str, ...] = ()
