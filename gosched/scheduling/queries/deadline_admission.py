"""Whether a deadline can be promised at submission: it can if a start can be reserved in time beside the others.

Invariant: what is reserved was placed in the release profile, for as long as the job's limit says.
"""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.job import Job
from gosched.core.records.reservation import Reservation
from gosched.scheduling.backfill.earliest_start import Start
from gosched.scheduling.policy import Policy
from gosched.scheduling.queries.smallest_change import largest_gang, lowest_priority
from gosched.scheduling.queries.trial_cycle import TrialCycle
from gosched.scheduling.snapshot.running_gangs import NEVER_MS
from gosched.scheduling.snapshot.task_requests import PendingGang, pending_gang
from gosched.scheduling.snapshot.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The answer: a reservation, or a problem with what would help."""

    #: None: the deadline cannot be promised.
    reservation: Reservation | None = None
    #: One line; empty with a reservation.
    problem: str = ""
    #: When the job could be done at the earliest; 0: not known.
    earliest_ms: int = 0
    #: How many of its tasks would be done in time; 0: none, or it has several groups.
    largest: int = 0
    #: The lowest priority at which it would start now; 0: there is none.
    priority: int = 0


def admit(view: View, policy: Policy, job: Job, now_ms: int, seed: int) -> Admission:
    """Return whether the job's deadline can be promised. `job`: as it would be submitted; it has a deadline."""
    gang = pending_gang(job)
    if not gang.span_ms:
        return Admission(problem="it has no timeout and no estimate, so its run time is unknown")
    latest = gang.deadline_ms - gang.span_ms
    if gang.begin_ms > now_ms:
        return Admission(problem="it begins later")
    if latest < now_ms:
        return Admission(problem="it would miss the deadline even if it started now", earliest_ms=now_ms + gang.span_ms)
    trial = TrialCycle(view, policy, now_ms, seed)
    if held := trial.held_back(gang):
        return Admission(problem=held[1])
    start = _start(trial, gang, latest)
    if start is not None:
        return Admission(reservation=trial.reserve(gang, start))
    later = trial.earliest_start(gang)
    return Admission(
        problem="the reservations of other jobs leave no slot for it in time",
        earliest_ms=later.at_ms + gang.span_ms if later is not None else 0,
        largest=largest_gang(gang, lambda smaller: _start(trial, smaller, latest) is not None),
        priority=lowest_priority(trial, gang)[0],
    )


def _start(trial: TrialCycle, gang: PendingGang, latest_ms: int) -> Start | None:
    """Return a start that is not later than that: now if it fits now."""
    placement = trial.placement_now(gang)
    if placement is not None:
        return Start(trial.now_ms, placement)
    return trial.earliest_start(gang, before_ms=min(latest_ms + 1, NEVER_MS))
