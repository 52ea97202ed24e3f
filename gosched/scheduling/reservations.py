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


def keep_promises(scene: CycleState) -> dict[str, ReservedStart | None]:
    """Of each gang that was promised a start its claim, if it still waits for it; None: it starts in this plan."""
    started: dict[str, ReservedStart | None] = {}
    waiting = _settled(scene, standing_claims(scene), known=False)
    number = 0
    while number < len(waiting):
        claim = waiting[number]
        gang = claim.gang
        if scene.limits.why_not(gang) or gang.not_before_ms > scene.now_ms:
            _withdraw(scene, claim)
            del waiting[number]
            continue
        allowance = scene.limits.allowance(gang)
        if _start(scene, claim, allowance):
            started[gang.job_id] = None
            del waiting[number]
            waiting = _settled(scene, waiting)
        elif not _holds(scene, claim):  # those that came later make room for it once more
            rest = waiting[number:]
            for other in rest:
                scene.lift(other)
            found = _planned_anew(scene, claim)
            waiting[number:] = [*([found] if found else []), *_one_by_one(scene, rest[1:])]
            number += found is not None
        else:
            waiting[number] = _improved(scene, claim, allowance) if number < MAX_IMPROVED else claim
            number += 1
    _promise_again(scene, started, waiting)
    for claim in waiting:
        scene.promises += not claim.reservation.for_deadline
        scene.plan.wake_at(claim.start_ms - scene.grace_ms)
        scene.plan.wake_at(claim.start_ms)
    return {**started, **{claim.gang.job_id: claim for claim in waiting}}


def renew_broken(scene: CycleState) -> None:
    """At the end of a cycle: those whose room went to others, who may take it, are promised another start."""
    if all(claim.holds for claim in scene.claims.surveyed()):
        return
    before = {claim.gang.job_id: claim for claim in scene.claims.all}
    after = {claim.gang.job_id: claim for claim in _settled(scene, sorted(before.values(), key=lambda c: c.age))}
    for job_id, claim in before.items():
        found = after.get(job_id)
        why = scene.plan.explanations.get(job_id)
        if found is not claim and why is not None:
            scene.plan.explanations[job_id] = explanation.reserved(why, found.reservation if found else None)


def _promise_again(scene: CycleState, started: dict[str, ReservedStart | None], waiting: list[ReservedStart]) -> None:
    """Gangs with a promised deadline that have no start any more: they lost a node, or gave way."""
    for gang in scene.view.pending:
        if not gang.deadline_promised or gang.joins or gang.job_id in scene.view.reservations:
            continue
        if gang.not_before_ms > scene.now_ms or scene.limits.why_not(gang):
            continue
        allowance = scene.limits.allowance(gang)
        if scene.begin(gang, scene.limits.shape(gang, scene.plugins)):
            started[gang.job_id] = None
            continue
        latest = gang.deadline_ms - gang.span_ms
        start = scene.profile.earliest(gang, scene.plan.seed, allowance, before_ms=latest + 1)
        if start is None:
            scene.plan.withdrawn.append(gang.job_id)
        else:
            reservation = scene.promise(gang, start, for_deadline=True)
            waiting.append(next(claim for claim in scene.claims.all if claim.reservation is reservation))


def _settled(scene: CycleState, claims: list[ReservedStart], *, known: bool = True) -> list[ReservedStart]:
    """All of them beside each other. If they do not fit, the oldest is put first; one that finds no room beside older
    ones is planned anew before the next one. `known`: they are in the scene already."""
    if not known:
        for claim in claims:
            scene.claims.add(claim)
    if all(claim.holds for claim in scene.claims.surveyed()):
        return claims
    for claim in claims:
        scene.lift(claim)
    return _one_by_one(scene, claims)


def _one_by_one(scene: CycleState, claims: list[ReservedStart]) -> list[ReservedStart]:
    kept: list[ReservedStart] = []
    for claim in claims:
        scene.keep(claim)
        if all(other.holds for other in scene.claims.surveyed()):
            kept.append(claim)
        elif found := _planned_anew(scene, claim):
            kept.append(found)
    return kept


def _planned_anew(scene: CycleState, claim: ReservedStart) -> ReservedStart | None:
    """Beside those that are in the scene; None: there is no time for it any more."""
    scene.lift(claim)
    scene.claims.due.pop(claim.gang.job_id, None)
    scene.claims.insisting.pop(claim.gang.job_id, None)
    allowance = scene.limits.allowance(claim.gang)
    start = scene.profile.earliest(claim.gang, scene.plan.seed, allowance)
    if start is not None:
        return _promised(scene, claim, start)
    scene.plan.take_back(claim.gang.job_id)
    scene.plan.withdrawn.append(claim.gang.job_id)
    return None


def standing_claims(scene: CycleState) -> list[ReservedStart]:
    """In order of their promises; those that are too many are withdrawn."""
    reservations = scene.view.reservations
    if not reservations:
        return []
    found: list[ReservedStart] = []
    places = scene.policy.reservations
    gangs = {gang.job_id: gang for gang in scene.view.pending if gang.job_id in reservations}
    for reservation in sorted(reservations.values(), key=lambda r: (r.made_at_ms, r.job_id)):
        gang = gangs.get(reservation.job_id)
        if gang is None or gang.joins or gang.attempt != reservation.attempt:
            continue  # the state machine forgets it
        if not reservation.for_deadline:
            places -= 1
        if places < 0 and not reservation.for_deadline:
            scene.plan.withdrawn.append(reservation.job_id)
        else:
            found.append(ReservedStart(gang, reservation))
    return sorted(found, key=lambda claim: (claim.reservation.made_at_ms, claim.gang.sequence))


def _start(scene: CycleState, claim: ReservedStart, allowance: Allowance) -> bool:
    gang = claim.gang
    is_due = claim.start_ms - scene.grace_ms <= scene.now_ms
    if not is_due and not scene.plain.may_hold(gang):
        return False
    scene.lift(claim)
    shape = scene.limits.shape(gang, scene.plugins)
    if is_due:
        scene.claims.due[gang.job_id] = claim
    if scene.start(gang, shape) or (is_due and scene.claim_overdue(gang, claim.start_ms, allowance)):
        return True
    if is_due:  # now at the cost of those that came later
        scene.claims.insisting[gang.job_id] = claim
        if scene.start(gang, shape) or scene.claim_overdue(gang, claim.start_ms, allowance):
            return True
    rescued = scene.rescue(gang, shape)
    if rescued is not None and not rescued.observed:
        return True
    scene.keep(claim)
    return False


def _holds(scene: CycleState, claim: ReservedStart) -> bool:
    """Whether it can still be kept, as far as is known."""
    scene.claims.surveyed()
    return claim.holds and claim.start_ms > scene.now_ms and not scene.claims.is_closed(claim)


def _improved(scene: CycleState, claim: ReservedStart, allowance: Allowance) -> ReservedStart:
    """The claim, or one that starts earlier."""
    before = claim.start_ms - MIN_GAIN_MS
    start = scene.profile.earliest(claim.gang, scene.plan.seed, allowance, before_ms=before, without=claim)
    if start is None:
        return claim
    scene.lift(claim)
    return _promised(scene, claim, start)


def _promised(scene: CycleState, claim: ReservedStart, start: Start) -> ReservedStart:
    old = claim.reservation
    new = scene.promise(claim.gang, start, for_deadline=old.for_deadline, made_at_ms=old.made_at_ms)
    return next(c for c in scene.claims.all if c.reservation is new)


def _withdraw(scene: CycleState, claim: ReservedStart) -> None:
    scene.lift(claim)
    scene.plan.take_back(claim.gang.job_id)
    scene.plan.withdrawn.append(claim.gang.job_id)
