"""What is reserved of later capacity: starts of gangs, and windows that operators made.

Invariant: a gang that starts now takes nothing that a reserved start needs, unless it ends before that start, or is
evicted for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gosched.core.commands.plans import GangPlacement
from gosched.core.cpulist import parse_cpulist
from gosched.core.preemption_rules import admits
from gosched.core.records.reservation import Reservation, Share
from gosched.core.records.window import Window
from gosched.core.resources import MILLI
from gosched.scheduling.backfill.release_profile import ReleaseProfile
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.placement.free_devices import Slot
from gosched.scheduling.placement.transaction import Transaction
from gosched.scheduling.snapshot.capacity_rows import Freed, Rows
from gosched.scheduling.snapshot.columns import AMOUNTS, Column
from gosched.scheduling.snapshot.running_gangs import NEVER_MS
from gosched.scheduling.snapshot.task_requests import PendingGang, TaskRequest
from gosched.scheduling.snapshot.view import IntArray, NodeColumns

MIN_BACKFILL_MS = 60_000  # a gang is not started in reserved capacity for less


@dataclass(slots=True, eq=False)
class ReservedStart:
    """A gang that waits, and its reservation."""

    gang: PendingGang
    reservation: Reservation
    #: What is free on its nodes at its start, beside all that is reserved then. None: not known, or it does not fit.
    rows: Rows | None = None

    @property
    def start_ms(self) -> int:
        return self.reservation.start_ms

    @property
    def end_ms(self) -> int:
        return self.reservation.end_ms or NEVER_MS

    @property
    def holds(self) -> bool:
        """Return whether the capacity will be there, as far as `rows` tells."""
        return self.rows is not None and not self.rows.is_short

    @property
    def age(self) -> tuple[int, int]:
        """Return what orders reservations; the older is the lower."""
        return self.reservation.made_at_ms, self.gang.sequence


class ReservedStarts:
    """The reserved starts and windows of one cycle, in order of their starts."""

    def __init__(
        self,
        nodes: NodeColumns,
        windows: Sequence[Window],
        release_profile: ReleaseProfile,
        plain: FreeCapacity,
        now_ms: int,
    ) -> None:
        self.all: list[ReservedStart] = []
        self.windows = [window for window in windows if (window.end_ms or NEVER_MS) > now_ms]
        self.window_rows = [nodes.rows(window.nodes) for window in self.windows]
        self._nodes = nodes
        self._release_profile = release_profile
        self._plain = plain
        self._now_ms = now_ms
        #: Gangs whose start has come, by job: they fit beside others until the end of their reservations.
        self._due: dict[str, ReservedStart] = {}
        #: Those of them that respect older reservations only.
        self._before_younger: dict[str, ReservedStart] = {}
        self._starts: list[int] = []
        self._binding: dict[tuple[int, str, int, bool, str], tuple[str, ...]] = {}
        self._fresh = True

    def add(self, reserved: ReservedStart) -> None:
        self.all.append(reserved)
        self.all.sort(key=lambda c: (c.start_ms, c.gang.sequence))
        self._starts = [c.start_ms for c in self.all]
        self._binding.clear()
        self._fresh = False

    def remove(self, reserved: ReservedStart) -> None:
        self.all.remove(reserved)
        self._starts.remove(reserved.start_ms)
        self._binding.clear()
        self._fresh = False

    def mark_due(self, reserved: ReservedStart) -> None:
        """From now on the gang fits beside others until the end of its reservation."""
        self._due[reserved.gang.job_id] = reserved

    def mark_before_younger(self, reserved: ReservedStart) -> None:
        """From now on the gang respects older reservations only."""
        self._before_younger[reserved.gang.job_id] = reserved

    def unmark(self, reserved: ReservedStart) -> None:
        """Treat the gang like any other again."""
        self._due.pop(reserved.gang.job_id, None)
        self._before_younger.pop(reserved.gang.job_id, None)

    def is_due(self, job_id: str) -> bool:
        return job_id in self._due

    def holds(self, reserved: ReservedStart) -> bool:
        """Return whether the capacity will be there, as far as is known."""
        self.with_rows()
        return reserved.holds

    def all_hold(self) -> bool:
        return all(reserved.holds for reserved in self.with_rows())

    def with_rows(self) -> list[ReservedStart]:
        """Return all of them, each with its rows."""
        if not self._fresh:
            self._compute_rows()
        return self.all

    def binding(self, gang: PendingGang, before_ms: int) -> tuple[str, ...]:
        """Return the jobs whose reserved starts before then the gang has to respect: not those of gangs that it might
        evict if they ran, unless they were reserved for a deadline; and older ones only, if it is so marked."""
        own = self._before_younger.get(gang.job_id)
        number = self.count_before(before_ms)
        key = (number, gang.queue, gang.priority, gang.may_evict, gang.job_id if own else "")
        found = self._binding.get(key)
        if found is None:
            first = [reserved for reserved in self.all[:number] if own is None or reserved.age < own.age]
            found = self._binding[key] = tuple([c.gang.job_id for c in first if not _outranks(gang, c)])
        return found

    def is_evictor(self, job_id: str) -> bool:
        """Return whether a gang with a reserved start was evicted for the job: then the job may not be evicted for that
        gang in turn, and must not start in reserved capacity."""
        return any(job_id in reserved.gang.evicted_for for reserved in self.all)

    def count_before(self, moment_ms: int) -> int:
        """Return how many reserved starts are earlier."""
        return bisect_left(self._starts, moment_ms)

    def rows_of(self, job_ids: Iterable[str]) -> list[Rows]:
        """Return what is free on the nodes of these jobs' reserved starts when they come."""
        by_job = {reserved.gang.job_id: reserved.rows for reserved in self.with_rows()}
        return [rows for job_id in job_ids if (rows := by_job[job_id]) is not None]

    def windows_of(self, gang: PendingGang, from_ms: int, to_ms: int) -> tuple[int, ...]:
        """Return the indices of windows that do not admit the gang and begin before it would end."""
        found = []
        for index, window in enumerate(self.windows):
            overlaps = window.start_ms < to_ms and from_ms < (window.end_ms or NEVER_MS)
            if overlaps and not admits(window, gang.queue, gang.tenant):
                found.append(index)
        return tuple(found)

    def is_closed(self, reserved: ReservedStart) -> bool:
        """Return whether a window that does not admit the gang covers one of its nodes then."""
        found = self.windows_of(reserved.gang, reserved.start_ms, reserved.end_ms)
        nodes = {share.node_id for share in reserved.reservation.shares}
        return any(not nodes.isdisjoint(self.windows[index].nodes) for index in found)

    def capacity_at(self, moment_ms: int, without: ReservedStart | None = None) -> FreeCapacity:
        """Return the capacity at a later moment, less what reserved starts, except `without`, hold then."""
        capacity = self._plain.copy()
        capacity.grow(self._release_profile.freed(self._now_ms, moment_ms))
        for reserved in self.all:
            if reserved is not without and reserved.start_ms <= moment_ms < reserved.end_ms:
                take_shares(capacity, reserved.gang, reserved.reservation.shares)
        return capacity

    def record_release(self, freed: Freed, end_ms: int) -> None:
        """Add what is released early, in place of at `end_ms`, to the reserved starts before that moment."""
        for reserved in self.all:
            if reserved.rows is not None and reserved.start_ms < end_ms:
                reserved.rows.add(freed)

    def record_start(self, gang: PendingGang, placement: GangPlacement, end_ms: int) -> None:
        """Subtract a gang that starts now and ends at `end_ms` from the reserved starts before that moment."""
        for reserved in self.all:
            if reserved.rows is not None and reserved.start_ms < end_ms:
                _subtract(reserved.rows, gang, placement, self._nodes)

    def _compute_rows(self) -> None:
        """Set the rows of all reserved starts, in one pass through time from start to start."""
        capacity = self._plain.copy()
        at_ms = self._now_ms
        held: list[tuple[int, PendingGang, list[tuple[TaskRequest, list[Slot]]]]] = []
        for reserved in self.all:
            start = max(reserved.start_ms, self._now_ms)
            capacity.grow(self._release_profile.freed(at_ms, start))
            at_ms = start
            for end, _, slots in held:
                for request, own in slots if end <= start else ():
                    capacity.give(request, own)
            held = [entry for entry in held if entry[0] > start]
            taken = take_shares(capacity, reserved.gang, reserved.reservation.shares)
            if taken is None:
                reserved.rows = None
                continue
            held.append((reserved.end_ms, reserved.gang, taken))
            rows = np.unique([slot.row for _, slots in taken for slot in slots])
            reserved.rows = capacity.rows(rows)
        self._fresh = True


def take_shares(
    capacity: FreeCapacity, gang: PendingGang, shares: Iterable[Share]
) -> list[tuple[TaskRequest, list[Slot]]] | None:
    """Take the shares from the capacity and return their places; None, and nothing is taken, if one does not fit."""
    by_group: dict[str, list[Share]] = {}
    for share in shares:
        by_group.setdefault(share.group, []).append(share)
    transaction = Transaction(capacity)
    taken: list[tuple[TaskRequest, list[Slot]]] = []
    for request in gang.requests:
        own = by_group.get(request.group, [])
        rows = capacity.nodes.rows([share.node_id for share in own])
        counts = np.array([share.count for share in own], dtype=np.int64)
        if len(rows) < len(own) or not _fits(capacity, request, rows, counts):
            transaction.undo()
            return None
        if own:
            taken.append((request, transaction.take(request, rows, counts)))
    return taken


def _fits(capacity: FreeCapacity, request: TaskRequest, rows: IntArray, counts: IntArray) -> bool:
    allowed = np.zeros(len(capacity.nodes), dtype=np.bool_)
    allowed[rows] = capacity.nodes.ready[rows]
    return bool((capacity.slots(request, allowed)[rows] >= counts).all())


def shares_of(gang: PendingGang, placement: GangPlacement) -> tuple[Share, ...]:
    """Return how many tasks of each group the placement has on each node."""
    group_of = {rank: request.group for request in gang.requests for rank in request.ranks}
    counts: dict[tuple[str, str], int] = {}
    for task in placement.tasks:
        key = (group_of[task.rank], task.node_id)
        counts[key] = counts.get(key, 0) + 1
    return tuple([Share(group=group, node_id=node, count=count) for (group, node), count in sorted(counts.items())])


def _outranks(gang: PendingGang, reserved: ReservedStart) -> bool:
    """Return whether the gang might evict the other one if that ran."""
    other = reserved.gang
    return (
        gang.priority > other.priority
        and gang.queue == other.queue
        and gang.may_evict
        and other.is_preemptible
        and not reserved.reservation.for_deadline
    )


def _subtract(rows: Rows, gang: PendingGang, placement: GangPlacement, nodes: NodeColumns) -> None:
    place_of: Mapping[int, int] = {row: i for i, row in enumerate(rows.rows.tolist())}
    request_of = {rank: request for request in gang.requests for rank in request.ranks}
    for task in placement.tasks:
        place = place_of.get(nodes.row(task.node_id))
        if place is None:
            continue
        request = request_of[task.rank]
        rows.free[place, AMOUNTS] -= request.each
        for name, amount in request.custom:
            rows.free[place, nodes.custom[name]] -= amount
        for gpu in task.gpus:
            rows.gpu_free[place, gpu] -= min(request.each[Column.GPU], MILLI)
        if task.cpus:
            rows.owned[place] |= parse_cpulist(task.cpus)
