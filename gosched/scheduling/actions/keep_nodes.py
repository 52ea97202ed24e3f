"""Keeps nodes for gangs that have waited long, where nobody knows when they could start: a standing reservation.

What has no known end, or one that is too late, does not start there any more; what runs there drains by itself, and
short jobs fill the gap. The start is a guess: what runs there runs for as long again as it has run.

Invariant: the nodes stay the same until the gang starts, unless it could not start there, the guess was wrong and other
nodes would be free sooner, or a start comes in sight, which is then reserved as ever. Nothing is evicted for a guess,
and no nodes are kept for longer than MAX_GUESS_MS ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gosched.core.records.reservation import Reservation
from gosched.core.records.window import Window
from gosched.scheduling.actions.reserve import Reserver, reservation_of
from gosched.scheduling.actions.starter import Starter
from gosched.scheduling.backfill.capacity_views import CapacityViews
from gosched.scheduling.backfill.earliest_start import EarliestStart, Start
from gosched.scheduling.backfill.release_profile import ReleaseProfile
from gosched.scheduling.backfill.reserved_starts import ReservedStart, ReservedStarts
from gosched.scheduling.fairness.queue_limits import QueueLimits
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.plan import Plan
from gosched.scheduling.policy import Policy
from gosched.scheduling.preemption.eviction_rules import EvictionBudget
from gosched.scheduling.snapshot.occupancy import Occupants
from gosched.scheduling.snapshot.running_gangs import NEVER_MS
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import View
from gosched.scheduling.suspects import Kind, Stumble, Suspect

MAX_STANDING = 1  # with more, what is kept free costs others more than the gangs gain (docs/guides/scheduling.md)
MAX_GUESS_MS = 24 * 3_600_000
_MIN_GUESS_MS = 60_000


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
        budget: EvictionBudget,
        reserved_starts: ReservedStarts,
        capacity_views: CapacityViews,
        earliest_start: EarliestStart,
        reserver: Reserver,
        starter: Starter,
        shape_of: Callable[[PendingGang], object],
        stumble: Stumble,
    ) -> None:
        self._view = view
        self._max_wait_ms = policy.max_wait_ms
        self._plan = plan
        self._now_ms = plan.planned_at_ms
        self._plain = plain
        self._occupants = occupants
        self._feasibility = feasibility
        self._limits = limits
        self._budget = budget
        self._reserved_starts = reserved_starts
        self._capacity_views = capacity_views
        self._earliest_start = earliest_start
        self._reserver = reserver
        self._starter = starter
        self._shape_of = shape_of
        self._stumble = stumble
        self._count = 0

    def hold(self, standing: Sequence[ReservedStart]) -> None:
        """Keep the nodes of these reservations from others."""
        for reserved in standing:
            self._close(reserved)

    def keep(self, standing: Sequence[ReservedStart]) -> dict[str, ReservedStart | None]:
        """Return what becomes of these reservations, by job: a gang that can starts (None); others keep their nodes, or
        get other ones, or a start that is in sight. A gang that gets nothing waits like any other. Their nodes are held
        already."""
        found: dict[str, ReservedStart | None] = {}
        for reserved in standing:
            gang = reserved.gang
            try:
                if self._limits.why_not(gang) or gang.not_before_ms > self._now_ms:
                    self._give_up(gang)
                elif self._starter.start(gang, self._shape_of(gang)):
                    found[gang.job_id] = None
                    self._open(gang)
                elif kept := self._kept(reserved):
                    found[gang.job_id] = kept
                else:
                    self._give_up(gang)
            except Exception as error:
                self._stumble(Suspect(Kind.RESERVATION, gang.job_id), error)
        return found

    def reserve(self, gang: PendingGang) -> Reservation | None:
        """Choose nodes for a gang that has waited long enough; None: it has not, or they would not be free in time."""
        due_ms = gang.waits_since_ms + self._max_wait_ms
        if due_ms > self._now_ms:
            self._plan.wake_at(due_ms)
            return None
        if not self._view.may_keep_nodes or self._count >= MAX_STANDING:
            return None
        start = self._first_free(gang)
        return self._made(gang, start).reservation if start is not None else None

    def _kept(self, reserved: ReservedStart) -> ReservedStart | None:
        """Return the reservation with the guess of now, or another one; None: there is none any more."""
        gang, old = reserved.gang, reserved.reservation
        by_ms = max(old.start_ms, self._now_ms + _MIN_GUESS_MS) + 1
        allowance = self._limits.allowance(gang)
        in_sight = self._earliest_start.find(gang, self._plan.seed, allowance, before_ms=by_ms)
        if in_sight is not None:
            self._open(gang)
            self._reserver.made += 1
            return self._reserver.reserve(gang, in_sight)
        free_ms = self._free_ms(reserved)
        is_due = old.start_ms <= self._now_ms
        if is_due and free_ms <= self._now_ms:
            free_ms = NEVER_MS  # it could not start there
        if is_due or free_ms == NEVER_MS:
            start = self._first_free(gang, without=_nodes_of(reserved) if free_ms == NEVER_MS else ())
            if start is not None and start.at_ms < free_ms:
                self._open(gang)
                return self._made(gang, start)
        if free_ms > self._now_ms + MAX_GUESS_MS:
            return None
        guess_ms = max(free_ms, self._now_ms + _MIN_GUESS_MS)
        if is_due or guess_ms < old.start_ms:
            moved = replace(old, start_ms=guess_ms, end_ms=guess_ms + gang.span_ms if gang.span_ms else 0)
            reserved = self._noted(ReservedStart(gang, moved))
            self._reserved_starts.free_nodes(gang.job_id)
            self._close(reserved)
        self._count += 1
        self._plan.wake_at(reserved.start_ms)
        return reserved

    def _free_ms(self, reserved: ReservedStart) -> int:
        """Return when nothing will run on its nodes any more, by guesses; NEVER_MS: a node is lost, or closed."""
        node_ids = _nodes_of(reserved)
        rows = self._view.nodes.rows(tuple(node_ids))
        if len(rows) < len(node_ids) or not self._view.nodes.ready[rows].all():
            return NEVER_MS
        if any(not set(window.nodes).isdisjoint(node_ids) for window in self._view.windows):
            return NEVER_MS
        held = self._occupants()
        there = np.unique(held.gang[np.isin(held.row, rows)]).tolist()
        return max([held.gangs[number].guessed_ends_ms(self._now_ms) for number in there], default=self._now_ms)

    def _first_free(self, gang: PendingGang, without: Sequence[str] = ()) -> Start | None:
        """Return when and where the gang would first fit, by guesses, on nodes that are kept or reserved for no other,
        and on none of `without`; None: nowhere within MAX_GUESS_MS."""
        changed = {reservation.job_id for reservation in self._plan.reservations}
        others = [r for r in self._view.reservations.values() if r.job_id not in changed] + self._plan.reservations
        taken = dict.fromkeys([share.node_id for r in others if r.job_id != gang.job_id for share in r.shares])
        closed = sorted({**taken, **dict.fromkeys(without)})
        windows = list(self._view.windows)
        if closed:
            windows.append(Window(name="", start_ms=self._now_ms, nodes=tuple(closed)))
        profile = ReleaseProfile(self._view, self._now_ms, self._occupants, guesses=True)
        starts = ReservedStarts(self._view.nodes, windows, profile, self._plain, self._now_ms)
        search = EarliestStart(self._plain, self._feasibility, profile, starts, self._now_ms)
        allowance = self._limits.allowance(gang)
        return search.find(gang, self._plan.seed, allowance, before_ms=self._now_ms + MAX_GUESS_MS)

    def _made(self, gang: PendingGang, start: Start) -> ReservedStart:
        made = reservation_of(gang, start, self._now_ms, standing=True)
        reserved = self._noted(ReservedStart(gang, made))
        self._close(reserved)
        self._count += 1
        return reserved

    def _noted(self, reserved: ReservedStart) -> ReservedStart:
        self._plan.reserve(reserved.reservation)
        self._plan.wake_at(reserved.start_ms)
        return reserved

    def _close(self, reserved: ReservedStart) -> None:
        gang, goes_before = reserved.gang, partial(_goes_before, self._budget, reserved.gang)
        self._reserved_starts.keep_nodes(gang, reserved.start_ms, _nodes_of(reserved), goes_before)
        self._capacity_views.invalidate()

    def _open(self, gang: PendingGang) -> None:
        self._reserved_starts.free_nodes(gang.job_id)
        self._capacity_views.invalidate()
        self._plan.more = True  # others, which were tried already, may start there

    def _give_up(self, gang: PendingGang) -> None:
        self._open(gang)
        self._plan.withdraw(gang.job_id)


def _goes_before(budget: EvictionBudget, gang: PendingGang, other: PendingGang) -> bool:
    """Return whether the other gang may start on nodes that are kept for the gang: it might evict it if it ran."""
    if other.queue == gang.queue:
        return other.priority > gang.priority
    return budget.is_owed(other, gang)


def _nodes_of(reserved: ReservedStart) -> list[str]:
    return sorted(dict.fromkeys([share.node_id for share in reserved.reservation.shares]))
