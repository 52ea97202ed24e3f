"""The command that commits a plan: placements, evictions, reservations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.reservation import Reservation


class Cause(IntEnum):
    """Why a victim has to go. PREEMPT: for a higher priority in its queue. RECLAIM: another queue gets its guarantee.
    BACKFILL: it ran on room that was reserved. WINDOW: a reserved window begins. REPAIR: its own gang, which lost a
    member, starts again in place."""

    UNSPECIFIED = 0
    PREEMPT = 1
    RECLAIM = 2
    BACKFILL = 3
    WINDOW = 4
    REPAIR = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Of a whole gang, or (`ranks` not empty) of elastic tasks that it can do without."""

    job_id: str
    attempt: int
    ranks: tuple[int, ...] = ()
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlacement:
    """Task placements in order of rank: the whole gang, its minimum at least, or elastic tasks of one that runs. Taken
    or refused whole, its evictions included: with any, the gang gets a fence and starts when the last victim is gone.
    Evictions without tasks and a job make room for nobody: a window begins. `until_ms`: as in Job."""

    job_id: str
    attempt: int
    tasks: tuple[TaskPlacement, ...]
    evictions: tuple[Eviction, ...] = ()
    until_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """`revision`, `planned_at_ms` and `seed` are what the plan was made from: with them it can be made again.
    `reservations`: new ones, and those that change. `withdrawn`: jobs whose promise cannot be kept any more."""

    revision: int
    gangs: tuple[GangPlacement, ...]
    planned_at_ms: int = 0
    seed: int = 0
    reservations: tuple[Reservation, ...] = ()
    withdrawn: tuple[str, ...] = ()
