"""Starts a gang with a reserved start: when it is due, or before if it fits."""

from __future__ import annotations

from collections.abc import Callable

from gosched.core.commands.plans import GangPlacement
from gosched.scheduling.actions.reserve import Reserver
from gosched.scheduling.actions.start_after_evictions import StartAfterEvictions
from gosched.scheduling.actions.start_now import StartNow
from gosched.scheduling.backfill.earliest_start import EarliestStart
from gosched.scheduling.backfill.reserved_starts import ReservedStart, ReservedStarts
from gosched.scheduling.fairness.queue_limits import Allowance
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.snapshot.task_requests import PendingGang


class StartReserved:
    """Starts of gangs with reservations in one cycle."""

    def __init__(
        self,
        plain: FreeCapacity,
        shape_of: Callable[[PendingGang], object],
        reserved_starts: ReservedStarts,
        earliest_start: EarliestStart,
        reserver: Reserver,
        start_now: StartNow,
        start_after_evictions: StartAfterEvictions,
        now_ms: int,
    ) -> None:
        self._plain = plain
        self._shape_of = shape_of
        self._reserved_starts = reserved_starts
        self._earliest_start = earliest_start
        self._reserver = reserver
        self._start_now = start_now
        self._start_after_evictions = start_after_evictions
        self._now_ms = now_ms

    def start(self, reserved: ReservedStart, allowance: Allowance) -> bool:
        """Start the gang beside all other reservations; when it is due, at the cost of younger ones, too; at last, at
        the cost of running gangs. False: it keeps its reservation."""
        gang = reserved.gang
        is_due = reserved.start_ms - self._reserver.grace_ms <= self._now_ms
        if not is_due and not self._plain.may_hold(gang):
            return False
        shape = self._shape_of(gang)
        if not is_due and not self._may_start(reserved, shape):
            return False
        self._reserver.remove(reserved)
        if is_due:
            self._reserved_starts.mark_due(reserved)
        if self._start_now.start(gang, shape) or (is_due and self._start_overdue(reserved, allowance)):
            return True
        if is_due:
            self._reserved_starts.mark_before_younger(reserved)
            if self._start_now.start(gang, shape) or self._start_overdue(reserved, allowance):
                return True
        if isinstance(self._start_after_evictions.start(gang, shape), GangPlacement):
            return True
        self._reserver.add(reserved)
        return False

    def _may_start(self, reserved: ReservedStart, shape: object) -> bool:
        """Return whether it is worth the while to try. False is certain."""
        gang, reserved_starts = reserved.gang, self._reserved_starts
        if self._start_after_evictions.may_start(gang, shape):
            return True
        if not self._start_now.may_start(gang, shape):
            return False
        if gang.is_preemptible or reserved_starts.may_outrank(gang) or not reserved_starts.all_hold():
            return True
        until_ms = min(self._now_ms + gang.span_ms, reserved.start_ms) if gang.is_bounded else reserved.start_ms
        return self._earliest_start.may_fit_now(gang, until_ms)

    def _start_overdue(self, reserved: ReservedStart, allowance: Allowance) -> bool:
        started = self._start_after_evictions.start_overdue(reserved.gang, reserved.start_ms, allowance)
        return started is not None
