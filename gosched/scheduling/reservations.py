"""Keeps the promises of earlier cycles: reserved gangs are looked at before all others, the oldest promise first.

Rule: a reserved start moves to a later time only because the room is not there any more, or belongs to somebody who may
evict the gang; never for a gang that came later. When not all can be kept, the newest is broken first.
"""

from __future__ import annotations

from gosched.scheduling.backfill.earliest_start import Start
from gosched.scheduling.backfill.reserved_starts import ReservedStart
from gosched.scheduling.cycle_state import MIN_GAIN_MS, CycleState
from gosched.scheduling.explain import explanation
from gosched.scheduling.fairness.queue_limits import Allowance

MAX_IMPROVED = 1  # promises, the oldest, for which an earlier start is looked for in each cycle


def keep_reservations(state: CycleState) -> dict[str, ReservedStart | None]:
    """Of each gang that was promised a start its claim, if it still waits for it; None: it starts in this plan."""
    started: dict[str, ReservedStart | None] = {}
    waiting = _settled(state, current_reservations(state), known=False)
    number = 0
    while number < len(waiting):
        reserved = waiting[number]
        gang = reserved.gang
        if state.limits.why_not(gang) or gang.not_before_ms > state.now_ms:
            _withdraw(state, reserved)
            del waiting[number]
            continue
        allowance = state.limits.allowance(gang)
        if _start(state, reserved, allowance):
            started[gang.job_id] = None
            del waiting[number]
            waiting = _settled(state, waiting)
        elif not _holds(state, reserved):  # those that came later make room for it once more
            rest = waiting[number:]
            for other in rest:
                state.lift(other)
            found = _planned_anew(state, reserved)
            waiting[number:] = [*([found] if found else []), *_one_by_one(state, rest[1:])]
            number += found is not None
        else:
            waiting[number] = _improved(state, reserved, allowance) if number < MAX_IMPROVED else reserved
            number += 1
    _reserve_lost_deadlines(state, started, waiting)
    for reserved in waiting:
        state.promises += not reserved.reservation.for_deadline
        state.plan.wake_at(reserved.start_ms - state.grace_ms)
        state.plan.wake_at(reserved.start_ms)
    return {**started, **{reserved.gang.job_id: reserved for reserved in waiting}}


def replan_broken(state: CycleState) -> None:
    """At the end of a cycle: those whose room went to others, who may take it, are promised another start."""
    if all(reserved.holds for reserved in state.reserved_starts.with_rows()):
        return
    before = {reserved.gang.job_id: reserved for reserved in state.reserved_starts.all}
    after = {
        reserved.gang.job_id: reserved for reserved in _settled(state, sorted(before.values(), key=lambda c: c.age))
    }
    for job_id, reserved in before.items():
        found = after.get(job_id)
        why = state.plan.explanations.get(job_id)
        if found is not reserved and why is not None:
            state.plan.explanations[job_id] = explanation.reserved(why, found.reservation if found else None)


def _reserve_lost_deadlines(
    state: CycleState, started: dict[str, ReservedStart | None], waiting: list[ReservedStart]
) -> None:
    """Gangs with a promised deadline that have no start any more: they lost a node, or gave way."""
    for gang in state.view.pending:
        if not gang.deadline_promised or gang.joins or gang.job_id in state.view.reservations:
            continue
        if gang.not_before_ms > state.now_ms or state.limits.why_not(gang):
            continue
        allowance = state.limits.allowance(gang)
        if state.begin(gang, state.limits.shape(gang, state.plugins)):
            started[gang.job_id] = None
            continue
        latest = gang.deadline_ms - gang.span_ms
        start = state.earliest_start.find(gang, state.plan.seed, allowance, before_ms=latest + 1)
        if start is None:
            state.plan.withdrawn.append(gang.job_id)
        else:
            reservation = state.promise(gang, start, for_deadline=True)
            waiting.append(
                next(reserved for reserved in state.reserved_starts.all if reserved.reservation is reservation)
            )


def _settled(state: CycleState, reserved_starts: list[ReservedStart], *, known: bool = True) -> list[ReservedStart]:
    """All of them beside each other. If they do not fit, the oldest is put first; one that finds no room beside older
    ones is planned anew before the next one. `known`: they are in the scene already."""
    if not known:
        for reserved in reserved_starts:
            state.reserved_starts.add(reserved)
    if all(reserved.holds for reserved in state.reserved_starts.with_rows()):
        return reserved_starts
    for reserved in reserved_starts:
        state.lift(reserved)
    return _one_by_one(state, reserved_starts)


def _one_by_one(state: CycleState, reserved_starts: list[ReservedStart]) -> list[ReservedStart]:
    kept: list[ReservedStart] = []
    for reserved in reserved_starts:
        state.keep(reserved)
        if all(other.holds for other in state.reserved_starts.with_rows()):
            kept.append(reserved)
        elif found := _planned_anew(state, reserved):
            kept.append(found)
    return kept


def _planned_anew(state: CycleState, reserved: ReservedStart) -> ReservedStart | None:
    """Beside those that are in the scene; None: there is no time for it any more."""
    state.lift(reserved)
    state.reserved_starts.due.pop(reserved.gang.job_id, None)
    state.reserved_starts.before_younger.pop(reserved.gang.job_id, None)
    allowance = state.limits.allowance(reserved.gang)
    start = state.earliest_start.find(reserved.gang, state.plan.seed, allowance)
    if start is not None:
        return _promised(state, reserved, start)
    state.plan.take_back(reserved.gang.job_id)
    state.plan.withdrawn.append(reserved.gang.job_id)
    return None


def current_reservations(state: CycleState) -> list[ReservedStart]:
    """In order of their promises; those that are too many are withdrawn."""
    reservations = state.view.reservations
    if not reservations:
        return []
    found: list[ReservedStart] = []
    places = state.policy.reservations
    gangs = {gang.job_id: gang for gang in state.view.pending if gang.job_id in reservations}
    for reservation in sorted(reservations.values(), key=lambda r: (r.made_at_ms, r.job_id)):
        gang = gangs.get(reservation.job_id)
        if gang is None or gang.joins or gang.attempt != reservation.attempt:
            continue  # the state machine forgets it
        if not reservation.for_deadline:
            places -= 1
        if places < 0 and not reservation.for_deadline:
            state.plan.withdrawn.append(reservation.job_id)
        else:
            found.append(ReservedStart(gang, reservation))
    return sorted(found, key=lambda reserved: (reserved.reservation.made_at_ms, reserved.gang.sequence))


def _start(state: CycleState, reserved: ReservedStart, allowance: Allowance) -> bool:
    gang = reserved.gang
    is_due = reserved.start_ms - state.grace_ms <= state.now_ms
    if not is_due and not state.plain.may_hold(gang):
        return False
    state.lift(reserved)
    shape = state.limits.shape(gang, state.plugins)
    if is_due:
        state.reserved_starts.due[gang.job_id] = reserved
    if state.start(gang, shape) or (is_due and state.claim_overdue(gang, reserved.start_ms, allowance)):
        return True
    if is_due:  # now at the cost of those that came later
        state.reserved_starts.before_younger[gang.job_id] = reserved
        if state.start(gang, shape) or state.claim_overdue(gang, reserved.start_ms, allowance):
            return True
    rescued = state.rescue(gang, shape)
    if rescued is not None and not rescued.observed:
        return True
    state.keep(reserved)
    return False


def _holds(state: CycleState, reserved: ReservedStart) -> bool:
    """Whether it can still be kept, as far as is known."""
    state.reserved_starts.with_rows()
    return reserved.holds and reserved.start_ms > state.now_ms and not state.reserved_starts.is_closed(reserved)


def _improved(state: CycleState, reserved: ReservedStart, allowance: Allowance) -> ReservedStart:
    """The claim, or one that starts earlier."""
    before = reserved.start_ms - MIN_GAIN_MS
    start = state.earliest_start.find(reserved.gang, state.plan.seed, allowance, before_ms=before, without=reserved)
    if start is None:
        return reserved
    state.lift(reserved)
    return _promised(state, reserved, start)


def _promised(state: CycleState, reserved: ReservedStart, start: Start) -> ReservedStart:
    old = reserved.reservation
    new = state.promise(reserved.gang, start, for_deadline=old.for_deadline, made_at_ms=old.made_at_ms)
    return next(c for c in state.reserved_starts.all if c.reservation is new)


def _withdraw(state: CycleState, reserved: ReservedStart) -> None:
    state.lift(reserved)
    state.plan.take_back(reserved.gang.job_id)
    state.plan.withdrawn.append(reserved.gang.job_id)
