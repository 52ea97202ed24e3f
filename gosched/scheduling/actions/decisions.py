"""Records what the cycle decides about gangs.

Invariant: what is decided for one gang is known to all that follow: in the plan, in capacity at all times, in limits,
budgets and rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gosched.core.commands.plans import Cause, Eviction, GangPlacement
from gosched.scheduling.backfill.capacity_timeline import CapacityTimeline
from gosched.scheduling.backfill.capacity_views import CapacityView
from gosched.scheduling.fairness.queue_limits import QueueLimits
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.plan import Plan
from gosched.scheduling.plugins.calls import Plugins
from gosched.scheduling.preemption.eviction_rules import EvictionBudget, Victim
from gosched.scheduling.preemption.victim_search import PreemptionPlan, VictimSearch
from gosched.scheduling.snapshot.capacity_rows import Freed
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import NodeColumns


class Decisions:
    """The decisions of one cycle."""

    def __init__(
        self,
        plan: Plan,
        nodes: NodeColumns,
        timeline: CapacityTimeline,
        feasibility: Feasibility,
        plugins: Plugins,
        limits: QueueLimits,
        victim_search: VictimSearch,
        budget: EvictionBudget,
    ) -> None:
        self._plan = plan
        self._nodes = nodes
        self._timeline = timeline
        self._feasibility = feasibility
        self._plugins = plugins
        self._limits = limits
        self._victim_search = victim_search
        self._budget = budget

    def start(self, gang: PendingGang, placement: GangPlacement, capacity_view: CapacityView) -> None:
        """Start the gang now, where it was placed in that view."""
        self._timeline.start(gang, placement, capacity_view)
        self._count(gang, placement)
        self._plan.add(placement)

    def start_after_evictions(self, gang: PendingGang, found: PreemptionPlan) -> GangPlacement:
        """Evict the victims and start the gang once they have stopped."""
        placement = replace(found.placement, evictions=tuple([_eviction(victim) for victim in found.victims]))
        self._plan.add(placement)
        self._victim_search.record_evictions(found.victims, gang.job_id)
        for victim in found.victims:
            self._timeline.evict(victim.gang, victim.ranks)
        self._timeline.fence(gang, placement, found.freed, _slowest_ms(found.victims))
        self._count(gang, placement)
        return placement

    def restart(self, gang: PendingGang, attempt: int, placement: GangPlacement, freed: Freed, grace_ms: int) -> None:
        """Keep this placement for the gang until what is left of it has stopped, which frees `freed`, and its backoff
        is over. `attempt`: the job's, as it is now."""
        eviction = Eviction(job_id=gang.job_id, attempt=attempt, cause=Cause.REPAIR)
        placement = replace(placement, evictions=(eviction,))
        self._plan.add(placement)
        self._timeline.restart(gang, placement, freed, grace_ms)
        self._count(gang, placement)

    def evict(self, victim: Victim) -> None:
        """Evict the victim, for no gang in particular."""
        self._plan.add(GangPlacement(job_id="", attempt=0, tasks=(), evictions=(_eviction(victim),)))
        self._victim_search.record_evictions([victim], "")

    def _count(self, gang: PendingGang, placement: GangPlacement) -> None:
        self._feasibility.placed(gang, placement)
        self._plugins.placed(gang, placement)
        self._limits.take(gang, placement, self._nodes)
        self._budget.record_start(gang, placement)


def _slowest_ms(victims: Sequence[Victim]) -> int:
    return max([victim.gang.grace_ms for victim in victims])


def _eviction(victim: Victim) -> Eviction:
    return Eviction(
        job_id=victim.gang.job_id,
        attempt=victim.gang.attempt,
        ranks=tuple(sorted(victim.ranks)),
        cause=victim.cause,
    )
