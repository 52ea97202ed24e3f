"""Reserves starts for gangs with a promised deadline that have none any more: they lost a node, or were evicted."""

from __future__ import annotations

from collections.abc import Callable, Container

from gosched.scheduling.actions.reserve import Reserver
from gosched.scheduling.actions.starter import Starter
from gosched.scheduling.backfill.earliest_start import EarliestStart
from gosched.scheduling.backfill.reserved_starts import ReservedStart
from gosched.scheduling.fairness.queue_limits import QueueLimits
from gosched.scheduling.plan import Plan
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import View
from gosched.scheduling.suspects import Kind, Stumble, Suspect


class DeadlineReserver:
    """Starts, and reserved starts, of gangs with promised deadlines in one cycle."""

    def __init__(
        self,
        view: View,
        plan: Plan,
        limits: QueueLimits,
        shape_of: Callable[[PendingGang], object],
        starter: Starter,
        earliest_start: EarliestStart,
        reserver: Reserver,
        stumble: Stumble,
    ) -> None:
        self._view = view
        self._plan = plan
        self._limits = limits
        self._shape_of = shape_of
        self._starter = starter
        self._earliest_start = earliest_start
        self._reserver = reserver
        self._stumble = stumble

    def reserve(self, placed: Container[str]) -> dict[str, ReservedStart | None]:
        """Return the new reserved start of each such gang; None: it starts in this plan. A gang that cannot meet its
        deadline any more is withdrawn, and waits like any other. `placed`: jobs that have a place already."""
        found: dict[str, ReservedStart | None] = {}
        for gang in self._view.pending:
            if not gang.deadline_promised or gang.joins or gang.job_id in self._view.reservations:
                continue
            if gang.job_id in placed:
                continue
            try:
                self._reserve(gang, found)
            except Exception as error:
                self._stumble(Suspect(Kind.JOB, gang.job_id), error)
        return found

    def _reserve(self, gang: PendingGang, found: dict[str, ReservedStart | None]) -> None:
        if gang.not_before_ms > self._plan.planned_at_ms or self._limits.why_not(gang):
            return
        allowance = self._limits.allowance(gang)
        if self._starter.start(gang, self._shape_of(gang)):
            found[gang.job_id] = None
            return
        latest = gang.deadline_ms - gang.span_ms
        start = self._earliest_start.find(gang, self._plan.seed, allowance, before_ms=latest + 1)
        if start is None:
            self._plan.withdraw(gang.job_id)
        else:
            found[gang.job_id] = self._reserver.reserve(gang, start, for_deadline=True)
