"""The room of now, as each gang may use it: without what is claimed before it would end, and what is closed to it.

Rule: all rooms are kept in step, so what one gang takes is gone for every other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gosched.core.commands.plans import GangPlacement
from gosched.core.cpulist import parse_cpulist
from gosched.scheduling.backfill.reserved_starts import MIN_LOAN_MS, ReservedStarts
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.placement.free_devices import Slot
from gosched.scheduling.snapshot.capacity_rows import Freed, Rows
from gosched.scheduling.snapshot.running_gangs import NEVER_MS
from gosched.scheduling.snapshot.task_requests import PendingGang, TaskRequest
from gosched.scheduling.snapshot.view import IntArray, NodeColumns

Key = tuple[tuple[str, ...], tuple[int, ...]]  # whose claims count, which windows do

OPEN: Key = ((), ())


@dataclass(slots=True)
class CapacityView:
    """`key` names what it is without; gangs of one shape and key miss for the same reason. `until_ms`: what starts here
    has to be gone then; 0: never."""

    key: object
    capacity: FreeCapacity
    feasibility: Feasibility
    until_ms: int = 0


@dataclass(frozen=True, slots=True)
class Base:
    """A room to plan evictions in. Whoever goes: nothing is free on the rows that are `closed`, and no more than in
    `limits` on theirs."""

    capacity: FreeCapacity
    closed: IntArray
    limits: Sequence[Rows] = ()

    def after(self, freed: Freed) -> FreeCapacity:
        """As it will be once that has come free."""
        capacity = self.capacity.copy()
        capacity.grow(freed)
        self.shut(capacity)
        return capacity

    def shut(self, capacity: FreeCapacity) -> None:
        for limit in self.limits:
            rows = capacity.rows(limit.rows)
            rows.limit_to(limit)
            capacity.put(rows)
        if self.closed.size:
            rows = capacity.rows(self.closed)
            rows.close(self.closed)
            capacity.put(rows)


class CapacityViews:
    def __init__(
        self, plain: FreeCapacity, feasibility: Feasibility, reserved_starts: ReservedStarts, now_ms: int
    ) -> None:
        self.plain = plain
        self._reserved_starts = reserved_starts
        self._now_ms = now_ms
        self._grounds: dict[Key, CapacityView] = {OPEN: CapacityView(OPEN, plain, feasibility)}
        self._begins: dict[Key, int] = {}  # the first moment of what counts; 0: there is none

    def of(self, gang: PendingGang) -> CapacityView:
        """Where the gang may start for as long as it wants to run."""
        reserved_starts = self._reserved_starts
        if not reserved_starts.all and not reserved_starts.windows:
            return self._grounds[OPEN]
        return self._ground(self._key(gang, *self._ends(gang)))

    def reach(self, gang: PendingGang) -> object:
        """Gangs of one queue, tenant and priority with the same reach have to respect the same."""
        reserved_starts = self._reserved_starts
        if not reserved_starts.all and not reserved_starts.windows:
            return 0
        beside_claims, beside_windows = self._ends(gang)
        windows = reserved_starts.windows_of(gang, self._now_ms, beside_windows) if reserved_starts.windows else ()
        return reserved_starts.before(beside_claims), windows

    def loan(self, gang: PendingGang) -> CapacityView | None:
        """Where a gang that yields may start if it is gone when the first claim or window begins; None: that would be
        too soon, or there is nothing to gain."""
        reserved_starts = self._reserved_starts
        if (
            not gang.is_preemptible
            or gang.joins
            or not (reserved_starts.all or reserved_starts.windows)
            or reserved_starts.gave_way_to(gang.job_id)
        ):
            return None
        key = self._key(gang, NEVER_MS, NEVER_MS)
        until = self._begins.get(key)
        if until is None:
            jobs, windows = key
            starts = [reserved.start_ms for reserved in reserved_starts.all if reserved.gang.job_id in jobs]
            starts += [reserved_starts.windows[index].start_ms for index in windows]
            until = self._begins[key] = min([start for start in starts if start > self._now_ms], default=0)
        if until - self._now_ms < max(MIN_LOAN_MS, 2 * gang.grace_ms):
            return None
        now = self._ground(self._key(gang, self._now_ms + 1, self._now_ms + 1))
        return CapacityView(("loan", now.key), now.capacity, now.feasibility, until)

    def untouched(self, gang: PendingGang, wait_ms: int) -> Base:
        """The room of now without the nodes of claims and windows that the gang has to respect if it starts after that
        while."""
        beside_claims, beside_windows = self._ends(gang)
        jobs, windows = self._key(gang, beside_claims + wait_ms, beside_windows + wait_ms)
        return self._base([*[rows.rows for rows in self._reserved_starts.rows_of(jobs)], *self._closed(windows)], ())

    def beside(self, gang: PendingGang) -> Base:
        """The room of now with what claims leave of their nodes. For victims that every claim expects to have gone."""
        jobs, windows = self._key(gang, *self._ends(gang))
        return self._base(self._closed(windows), self._reserved_starts.rows_of(jobs))

    def _closed(self, windows: Sequence[int]) -> list[IntArray]:
        return [self._reserved_starts.closed[index] for index in windows]

    def _base(self, closed: list[IntArray], limits: Sequence[Rows]) -> Base:
        rows = np.unique(np.concatenate(closed)) if closed else np.zeros(0, dtype=np.int64)
        base = Base(self.plain.copy(), rows, limits)
        base.shut(base.capacity)
        return base

    def took(self, gang: PendingGang, placement: GangPlacement, capacity_view: CapacityView) -> None:
        """What was placed in the ground's room is gone in all others too."""
        if len(self._grounds) == 1 and capacity_view.capacity is self.plain:
            return
        seats = seats_of(gang, placement, self.plain.nodes)
        if capacity_view.capacity is not self.plain:
            for request, own in seats:
                self.plain.occupy(request, own)
        self.refresh(np.unique([slot.row for _, own in seats for slot in own]))

    def refresh(self, rows: IntArray) -> None:
        """These rows have changed in the plain room, or in the claims."""
        for key, capacity_view in self._grounds.items():
            if capacity_view.capacity is not self.plain:
                capacity_view.capacity.put(self._restricted(key, rows))

    def renew(self) -> None:
        """The claims are others now."""
        self._grounds = {OPEN: self._grounds[OPEN]}
        self._begins.clear()

    def _ends(self, gang: PendingGang) -> tuple[int, int]:
        """Until when it has to fit beside claims, and beside windows: as long as it is promised to run. Beside claims,
        once its own start has come, as long as that was reserved for, though it be an estimate."""
        promised = self._now_ms + gang.span_ms if gang.is_bounded else NEVER_MS
        if gang.span_ms and gang.job_id in self._reserved_starts.due:
            return self._now_ms + gang.span_ms, promised
        return promised, promised

    def _key(self, gang: PendingGang, end_ms: int, windows_end_ms: int) -> Key:
        reserved_starts = self._reserved_starts
        return reserved_starts.binding(gang, end_ms), reserved_starts.windows_of(gang, self._now_ms, windows_end_ms)

    def _ground(self, key: Key) -> CapacityView:
        found = self._grounds.get(key)
        if found is None:
            capacity = self.plain.copy()
            jobs, windows = key
            touched = [rows.rows for rows in self._reserved_starts.rows_of(jobs)]
            touched += [self._reserved_starts.closed[index] for index in windows]
            if touched:
                capacity.put(self._restricted(key, np.unique(np.concatenate(touched))))
            found = self._grounds[key] = CapacityView(
                key, capacity, self._grounds[OPEN].feasibility.with_capacity(capacity)
            )
        return found

    def _restricted(self, key: Key, rows: IntArray) -> Rows:
        jobs, windows = key
        found = self.plain.rows(rows)
        for claimed in self._reserved_starts.rows_of(jobs):
            found.limit_to(claimed)
        for index in windows:
            found.close(self._reserved_starts.closed[index])
        return found


def seats_of(gang: PendingGang, placement: GangPlacement, nodes: NodeColumns) -> list[tuple[TaskRequest, list[Slot]]]:
    """By group."""
    by_rank = {task.rank: task for task in placement.tasks}
    found: list[tuple[TaskRequest, list[Slot]]] = []
    for request in gang.requests:
        own = [by_rank[rank] for rank in request.ranks if rank in by_rank]
        if own:
            found.append((request, [Slot(nodes.row(t.node_id), t.gpus, parse_cpulist(t.cpus)) for t in own]))
    return found
