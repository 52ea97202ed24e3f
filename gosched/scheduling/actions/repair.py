"""Restarts gangs that lost members with a node."""

from __future__ import annotations

from gosched.scheduling.actions.decisions import Decisions
from gosched.scheduling.backfill.capacity_views import CapacityViews
from gosched.scheduling.fairness.queue_limits import QueueLimits
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.preemption.eviction_rules import EvictionBudget
from gosched.scheduling.preemption.gang_repair import repaired
from gosched.scheduling.snapshot.occupancy import Occupants
from gosched.scheduling.snapshot.view import View
from gosched.scheduling.suspects import Kind, Stumble, Suspect


def repair_gangs(
    view: View,
    occupants: Occupants,
    capacity_views: CapacityViews,
    budget: EvictionBudget,
    feasibility: Feasibility,
    limits: QueueLimits,
    decisions: Decisions,
    seed: int,
    stumble: Stumble,
) -> None:
    """Give each broken gang its old nodes again, and others for what was lost; one for which there are none waits, as
    does one that holds more than its queue or tenant may hold by now."""
    for gang in view.repairs:
        try:
            holder = view.holders[gang.job_id]
            base = capacity_views.avoiding_reserved_nodes(gang, budget.longest_grace_ms)
            placement = repaired(gang, holder, occupants(), base, feasibility, seed)
            if placement is not None and limits.may_restart(gang, placement, holder.charge(), view.nodes):
                decisions.restart(gang, holder, placement)
        except Exception as error:
            stumble(Suspect(Kind.REPAIR, gang.job_id), error)
