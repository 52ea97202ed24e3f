"""Reserves starts for gangs that wait."""

from __future__ import annotations

from functools import cached_property

from gosched.core.records.reservation import Reservation
from gosched.scheduling.backfill.capacity_views import CapacityViews
from gosched.scheduling.backfill.earliest_start import EarliestStart, Start
from gosched.scheduling.backfill.reserved_starts import ReservedStart, ReservedStarts, shares_of
from gosched.scheduling.fairness.queue_limits import Allowance
from gosched.scheduling.plan import Plan
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import View


class Reserver:
    """The reserved starts of one cycle as they are made, added and removed."""

    def __init__(
        self,
        view: View,
        plan: Plan,
        reserved_starts: ReservedStarts,
        capacity_views: CapacityViews,
        earliest_start: EarliestStart,
    ) -> None:
        self._plan = plan
        self._reserved_starts = reserved_starts
        self._capacity_views = capacity_views
        self._earliest_start = earliest_start
        self._holders = view.holders
        #: Reserved starts that count against `Policy.reservations`: all but those for deadlines.
        self.made = 0

    @cached_property
    def grace_ms(self) -> int:
        """Return how long what runs in reserved capacity may need to stop: a reserved start is due so much earlier."""
        return max([holder.grace_ms for holder in self._holders.values() if holder.until_ms], default=0)

    def reserve_earliest(self, gang: PendingGang, allowance: Allowance) -> Reservation | None:
        """Reserve the first start that is in sight; None: there is none."""
        start = self._earliest_start.find(gang, self._plan.seed, allowance)
        if start is None:
            return None
        self.made += 1
        return self.reserve(gang, start).reservation

    def reserve(
        self, gang: PendingGang, start: Start, *, for_deadline: bool = False, made_at_ms: int = 0
    ) -> ReservedStart:
        """Reserve this start. `made_at_ms`: when the gang's first reservation was made; 0: now."""
        reservation = reservation_of(gang, start, made_at_ms or self._plan.planned_at_ms, for_deadline=for_deadline)
        self._plan.reserve(reservation)
        reserved = ReservedStart(gang, reservation)
        self.add(reserved)
        return reserved

    def add(self, reserved: ReservedStart) -> None:
        """Take the reserved start into account from now on."""
        self._reserved_starts.add(reserved)
        self._capacity_views.invalidate()
        self._wake_for(reserved)

    def remove(self, reserved: ReservedStart) -> None:
        """Disregard the reserved start. It may be one that was never added, since it did not fit."""
        if reserved in self._reserved_starts:
            self._reserved_starts.remove(reserved)
            self._capacity_views.invalidate()

    def count(self, reserved: ReservedStart) -> None:
        """Count a reserved start of an earlier cycle, which is kept."""
        self.made += not reserved.reservation.for_deadline
        self._wake_for(reserved)

    def _wake_for(self, reserved: ReservedStart) -> None:
        """Plan again when the start is due, and when it comes."""
        self._plan.wake_at(reserved.start_ms - self.grace_ms)
        self._plan.wake_at(reserved.start_ms)


def reservation_of(
    gang: PendingGang, start: Start, made_at_ms: int, *, for_deadline: bool = False, standing: bool = False
) -> Reservation:
    """Return the reservation of this start for the gang."""
    return Reservation(
        job_id=gang.job_id,
        attempt=gang.attempt,
        start_ms=start.at_ms,
        end_ms=start.at_ms + gang.span_ms if gang.span_ms else 0,
        shares=shares_of(gang, start.placement),
        for_deadline=for_deadline,
        made_at_ms=made_at_ms,
        standing=standing,
    )
