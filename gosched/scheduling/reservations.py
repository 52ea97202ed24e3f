"""Keeps the reservations of earlier cycles: their gangs are looked at before all others, the oldest first.

Invariant: a reserved start moves to a later time only because its capacity is not there any more, or belongs to a gang
that may evict this one; never for a gang that came later.
"""

from __future__ import annotations

from gosched.scheduling.actions.keep_nodes import NodeKeeper
from gosched.scheduling.actions.reserve import Reserver
from gosched.scheduling.actions.start_reserved import StartReserved
from gosched.scheduling.backfill.reserved_starts import ReservedStart, ReservedStarts
from gosched.scheduling.fairness.queue_limits import QueueLimits
from gosched.scheduling.plan import Plan
from gosched.scheduling.policy import Policy
from gosched.scheduling.replanning import Replanner
from gosched.scheduling.snapshot.view import View
from gosched.scheduling.suspects import Kind, Stumble, Suspect

MAX_LOOKED_AT = 64  # reservations in each cycle, besides the oldest, which might begin earlier


def current_reservations(view: View, policy: Policy, plan: Plan) -> tuple[list[ReservedStart], list[ReservedStart]]:
    """Return the reserved starts of gangs that still wait, the oldest first, and apart from them the standing
    reservations; those that are too many are withdrawn."""
    if not view.reservations:
        return [], []
    found: list[ReservedStart] = []
    places = policy.reservations
    gangs = {gang.job_id: gang for gang in view.pending if gang.job_id in view.reservations}
    for reservation in sorted(view.reservations.values(), key=lambda r: (r.made_at_ms, r.job_id)):
        gang = gangs.get(reservation.job_id)
        if gang is None or gang.joins or gang.attempt != reservation.attempt:
            continue  # the state machine forgets it
        counts = not (reservation.for_deadline or reservation.standing)
        places -= counts
        if places < 0 and counts:
            plan.withdraw(reservation.job_id)
        else:
            found.append(ReservedStart(gang, reservation))
    found.sort(key=lambda reserved: reserved.age)
    standing = [reserved for reserved in found if reserved.reservation.standing]
    return [reserved for reserved in found if not reserved.reservation.standing], standing


class ReservationKeeper:
    """The reservations of earlier cycles as they are started, kept, moved or withdrawn."""

    def __init__(
        self,
        view: View,
        policy: Policy,
        plan: Plan,
        limits: QueueLimits,
        reserved_starts: ReservedStarts,
        start_reserved: StartReserved,
        reserver: Reserver,
        replanner: Replanner,
        node_keeper: NodeKeeper,
        stumble: Stumble,
    ) -> None:
        self._view = view
        self._policy = policy
        self._plan = plan
        self._now_ms = plan.planned_at_ms
        self._limits = limits
        self._reserved_starts = reserved_starts
        self._start_reserved = start_reserved
        self._reserver = reserver
        self._replanner = replanner
        self._node_keeper = node_keeper
        self._stumble = stumble

    def keep(self) -> dict[str, ReservedStart | None]:
        """Return the reserved start of each gang that had one and still waits; None: it starts in this plan."""
        started: dict[str, ReservedStart | None] = {}
        timed, standing = current_reservations(self._view, self._policy, self._plan)
        self._reserved_starts.add_all(timed)
        self._node_keeper.hold(standing)
        waiting = self._replanner.fit_together(timed)
        number = 0
        while number < len(waiting):
            reserved = waiting[number]
            try:
                waiting, number = self._keep(waiting, number, started)
            except Exception as error:
                self._stumble(Suspect(Kind.RESERVATION, reserved.gang.job_id), error)
                waiting = [other for other in waiting if other is not reserved]
        self._improve(waiting)
        for reserved in waiting:
            self._reserver.count(reserved)
        kept = self._node_keeper.keep(standing)
        return {**kept, **started, **{reserved.gang.job_id: reserved for reserved in waiting}}

    def _keep(
        self, waiting: list[ReservedStart], number: int, started: dict[str, ReservedStart | None]
    ) -> tuple[list[ReservedStart], int]:
        """Start, keep, move or withdraw the one of this number. Return those that wait, and the number of the next."""
        reserved = waiting[number]
        gang = reserved.gang
        if self._limits.why_not(gang) or gang.not_before_ms > self._now_ms:
            self._withdraw(reserved)
            del waiting[number]
            return waiting, number
        allowance = self._limits.allowance(gang)
        if self._start_reserved.start(reserved, allowance):
            started[gang.job_id] = None
            del waiting[number]
            return self._replanner.fit_together(waiting), number
        if self._holds(reserved):
            waiting[number] = reserved if number else self._replanner.earlier(reserved, allowance)
            return waiting, number + 1
        rest = waiting[number:]  # it is moved first, and then those that came later beside it
        for other in rest:
            self._reserver.remove(other)
        found = self._replanner.replan(reserved)
        waiting[number:] = [*([found] if found else []), *self._replanner.add_one_by_one(rest[1:])]
        return waiting, number + (found is not None)

    def _improve(self, waiting: list[ReservedStart]) -> None:
        """Move some of the reserved starts, which are ordered by age, to earlier moments. The seed draws where to
        begin, so that each has its turn; the oldest has had it."""
        count = len(waiting)
        for place in range(min(count - 1, MAX_LOOKED_AT)):
            index = (self._plan.seed + place) % (count - 1) + 1
            reserved = waiting[index]
            waiting[index] = self._replanner.earlier(reserved, self._limits.allowance(reserved.gang))

    def _holds(self, reserved: ReservedStart) -> bool:
        """Return whether the reserved start can still be kept, as far as is known."""
        return (
            self._reserved_starts.holds(reserved)
            and reserved.start_ms > self._now_ms
            and not self._reserved_starts.is_closed(reserved)
        )

    def _withdraw(self, reserved: ReservedStart) -> None:
        self._reserver.remove(reserved)
        self._plan.withdraw(reserved.gang.job_id)
