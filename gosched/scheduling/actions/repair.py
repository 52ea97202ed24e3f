"""Restarts gangs that broke, where they ran."""

from __future__ import annotations

import numpy as np

from gosched.core.limits import MAX_KEPT_BACKOFF_MS
from gosched.scheduling.actions.decisions import Decisions
from gosched.scheduling.backfill.capacity_views import CapacityViews
from gosched.scheduling.backfill.start_lines import slots_of
from gosched.scheduling.fairness.queue_limits import QueueLimits
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.preemption.eviction_rules import EvictionBudget
from gosched.scheduling.preemption.gang_repair import repaired
from gosched.scheduling.snapshot.occupancy import Occupants
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import Repair, View
from gosched.scheduling.suspects import Kind, Stumble, Suspect

MAX_REPAIRS = 100  # of a cycle: the others wait like any gang
MAX_FENCES = 200  # there are, beyond which no places are kept for a backoff: each costs every command something
FIRST_MS = 60_000  # so long after its backoff a gang comes before others where it ran


class GangRepairer:
    """The repairs of one cycle."""

    def __init__(
        self,
        view: View,
        occupants: Occupants,
        capacity_views: CapacityViews,
        budget: EvictionBudget,
        feasibility: Feasibility,
        limits: QueueLimits,
        decisions: Decisions,
        now_ms: int,
        seed: int,
        stumble: Stumble,
    ) -> None:
        self._view = view
        self._occupants = occupants
        self._capacity_views = capacity_views
        self._budget = budget
        self._feasibility = feasibility
        self._limits = limits
        self._decisions = decisions
        self._now_ms = now_ms
        self._seed = seed
        self._stumble = stumble
        self._urgent: dict[str, int] = {}  # the highest priority that waits in each queue

    def repair(self) -> dict[str, None]:
        """Give each broken gang its old nodes again, and others for what was lost, and return the jobs that got them;
        one for which there are none waits, as does one that would hold more than its queue or tenant may hold by now.
        Reserved starts are looked at afterwards: they move where a gang that starts again is in their way."""
        done: dict[str, None] = {}
        for repair in sorted(filter(self._is_due, self._view.repairs), key=_sequence)[:MAX_REPAIRS]:
            try:
                if self._repair(repair):
                    done[repair.job_id] = None
            except Exception as error:
                self._stumble(Suspect(Kind.REPAIR, repair.job_id), error)
        return done

    def _is_due(self, repair: Repair) -> bool:
        gang = repair.gang
        most_ms = 0 if gang.joins else MAX_KEPT_BACKOFF_MS
        if gang.not_before_ms > self._now_ms + most_ms or gang.job_id in self._view.reservations:
            return False
        if gang.not_before_ms > self._now_ms and not repair.stops and not self._may_keep(gang):
            return False
        return repair.stops or self._now_ms <= gang.not_before_ms + gang.grace_ms + FIRST_MS

    def _may_keep(self, gang: PendingGang) -> bool:
        """Return whether places may be kept idle for a backoff: not from a gang of the queue that is more urgent."""
        if len(self._view.fences) >= MAX_FENCES:
            return False
        if not self._urgent:
            for other in self._view.pending:
                self._urgent[other.queue] = max(other.priority, self._urgent.get(other.queue, 0))
        return self._urgent.get(gang.queue, 0) <= gang.priority

    def _repair(self, repair: Repair) -> bool:
        gang, view = repair.gang, self._view
        rest_ms = max(gang.not_before_ms - self._now_ms, 0)
        base = self._capacity_views.avoiding_reserved_nodes(gang, max(self._budget.longest_grace_ms, rest_ms))
        occupied = self._occupants()
        holder = view.holders[gang.job_id] if repair.stops else None
        own = occupied.tasks_of(gang.job_id) if holder else np.zeros(len(occupied), dtype=np.bool_)
        freed = occupied.freed(own)
        placement = repaired(repair, freed, base, self._feasibility, self._seed)
        held, runs = holder.charge() if holder else {}, repair.stops or gang.joins
        if placement is None or not self._limits.may_restart(gang, placement, held, view.nodes, runs=runs):
            return False
        if holder or rest_ms:
            grace_ms = max(holder.grace_ms if holder else 0, rest_ms)
            self._decisions.restart(gang, repair.attempt, placement, freed, grace_ms)
        else:
            for request, slots in slots_of(gang, placement, view.nodes):
                self._capacity_views.plain.occupy(request, slots)
            self._decisions.start(gang, placement, self._capacity_views.unreserved)
        return True


def _sequence(repair: Repair) -> int:
    return repair.gang.sequence
