"""What is done with a gang that does not start: it is explained, and the first ones get a reserved start.

Invariant: gangs of one kind wait for the same reason; capacity, budgets and reservations only get tighter in a cycle.
"""

from __future__ import annotations

from gosched.scheduling.actions.explain_wait import WaitExplainer
from gosched.scheduling.actions.keep_nodes import NodeKeeper
from gosched.scheduling.actions.reserve import Reserver
from gosched.scheduling.backfill.capacity_views import CapacityViews
from gosched.scheduling.explain import explanation
from gosched.scheduling.explain.explanation import Explanation
from gosched.scheduling.fairness.queue_limits import QueueLimits
from gosched.scheduling.plan import Plan
from gosched.scheduling.policy import Policy
from gosched.scheduling.preemption.eviction_rules import EvictionBudget
from gosched.scheduling.preemption.victim_search import VictimSearch
from gosched.scheduling.snapshot.task_requests import PendingGang

MAX_FUTILE_SEARCHES = 8  # kinds of gangs for which a start is looked for in vain


class Waits:
    """The gangs of one cycle that wait."""

    def __init__(
        self,
        policy: Policy,
        plan: Plan,
        explainer: WaitExplainer,
        reserver: Reserver,
        node_keeper: NodeKeeper,
        capacity_views: CapacityViews,
        limits: QueueLimits,
        victim_search: VictimSearch,
        budget: EvictionBudget,
    ) -> None:
        self._max_reservations = policy.reservations
        self._plan = plan
        self._explainer = explainer
        self._reserver = reserver
        self._node_keeper = node_keeper
        self._capacity_views = capacity_views
        self._limits = limits
        self._victim_search = victim_search
        self._budget = budget
        self._known: dict[object, Explanation] = {}
        #: Kinds of gangs for which no start is in sight.
        self._without_start: dict[object, None] = {}

    @property
    def kinds(self) -> int:
        """Return the number of different gangs that were tried in vain."""
        return len(self._known)

    def known(self, gang: PendingGang, shape: object) -> Explanation | None:
        """Return why the gang waits if one of its kind does already; None as long as it may get a reserved start."""
        if not self._known:
            return None
        kind = self._kind(gang, shape)
        return None if self._may_reserve(gang, kind) else self._known.get(kind)

    def wait(self, gang: PendingGang, shape: object) -> Explanation:
        """Return why the gang, which did not start, waits; reserve a start if it is among the first."""
        kind = self._kind(gang, shape)
        why = self._known.get(kind)
        if why is None:
            why = self._explainer.why(gang)
            if self._victim_search.exhausted and self._budget.may_find_victims(gang):
                why = explanation.cut_short(why)
        if gang.job_id in self._plan.observed:
            why = explanation.with_victims(why, self._plan.observed[gang.job_id], self._plan.planned_at_ms)
        self._known[kind] = why
        if self._may_reserve(gang, kind):
            reservation = self._reserver.reserve_earliest(gang, self._limits.allowance(gang))
            if reservation is None:
                reservation = self._node_keeper.reserve(gang)
            if reservation is not None:
                return explanation.reserved(why, reservation)
            self._without_start[kind] = None
        return why

    def _may_reserve(self, gang: PendingGang, kind: object) -> bool:
        """Return whether the gang is among the first that wait, and a start may be in sight."""
        left = self._max_reservations - self._reserver.made
        return (
            left > 0
            and not gang.joins
            and len(self._without_start) < MAX_FUTILE_SEARCHES + left
            and kind not in self._without_start
        )

    def _kind(self, gang: PendingGang, shape: object) -> object:
        """Return what tells gangs apart that may use different capacity or evict others."""
        return (
            shape,
            gang.queue,
            gang.priority,
            gang.may_evict,
            gang.is_preemptible,
            gang.grace_ms,
            gang.evicted_for,
            self._capacity_views.horizon(gang),
        )
