"""Starts a gang in the capacity that is free now."""

from __future__ import annotations

from dataclasses import replace

from gosched.core.commands.plans import GangPlacement
from gosched.scheduling.actions.decisions import Decisions
from gosched.scheduling.backfill.capacity_views import CapacityView, CapacityViews
from gosched.scheduling.fairness.queue_limits import QueueLimits
from gosched.scheduling.placement.gang_placement import place
from gosched.scheduling.snapshot.task_requests import PendingGang


class StartNow:
    """Starts in free capacity, made or tried, in one cycle."""

    def __init__(self, capacity_views: CapacityViews, limits: QueueLimits, decisions: Decisions, seed: int) -> None:
        self._capacity_views = capacity_views
        self._limits = limits
        self._decisions = decisions
        self._seed = seed
        #: Shapes of gangs that found no place, each with the key of the view; capacity only shrinks within a view.
        self._missed: dict[tuple[object, object], None] = {}

    def start(self, gang: PendingGang, shape: object) -> GangPlacement | None:
        """Start the gang where it may stay; or, if it yields, in reserved capacity until the reservation begins."""
        if placement := self._start_in(self._capacity_views.of(gang), gang, shape):
            return placement
        backfill_view = self._capacity_views.backfill_view(gang)
        return self._start_in(backfill_view, gang, shape) if backfill_view is not None else None

    def _start_in(self, capacity_view: CapacityView, gang: PendingGang, shape: object) -> GangPlacement | None:
        if self._missed and (shape, capacity_view.key) in self._missed:
            return None
        allowance = self._limits.allowance(gang)
        placement = place(gang, capacity_view.capacity, capacity_view.feasibility, self._seed, allowance)
        if placement is None:
            self._missed[shape, capacity_view.key] = None
            if capacity_view.capacity is self._capacity_views.unreserved.capacity:
                self._missed[shape, self._capacity_views.unreserved.key] = None
            return None
        if capacity_view.until_ms:
            placement = replace(placement, until_ms=capacity_view.until_ms)
        self._decisions.start(gang, placement, capacity_view)
        return placement

    def may_start(self, gang: PendingGang, shape: object) -> bool:
        """Return False if one of this shape found no place though nothing was reserved."""
        return (shape, self._capacity_views.unreserved.key) not in self._missed

    def placement(self, gang: PendingGang) -> GangPlacement | None:
        """Return where the gang could start now, and stay, or None; nothing is taken."""
        if self._limits.why_not(gang):
            return None
        capacity_view = self._capacity_views.of(gang)
        return self._tried(gang, capacity_view) if capacity_view.capacity.may_hold(gang) else None

    def fits_unreserved(self, gang: PendingGang) -> bool:
        """Return whether the gang could start now if no capacity were reserved."""
        return self._tried(gang, self._capacity_views.unreserved) is not None

    def _tried(self, gang: PendingGang, capacity_view: CapacityView) -> GangPlacement | None:
        capacity = capacity_view.capacity.copy()
        feasibility = capacity_view.feasibility.with_capacity(capacity)
        return place(gang, capacity, feasibility, self._seed, self._limits.allowance(gang))
