"""The capacity of now as each gang may use it: without what is reserved before the gang would end, and without the
nodes of windows that do not admit it.

Invariant: all views are kept in step, so what one gang takes is taken in every view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gosched.core.commands.plans import GangPlacement
from gosched.scheduling.backfill.reserved_starts import MIN_BACKFILL_MS, ReservedStarts
from gosched.scheduling.backfill.start_lines import slots_of
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.snapshot.capacity_rows import Freed, Rows
from gosched.scheduling.snapshot.running_gangs import NEVER_MS
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import IntArray

Key = tuple[tuple[str, ...], tuple[int, ...]]  # the jobs whose reservations count, and the windows that do

OPEN: Key = ((), ())


@dataclass(slots=True)
class CapacityView:
    """The capacity that gangs with equal obligations may use."""

    #: What it is without. Gangs of one shape do not fit in views of one key for the same reason.
    key: object
    capacity: FreeCapacity
    feasibility: Feasibility
    #: When that which starts here has to have ended; 0: never.
    until_ms: int = 0


@dataclass(frozen=True, slots=True)
class RestrictedCapacity:
    """Capacity to plan evictions in: whatever is released, some of it stays out of reach."""

    capacity: FreeCapacity
    #: Rows of nodes on which nothing is free.
    closed: IntArray
    #: Upper bounds of what is free, for the rows that they name.
    limits: Sequence[Rows] = ()

    def after(self, freed: Freed) -> FreeCapacity:
        """Return the capacity as it will be once that is released."""
        capacity = self.capacity.copy()
        capacity.grow(freed)
        self.restrict(capacity)
        return capacity

    def restrict(self, capacity: FreeCapacity) -> None:
        """Take what is out of reach from the capacity."""
        for limit in self.limits:
            rows = capacity.rows(limit.rows)
            rows.limit_to(limit)
            capacity.put(rows)
        if self.closed.size:
            rows = capacity.rows(self.closed)
            rows.close(self.closed)
            capacity.put(rows)


class CapacityViews:
    """The views of one cycle, each made when the first gang needs it."""

    def __init__(
        self, plain: FreeCapacity, feasibility: Feasibility, reserved_starts: ReservedStarts, now_ms: int
    ) -> None:
        self.plain = plain
        self._reserved_starts = reserved_starts
        self._now_ms = now_ms
        self._views: dict[Key, CapacityView] = {OPEN: CapacityView(OPEN, plain, feasibility)}

    @property
    def unreserved(self) -> CapacityView:
        """All that is free now, as if nothing were reserved and no window made."""
        return self._views[OPEN]

    def of(self, gang: PendingGang) -> CapacityView:
        """Return the view in which the gang may start for as long as it wants to run."""
        reserved_starts = self._reserved_starts
        if not reserved_starts.all and not reserved_starts.windows:
            return self._views[OPEN]
        return self._view(self._key(gang, *self._ends(gang)))

    def horizon(self, gang: PendingGang) -> object:
        """Return what tells gangs of one queue, tenant and priority apart that respect different reservations."""
        reserved_starts = self._reserved_starts
        if not reserved_starts.all and not reserved_starts.windows:
            return 0
        ends = [self._ends(gang)]
        if self._yields(gang):
            ends.append((self._yields_from_ms(gang),) * 2)
        return tuple(
            [
                (reserved_starts.count_before(end_ms), reserved_starts.windows_of(gang, self._now_ms, windows_end_ms))
                for end_ms, windows_end_ms in ends
            ]
        )

    def backfill_view(self, gang: PendingGang) -> CapacityView | None:
        """Return the view in which a gang that loses little by an eviction may start until the first reserved start or
        window that is not too near; None: there is none, or the gang is no such gang."""
        reserved_starts = self._reserved_starts
        if not (reserved_starts.all or reserved_starts.windows) or not self._yields(gang):
            return None
        end_ms = self._yields_from_ms(gang)
        windows = reserved_starts.windows_of(gang, self._now_ms, NEVER_MS)
        begins = {
            index: reserved_starts.windows[index].start_ms for index in windows if not reserved_starts.is_kept(index)
        }
        later = [moment for moment in begins.values() if moment >= end_ms]
        if start := reserved_starts.first_after(end_ms - 1, gang):
            later.append(start)
        if not later:
            return None
        until_ms = min(later)
        closed = tuple([index for index in windows if begins.get(index, 0) < end_ms])
        view = self._view((reserved_starts.binding(gang, end_ms), closed))
        return CapacityView(("backfill", view.key), view.capacity, view.feasibility, until_ms)

    def _yields(self, gang: PendingGang) -> bool:
        """Return whether the gang may start where a reserved start would evict it."""
        is_willing = gang.is_preemptible and gang.is_cheap and not gang.joins
        return is_willing and not self._reserved_starts.is_evictor(gang.job_id)

    def _yields_from_ms(self, gang: PendingGang) -> int:
        """Return until when a gang that starts now should run at least."""
        return self._now_ms + max(MIN_BACKFILL_MS, 2 * gang.grace_ms)

    def avoiding_reserved_nodes(self, gang: PendingGang, wait_ms: int) -> RestrictedCapacity:
        """Return the capacity of now without the nodes of reservations and windows that the gang has to respect if it
        starts `wait_ms` from now."""
        reservations_end_ms, windows_end_ms = self._ends(gang)
        jobs, windows = self._key(gang, reservations_end_ms + wait_ms, windows_end_ms + wait_ms)
        return self._base([self._reserved_starts.least_of(jobs).rows, *self._closed(windows)], ())

    def beside_reservations(self, gang: PendingGang) -> RestrictedCapacity:
        """Return the capacity of now with what reservations leave of their nodes: for victims that have to end before
        any of them."""
        jobs, windows = self._key(gang, *self._ends(gang))
        return self._base(self._closed(windows), (self._reserved_starts.least_of(jobs),))

    def _closed(self, windows: Sequence[int]) -> list[IntArray]:
        return [self._reserved_starts.window_rows[index] for index in windows]

    def _base(self, closed: list[IntArray], limits: Sequence[Rows]) -> RestrictedCapacity:
        rows = np.unique(np.concatenate(closed)) if closed else np.zeros(0, dtype=np.int64)
        base = RestrictedCapacity(self.plain.copy(), rows, limits)
        base.restrict(base.capacity)
        return base

    def record_start(self, gang: PendingGang, placement: GangPlacement, capacity_view: CapacityView) -> None:
        """Take what was placed in one view from all others, too."""
        if len(self._views) == 1 and capacity_view.capacity is self.plain:
            return
        slots = slots_of(gang, placement, self.plain.nodes)
        if capacity_view.capacity is not self.plain:
            for request, own in slots:
                self.plain.occupy(request, own)
        self.refresh(np.unique([slot.row for _, own in slots for slot in own]))

    def refresh(self, rows: IntArray) -> None:
        """Make these rows anew: they changed in the plain capacity, or in the reservations."""
        for key, capacity_view in self._views.items():
            if capacity_view.capacity is not self.plain:
                jobs, windows = key
                limits = self._reserved_starts.least_of(jobs, rows)
                capacity_view.capacity.put(self._restricted(rows, limits, windows))

    def invalidate(self) -> None:
        """Forget the views: the reservations changed."""
        self._views = {OPEN: self._views[OPEN]}

    def _ends(self, gang: PendingGang) -> tuple[int, int]:
        """Return until when the gang has to fit beside reservations, and beside windows: until its time limit. Beside
        reservations, once its own start is due, until its reservation ends, even if that is an estimate."""
        limit_ms = self._now_ms + gang.span_ms if gang.is_bounded else NEVER_MS
        if gang.span_ms and self._reserved_starts.is_due(gang.job_id):
            return self._now_ms + gang.span_ms, limit_ms
        return limit_ms, limit_ms

    def _key(self, gang: PendingGang, end_ms: int, windows_end_ms: int) -> Key:
        reserved_starts = self._reserved_starts
        return reserved_starts.binding(gang, end_ms), reserved_starts.windows_of(gang, self._now_ms, windows_end_ms)

    def _view(self, key: Key) -> CapacityView:
        found = self._views.get(key)
        if found is None:
            capacity = self.plain.copy()
            jobs, windows = key
            limits = self._reserved_starts.least_of(jobs)
            rows = np.unique(np.concatenate([limits.rows, *self._closed(windows)]))
            if rows.size:
                capacity.put(self._restricted(rows, limits, windows))
            found = self._views[key] = CapacityView(
                key, capacity, self._views[OPEN].feasibility.with_capacity(capacity)
            )
        return found

    def _restricted(self, rows: IntArray, limits: Rows, windows: Sequence[int]) -> Rows:
        found = self.plain.rows(rows)
        found.limit_to(limits)
        for closed in self._closed(windows):
            found.close(closed)
        return found
