"""Moves reserved starts that do not hold any more, or could be earlier.

Invariant: when not all can be kept, the newest is moved first.
"""

from __future__ import annotations

from gosched.scheduling.actions.reserve import Reserver
from gosched.scheduling.backfill.earliest_start import EarliestStart, Start
from gosched.scheduling.backfill.reserved_starts import ReservedStart, ReservedStarts
from gosched.scheduling.explain import explanation
from gosched.scheduling.fairness.queue_limits import Allowance, QueueLimits
from gosched.scheduling.plan import Plan

MAX_IMPROVED = 8  # searches for earlier starts in one cycle
MIN_GAIN_MS = 1000  # a reserved start is moved only if the gang would start so much earlier


class Replanner:
    """The reserved starts of one cycle as they are moved."""

    def __init__(
        self,
        plan: Plan,
        limits: QueueLimits,
        reserved_starts: ReservedStarts,
        earliest_start: EarliestStart,
        reserver: Reserver,
    ) -> None:
        self._plan = plan
        self._limits = limits
        self._reserved_starts = reserved_starts
        self._earliest_start = earliest_start
        self._reserver = reserver
        self._searches = 0

    def replan_broken(self) -> None:
        """Reserve another start for gangs whose reserved capacity others took, and say so in their explanations."""
        if self._reserved_starts.all_hold():
            return
        before = {reserved.gang.job_id: reserved for reserved in self._reserved_starts.all}
        kept = self.fit_together(sorted(before.values(), key=lambda reserved: reserved.age))
        after = {reserved.gang.job_id: reserved for reserved in kept}
        for job_id, reserved in before.items():
            found = after.get(job_id)
            why = self._plan.explanations.get(job_id)
            if found is not reserved and why is not None:
                self._plan.explanations[job_id] = explanation.reserved(why, found.reservation if found else None)

    def fit_together(self, reserved_starts: list[ReservedStart]) -> list[ReservedStart]:
        """Return the reserved starts, which are all there are, so that they fit beside each other. If they do not fit
        as they are, they are added again one by one, and those that do not fit beside older ones are moved."""
        if self._reserved_starts.all_hold():
            return reserved_starts
        for reserved in reserved_starts:
            self._reserver.remove(reserved)
        return self.add_one_by_one(reserved_starts)

    def add_one_by_one(self, reserved_starts: list[ReservedStart]) -> list[ReservedStart]:
        """Add the reserved starts in this order; each that breaks one that is there is moved before the next one."""
        kept: list[ReservedStart] = []
        for reserved in reserved_starts:
            self._reserver.add(reserved)
            if self._reserved_starts.all_hold():
                kept.append(reserved)
            elif found := self.replan(reserved):
                kept.append(found)
        return kept

    def replan(self, reserved: ReservedStart) -> ReservedStart | None:
        """Reserve another start beside those that are there; None: there is none any more."""
        self._reserver.remove(reserved)
        self._reserved_starts.unmark(reserved)
        gang = reserved.gang
        start = self._earliest_start.find(gang, self._plan.seed, self._limits.allowance(gang))
        if start is not None:
            return self._moved(reserved, start)
        self._plan.withdraw(gang.job_id)
        return None

    def earlier(self, reserved: ReservedStart, allowance: Allowance) -> ReservedStart:
        """Return the reserved start, moved to an earlier moment if there is one."""
        before = reserved.start_ms - MIN_GAIN_MS
        if self._searches >= MAX_IMPROVED or not self._earliest_start.is_plausible(reserved, before):
            return reserved
        self._searches += 1
        start = self._earliest_start.find(reserved.gang, self._plan.seed, allowance, before_ms=before, without=reserved)
        if start is None:
            return reserved
        self._reserver.remove(reserved)
        return self._moved(reserved, start)

    def _moved(self, reserved: ReservedStart, start: Start) -> ReservedStart:
        old = reserved.reservation
        return self._reserver.reserve(reserved.gang, start, for_deadline=old.for_deadline, made_at_ms=old.made_at_ms)
