"""Says why a gang does not start now: whether capacity is short, or reserved for others."""

from __future__ import annotations

from gosched.scheduling.actions.start_now import StartNow
from gosched.scheduling.backfill.capacity_views import CapacityViews
from gosched.scheduling.backfill.reserved_starts import ReservedStarts
from gosched.scheduling.explain import explanation
from gosched.scheduling.explain.explainer import Explainer
from gosched.scheduling.explain.explanation import Explanation
from gosched.scheduling.fairness.queue_limits import QueueLimits
from gosched.scheduling.snapshot.task_requests import PendingGang


class WaitExplainer:
    """Explanations of gangs that no limit holds back."""

    def __init__(
        self,
        explainer: Explainer,
        capacity_views: CapacityViews,
        reserved_starts: ReservedStarts,
        limits: QueueLimits,
        start_now: StartNow,
    ) -> None:
        self._explainer = explainer
        self._capacity_views = capacity_views
        self._reserved_starts = reserved_starts
        self._limits = limits
        self._start_now = start_now

    def why(self, gang: PendingGang) -> Explanation:
        """Return why the gang waits; brief once the cycle has explained enough."""
        if not self._explainer.has_time or not self._is_restricted(gang):
            return self._short_of(gang)
        self._explainer.spend()
        if not self._start_now.fits_unreserved(gang):
            return self._short_of(gang)
        gangs = [reserved.gang for reserved in self._reserved_starts.all if reserved.gang.job_id != gang.job_id]
        names = [explanation.name_of(other, gang) for other in gangs]
        names += [window.name for window in self._reserved_starts.windows]
        return explanation.blocked_by_reservations(list(dict.fromkeys(names)))

    def why_in_full(self, gang: PendingGang) -> Explanation:
        """Return why the gang waits, at the cost of several looks at every node."""
        why = self.why(gang)
        return self._explainer.full(gang, self._limits.allowance(gang).banned) if why.brief else why

    def _is_restricted(self, gang: PendingGang) -> bool:
        """Return whether reservations or windows keep the gang off capacity that might hold it."""
        unreserved = self._capacity_views.unreserved.capacity
        return self._capacity_views.of(gang).capacity is not unreserved and unreserved.may_hold(gang)

    def _short_of(self, gang: PendingGang) -> Explanation:
        return self._explainer.of(gang, self._limits.allowance(gang).banned if self._explainer.has_time else ())
