"""Keeps nodes for gangs that have waited long, where nobody knows when they could start: a standing reservation.

What has no known end, or one that is too late, does not start there any more; what runs there drains by itself, and
short jobs fill the gap. The guessed start is the moment at which what runs there has run twice as long as now.

Invariant: the nodes stay the same until the gang starts, unless they are lost, or the guess was wrong and others would
be free sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gosched.core.records.reservation import Reservation
from gosched.core.records.window import Window
from gosched.scheduling.actions.starter import Starter
from gosched.scheduling.backfill.capacity_views import CapacityViews
from gosched.scheduling.backfill.earliest_start import EarliestStart, Start
from gosched.scheduling.backfill.release_profile import ReleaseProfile
from gosched.scheduling.backfill.reserved_starts import ReservedStart, ReservedStarts, shares_of
from gosched.scheduling.fairness.queue_limits import QueueLimits
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.plan import Plan
from gosched.scheduling.policy import Policy
from gosched.scheduling.snapshot.occupancy import Occupants
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import IntArray, View


class NodeKeeper:
    """The standing reservations of one cycle."""

    def __init__(
        self,
        view: View,
        policy: Policy,
        plan: Plan,
        plain: FreeCapacity,
        occupants: Occupants,
        feasibility: Feasibility,
        limits: QueueLimits,
        reserved_starts: ReservedStarts,
        capacity_views: CapacityViews,
        starter: Starter,
        shape_of: Callable[[PendingGang], object],
    ) -> None:
        self._view = view
        self._max_wait_ms = policy.max_wait_ms
        self._plan = plan
        self._now_ms = plan.planned_at_ms
        self._plain = plain
        self._occupants = occupants
        self._feasibility = feasibility
        self._limits = limits
        self._reserved_starts = reserved_starts
        self._capacity_views = capacity_views
        self._starter = starter
        self._shape_of = shape_of

    def hold(self, standing: list[ReservedStart]) -> None:
        """Keep the nodes of these reservations from others."""
        for reserved in standing:
            self._close(reserved)

    def keep(self, standing: list[ReservedStart]) -> dict[str, ReservedStart | None]:
        """Return what becomes of these reservations: a gang that can starts (None); others keep their nodes, or get
        other ones."""
        found: dict[str, ReservedStart | None] = {}
        for reserved in standing:
            gang = reserved.gang
            is_held_back = self._limits.why_not(gang) is not None or gang.not_before_ms > self._now_ms
            kept = None if is_held_back else self._kept(reserved)
            if kept is None:
                self._plan.withdraw(gang.job_id)
            else:
                found[gang.job_id] = kept
                self._close(kept)
        for job_id, kept in found.items():
            if kept is not None and self._starter.start(kept.gang, self._shape_of(kept.gang)):
                found[job_id] = None
                self._reserved_starts.free_nodes(kept.gang)
                self._capacity_views.invalidate()
        return found

    def reserve(self, gang: PendingGang) -> Reservation | None:
        """Choose nodes for a gang that has waited long enough; None: it has not, or it would fit nowhere."""
        due_ms = gang.waits_since_ms + self._max_wait_ms
        if due_ms > self._now_ms:
            self._plan.wake_at(due_ms)
            return None
        if not self._view.may_keep_nodes:
            return None
        start = self._first_free(gang, "")
        if start is None:
            return None
        made = self._made(gang, start)
        self._close(made)
        return made.reservation

    def _kept(self, reserved: ReservedStart) -> ReservedStart | None:
        """Return the reservation with the guess of now. Other nodes are taken if these are lost; or if these were
        guessed wrong, and others would be free before them."""
        gang, old = reserved.gang, reserved.reservation
        node_ids = [share.node_id for share in old.shares]
        rows = self._view.nodes.rows(node_ids)
        is_there = len(rows) == len(node_ids) and bool(self._view.nodes.ready[rows].all())
        if is_there and old.start_ms > self._now_ms:
            self._plan.wake_at(old.start_ms)
            return reserved
        free_ms = max(self._guessed_free_ms(rows), self._now_ms + 60_000)
        start = self._first_free(gang, gang.job_id)
        if start is not None and (not is_there or start.at_ms < free_ms):
            return self._made(gang, start)
        if not is_there:
            return None
        moved = replace(old, start_ms=free_ms, end_ms=free_ms + gang.span_ms if gang.span_ms else 0)
        return self._noted(ReservedStart(gang, moved))

    def _first_free(self, gang: PendingGang, own: str) -> Start | None:
        """Return when and where the gang would first fit, by guesses, on nodes that are kept or reserved for no other.
        `own`: its job, if it has nodes already."""
        others = [r for r in self._view.reservations.values() if r.job_id != own] + self._plan.reservations
        taken = {share.node_id: None for r in others if r.job_id != own for share in r.shares}
        windows = list(self._view.windows)
        if taken:
            windows.append(Window(name="", start_ms=self._now_ms, nodes=tuple(sorted(taken))))
        profile = ReleaseProfile(self._view, self._now_ms, self._occupants, guesses=True)
        starts = ReservedStarts(self._view.nodes, windows, profile, self._plain, self._now_ms)
        search = EarliestStart(self._plain, self._feasibility, profile, starts, self._now_ms)
        return search.find(gang, self._plan.seed, self._limits.allowance(gang))

    def _guessed_free_ms(self, rows: IntArray) -> int:
        held = self._occupants()
        there = np.unique(held.gang[np.isin(held.row, rows)]).tolist()
        return max([held.gangs[number].guessed_ends_ms(self._now_ms) for number in there], default=self._now_ms)

    def _made(self, gang: PendingGang, start: Start) -> ReservedStart:
        made = Reservation(
            job_id=gang.job_id,
            attempt=gang.attempt,
            start_ms=start.at_ms,
            end_ms=start.at_ms + gang.span_ms if gang.span_ms else 0,
            shares=shares_of(gang, start.placement),
            made_at_ms=self._now_ms,
            standing=True,
        )
        return self._noted(ReservedStart(gang, made))

    def _noted(self, reserved: ReservedStart) -> ReservedStart:
        self._plan.reserve(reserved.reservation)
        self._plan.wake_at(reserved.start_ms)
        return reserved

    def _close(self, reserved: ReservedStart) -> None:
        node_ids = [share.node_id for share in reserved.reservation.shares]
        self._reserved_starts.keep_nodes(reserved.gang, reserved.start_ms, sorted(dict.fromkeys(node_ids)))
        self._capacity_views.invalidate()
