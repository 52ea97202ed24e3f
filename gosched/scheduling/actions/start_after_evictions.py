"""Evicts others so that a gang starts, as far as the policy of its queue allows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from gosched.core.commands.plans import GangPlacement
from gosched.core.spec.policies import PreemptionPolicy
from gosched.scheduling.actions.decisions import Decisions
from gosched.scheduling.backfill.capacity_views import CapacityViews, RestrictedCapacity
from gosched.scheduling.fairness.queue_limits import Allowance, QueueLimits
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.plan import Plan
from gosched.scheduling.preemption.eviction_rules import EvictionBudget, Victim
from gosched.scheduling.preemption.victim_search import PreemptionPlan, VictimSearch
from gosched.scheduling.snapshot.task_requests import PendingGang

MAX_STARTS = 16  # gangs that others are evicted for in one cycle; then the next cycle goes on at once


@dataclass(frozen=True, slots=True)
class ObserveOnly:
    """The victims that would have been evicted if the queue did more than observe."""

    victims: tuple[Victim, ...]


class StartAfterEvictions:
    """Starts that need evictions, made or tried, in one cycle."""

    def __init__(
        self,
        plan: Plan,
        victim_search: VictimSearch,
        budget: EvictionBudget,
        capacity_views: CapacityViews,
        feasibility: Feasibility,
        limits: QueueLimits,
        decisions: Decisions,
    ) -> None:
        self._plan = plan
        self._victim_search = victim_search
        self._budget = budget
        self._capacity_views = capacity_views
        self._feasibility = feasibility
        self._limits = limits
        self._decisions = decisions
        self._starts = 0
        #: Kinds of gangs for which no victims were found, or may only be observed.
        self._hopeless: dict[tuple[str, int, tuple[str, ...], object], None] = {}

    def may_start(self, gang: PendingGang, shape: object) -> bool:
        """Return whether victims are looked for at all; False costs nothing per running gang."""
        return (
            self._starts < MAX_STARTS
            and self._key(gang, shape) not in self._hopeless
            and self._budget.may_find_victims(gang)
        )

    def start(self, gang: PendingGang, shape: object) -> GangPlacement | ObserveOnly | None:
        """Evict others for the gang, as its queue allows; None: it finds no victims, or the cycle evicts no more."""
        if not self.may_start(gang, shape):
            return None
        key = self._key(gang, shape)
        found = self._search(gang)
        if found is None:
            if not self._victim_search.exhausted:
                self._hopeless[key] = None
            return None
        if self._budget.policy_of(gang.queue) is PreemptionPolicy.OBSERVE_ONLY:
            self._hopeless[key] = None
            return ObserveOnly(found.victims)
        return self._start(gang, found)

    def _key(self, gang: PendingGang, shape: object) -> tuple[str, int, tuple[str, ...], object]:
        return gang.queue, gang.priority, gang.evicted_for, shape

    def start_overdue(self, gang: PendingGang, start_ms: int, allowance: Allowance) -> GangPlacement | None:
        """Evict what runs in the gang's reserved capacity until its start, which has come."""
        # Its moment has come: what the victims need to stop delays others, too.
        base = self._capacity_views.beside_reservations(gang)
        found = self._victim_search.overdue(gang, start_ms, base, self._feasibility, allowance)
        return self._start(gang, found) if found is not None else None

    def victims_for(self, gang: PendingGang) -> tuple[Victim, ...]:
        """Return the jobs that would be evicted for the gang; nothing is taken. Empty: none, or it would not help."""
        if self._limits.why_not(gang):
            return ()
        found = self._search(gang)
        return found.victims if found is not None else ()

    def _search(self, gang: PendingGang) -> PreemptionPlan | None:
        make_base = partial(self._base, gang)
        make_allowance = partial(self._limits.allowance, gang)
        return self._victim_search.find(gang, make_base, self._feasibility, make_allowance)

    def _base(self, gang: PendingGang) -> RestrictedCapacity:
        return self._capacity_views.avoiding_reserved_nodes(gang, self._budget.longest_grace_ms)

    def _start(self, gang: PendingGang, found: PreemptionPlan) -> GangPlacement:
        placement = self._decisions.start_after_evictions(gang, found)
        self._starts += 1
        # A gang gives surplus once in a cycle; others may need more of it.
        gave_surplus = any(victim.ranks for victim in found.victims)
        self._plan.more = self._plan.more or gave_surplus or self._starts >= MAX_STARTS
        return placement
