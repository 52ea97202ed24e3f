"""Whether a deadline can be promised at submission: a slot in the profile that breaks no promise already made.

Rule: what is promised was placed in the profile, for as long as the job's limit says.
"""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.job import Job
from gosched.core.records.reservation import Reservation
from gosched.scheduling.backfill.earliest_start import Start
from gosched.scheduling.cycle_state import CycleState
from gosched.scheduling.policy import Policy
from gosched.scheduling.queries.explain_on_request import scene_of
from gosched.scheduling.queries.smallest_change import largest_gang, lowest_priority
from gosched.scheduling.snapshot.running_gangs import NEVER_MS
from gosched.scheduling.snapshot.task_requests import PendingGang, pending_gang
from gosched.scheduling.snapshot.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Without a `reservation`: `problem`, one line; `earliest_ms`, when the job could be done at the earliest;
    `largest`, how many tasks of it fit in time; `priority`, at which it would start at once; 0: there is none."""

    reservation: Reservation | None = None
    problem: str = ""
    earliest_ms: int = 0
    largest: int = 0
    priority: int = 0


def admit(view: View, policy: Policy, job: Job, now_ms: int, seed: int) -> Admission:
    """`job`: as it would be made; it has a deadline."""
    gang = pending_gang(job)
    if not gang.span_ms:
        return Admission(problem="it has no timeout and no estimate, so nobody can say how long it runs")
    latest = gang.deadline_ms - gang.span_ms
    if latest < now_ms:
        return Admission(problem="it would not be done in time if it started now", earliest_ms=now_ms + gang.span_ms)
    state = scene_of(view, policy, now_ms, seed)
    if held := state.limits.why_not(gang):
        return Admission(problem=held[1])
    start = _start(state, gang, latest)
    if start is not None:
        return Admission(reservation=state.promise(gang, start, for_deadline=True))
    later = state.profile.earliest(gang, seed)
    return Admission(
        problem="there is no slot for it in time beside what is promised to others",
        earliest_ms=later.at_ms + gang.span_ms if later is not None else 0,
        largest=largest_gang(gang, lambda smaller: _start(state, smaller, latest) is not None),
        priority=lowest_priority(state, gang)[0],
    )


def _start(state: CycleState, gang: PendingGang, latest_ms: int) -> Start | None:
    """Not later than that, now if it can be."""
    placement = state.placement_now(gang)
    if placement is not None:
        return Start(state.now_ms, placement)
    return state.profile.earliest(gang, state.plan.seed, before_ms=min(latest_ms + 1, NEVER_MS))
