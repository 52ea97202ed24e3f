"""What is reserved of later capacity: starts of gangs, and windows that operators made.

Invariant: a gang that starts now takes nothing that a reserved start needs, unless it ends before that start, or is
evicted for it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice

import numpy as np

from gosched.core.commands.plans import GangPlacement
from gosched.core.preemption_rules import admits
from gosched.core.records.reservation import Reservation, Share
from gosched.core.records.window import Window
from gosched.scheduling.backfill.device_choices import Piece
from gosched.scheduling.backfill.release_profile import ReleaseProfile
from gosched.scheduling.backfill.start_lines import StartLines, slots_of
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.placement.free_devices import Slot
from gosched.scheduling.placement.transaction import Transaction
from gosched.scheduling.snapshot.capacity_rows import Freed, Rows
from gosched.scheduling.snapshot.columns import DEVICES
from gosched.scheduling.snapshot.devices import device_columns
from gosched.scheduling.snapshot.running_gangs import NEVER_MS
from gosched.scheduling.snapshot.task_requests import PendingGang, TaskRequest
from gosched.scheduling.snapshot.view import IntArray, NodeColumns

MIN_BACKFILL_MS = 60_000  # a gang is not started in reserved capacity for less


@dataclass(slots=True, eq=False)
class ReservedStart:
    """A gang that waits, and its reservation."""

    gang: PendingGang
    reservation: Reservation
    #: Tells it apart from others of the cycle; 0 until it is added.
    number: int = 0

    @property
    def start_ms(self) -> int:
        return self.reservation.start_ms

    @property
    def end_ms(self) -> int:
        return self.reservation.end_ms or NEVER_MS

    @property
    def age(self) -> tuple[int, int]:
        """Return what orders reservations; the older is the lower."""
        return self.reservation.made_at_ms, self.gang.sequence

    @property
    def place(self) -> tuple[int, int]:
        """Return what orders starts; the earlier is the lower."""
        return self.reservation.start_ms, self.gang.sequence


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
        #: The job that the nodes of a window are kept for, and who else may start there, by index.
        self._kept_for: dict[int, tuple[str, Callable[[PendingGang], bool]]] = {}
        #: Grows when later capacity may have become more.
        self.gains = 0
        #: Grows when capacity at later moments, or what is reserved of it, changes.
        self.version = 0
        self._nodes = nodes
        self._release_profile = release_profile
        self._plain = plain
        self._now_ms = now_ms
        self._added = 0
        #: Gangs whose start has come, by job: they fit beside others until the end of their reservations.
        self._due: dict[str, ReservedStart] = {}
        #: Those of them that respect older reservations only.
        self._before_younger: dict[str, ReservedStart] = {}
        self._numbers: dict[str, int] = {}  # of the starts, by job
        self._ids: tuple[str, ...] | None = None  # of the jobs, in order
        self._lowest: dict[str, int] = {}  # the lowest priority that was seen in each queue and may be evicted
        self._evictors: Counter[str] = Counter()  # for which gangs with reserved starts were evicted
        self._first: dict[tuple[int, str, int, bool, str], int] = {}
        self._binding: dict[tuple[int, str, int, bool, str], tuple[str, ...]] = {}
        self._lines = StartLines(nodes)
        self._fresh = True
        self._short: dict[int, None] = {}  # numbers of starts that do not fit; they have no lines
        self._negative: dict[int, None] | None = {}  # those that others took too much of; None: not known

    def add_all(self, reserved_starts: Iterable[ReservedStart]) -> None:
        for reserved in reserved_starts:
            self._enter(reserved)
            self.all.append(reserved)
        self.all.sort(key=lambda reserved: reserved.place)
        self._fresh = not self.all
        self._changed()

    def add(self, reserved: ReservedStart) -> None:
        self._enter(reserved)
        insort(self.all, reserved, key=lambda other: other.place)
        if self._fresh:
            self._add_lines(reserved)
        self._changed()

    def remove(self, reserved: ReservedStart) -> None:
        del self.all[self._index(reserved)]
        del self._numbers[reserved.gang.job_id]
        self.gains += 1
        self._evictors.subtract(reserved.gang.evicted_for)
        if reserved.number in self._short:
            del self._short[reserved.number]
        elif self._fresh:
            self._lines.remove(reserved.number)
            self._fresh = not self._short  # those may fit now
        self._changed()

    def __contains__(self, reserved: ReservedStart) -> bool:
        return self._numbers.get(reserved.gang.job_id, 0) == reserved.number != 0

    def _enter(self, reserved: ReservedStart) -> None:
        self._added += 1
        reserved.number = self._numbers[reserved.gang.job_id] = self._added
        gang = reserved.gang
        self._evictors.update(gang.evicted_for)
        if gang.is_preemptible:
            self._lowest[gang.queue] = min(self._lowest.get(gang.queue, gang.priority), gang.priority)

    def _index(self, reserved: ReservedStart) -> int:
        index = bisect_left(self.all, reserved.place, key=lambda other: other.place)
        while self.all[index] is not reserved:
            index += 1
        return index

    def _changed(self) -> None:
        self.version += 1
        self._ids = None
        self._binding.clear()
        self._first.clear()
        self._negative = None

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
        return reserved.number not in self._broken() and reserved.number not in self._short

    def all_hold(self) -> bool:
        return not self._broken() and not self._short

    def _broken(self) -> dict[int, None]:
        """Return the starts that others took too much of."""
        lines = self.lines()
        if self._negative is None:
            self._negative = dict.fromkeys(lines.negative())
        return self._negative

    def lines(self) -> StartLines:
        """Return what the reserved starts take and leave on their nodes."""
        if not self._fresh:
            pieces, unknown = self._pieces()
            short = self._lines.compute(pieces, self._plain, self._release_profile.releases())
            self._short = {**unknown, **short}
            self._fresh, self._negative = True, None
        return self._lines

    def binding(self, gang: PendingGang, before_ms: int) -> tuple[str, ...]:
        """Return the jobs whose reserved starts before then the gang has to respect: not those of gangs that it might
        evict if they ran, unless they were reserved for a deadline; and older ones only, if it is so marked."""
        own = self._before_younger.get(gang.job_id)
        number = self.count_before(before_ms)
        key = (number, gang.queue, gang.priority, gang.may_evict, gang.job_id if own else "")
        found = self._binding.get(key)
        if found is None:
            if own is None and not self.may_outrank(gang):
                found = self._job_ids()[:number]
            else:
                first = [reserved for reserved in self.all[:number] if own is None or reserved.age < own.age]
                found = tuple([c.gang.job_id for c in first if not _outranks(gang, c)])
            self._binding[key] = found
        return found

    def may_outrank(self, gang: PendingGang) -> bool:
        """Return whether there may be reserved starts that the gang need not respect. False is certain."""
        return gang.may_evict and gang.priority > self._lowest.get(gang.queue, gang.priority)

    def _job_ids(self) -> tuple[str, ...]:
        if self._ids is None:
            self._ids = tuple([reserved.gang.job_id for reserved in self.all])
        return self._ids

    def is_evictor(self, job_id: str) -> bool:
        """Return whether a gang with a reserved start was evicted for the job: then the job may not be evicted for that
        gang in turn, and must not start in reserved capacity."""
        return self._evictors[job_id] > 0

    def count_before(self, moment_ms: int) -> int:
        """Return how many reserved starts are earlier."""
        return bisect_left(self.all, moment_ms, key=lambda reserved: reserved.start_ms)

    def first_after(self, moment_ms: int, gang: PendingGang) -> int:
        """Return the first reserved start after that moment that the gang has to respect; 0: there is none."""
        own = self._before_younger.get(gang.job_id)
        number = self.count_before(moment_ms + 1)
        key = (number, gang.queue, gang.priority, gang.may_evict, gang.job_id if own else "")
        found = self._first.get(key)
        if found is None:
            later = islice(self.all, number, None)
            starts = (r.start_ms for r in later if (own is None or r.age < own.age) and not _outranks(gang, r))
            found = self._first[key] = next(starts, 0)
        return found

    def least_of(self, job_ids: Sequence[str], rows: IntArray | None = None) -> Rows:
        """Return the least that is free at any of these jobs' reserved starts. `rows`: on these alone."""
        lines = self.lines()
        return lines.least(lines.of([self._numbers[job_id] for job_id in job_ids], rows))

    def keep_nodes(
        self, gang: PendingGang, start_ms: int, node_ids: Sequence[str], admits_other: Callable[[PendingGang], bool]
    ) -> None:
        """Keep nodes for the gang like a window: others that would not have ended by then do not start there, but for
        those that are admitted."""
        self._kept_for[len(self.windows)] = (gang.job_id, admits_other)
        self.windows.append(Window(name=gang.name, start_ms=start_ms, nodes=tuple(node_ids)))
        self.window_rows.append(self._nodes.rows(tuple(node_ids)))
        self.version += 1

    def free_nodes(self, job_id: str) -> None:
        """Keep no nodes for the job any more."""
        for index, (kept_for, _) in self._kept_for.items():
            if kept_for == job_id:
                self.windows[index] = replace(self.windows[index], end_ms=self._now_ms)
        self.gains += 1
        self.version += 1

    def windows_of(self, gang: PendingGang, from_ms: int, to_ms: int) -> tuple[int, ...]:
        """Return the indices of windows that do not admit the gang and begin before it would end."""
        found = []
        likely_ms = self._now_ms + gang.likely_ms if gang.likely_ms else to_ms
        for index, window in enumerate(self.windows):
            ends_ms = min(to_ms, likely_ms) if index in self._kept_for else to_ms  # a guess for a guess
            overlaps = window.start_ms < ends_ms and from_ms < (window.end_ms or NEVER_MS)
            if overlaps and not self._admits(index, gang):
                found.append(index)
        return tuple(found)

    def is_kept(self, index: int) -> bool:
        """Return whether the window is nodes that are kept for a gang: nobody is evicted when it begins."""
        return index in self._kept_for

    def _admits(self, index: int, gang: PendingGang) -> bool:
        if index not in self._kept_for:
            return admits(self.windows[index], gang.queue, gang.tenant)
        job_id, admits_other = self._kept_for[index]
        return gang.job_id == job_id or admits_other(gang)

    def is_closed(self, reserved: ReservedStart) -> bool:
        """Return whether a window that does not admit the gang covers one of its nodes then."""
        if not self.windows:
            return False
        found = self.windows_of(reserved.gang, reserved.start_ms, reserved.end_ms)
        nodes = {share.node_id for share in reserved.reservation.shares}
        return any(not nodes.isdisjoint(self.windows[index].nodes) for index in found)

    def nodes_at(self, moment_ms: int, before_ms: int = 0, without: ReservedStart | None = None) -> NodeColumns:
        """Return the nodes at a later moment, less what reserved starts hold then; and, on their nodes, no more than
        is left at reserved starts after it and before another moment. `without`: as if that one were not there."""
        lines, own, plain = self.lines(), without.number if without else 0, self._plain
        plain.settle()
        devices = plain.devices
        free, gpu_free, owned = plain.free.copy(order="F"), devices.gpu_free.copy(), devices.cpus_owned.copy()
        freed, held = self._release_profile.freed(self._now_ms, moment_ms), lines.held_at(moment_ms, own)
        np.add.at(free, freed.rows, freed.amounts)
        np.subtract.at(free, held.rows, held.amounts)
        np.add.at(gpu_free, (freed.gpu_rows, freed.gpus), freed.gpu_millis)
        np.subtract.at(gpu_free, (held.gpu_rows, held.gpus), held.gpu_millis)
        for row, mask in freed.cpus:
            owned[row] &= ~mask
        for row, mask in held.cpus:
            owned[row] |= mask
        least = lines.least(lines.within(moment_ms, before_ms, own), own) if before_ms > moment_ms else None
        if least is not None and least.rows.size:
            rows = least.rows
            free[rows] = np.minimum(free[rows], least.free)
            gpu_free[rows] = np.minimum(gpu_free[rows], least.gpu_free)
            for row, mask in zip(rows.tolist(), least.owned, strict=True):
                owned[row] |= mask
        if gpu_free.shape[1]:
            free[:, DEVICES] = device_columns(gpu_free, self._nodes.gpu_link)
        return self._nodes.with_load(free, gpu_free, owned)

    def record_release(self, freed: Freed, end_ms: int) -> None:
        """Add what is released early, in place of at `end_ms`, to the reserved starts before that moment."""
        self.gains += 1
        if self._fresh:
            self._lines.give(freed, end_ms)
        self._fresh = self._fresh and not self._short
        self.version, self._negative = self.version + 1, None

    def record_start(self, gang: PendingGang, placement: GangPlacement, end_ms: int) -> None:
        """Subtract a gang that starts now and ends at `end_ms` from the reserved starts before that moment."""
        if self._fresh and self.all:
            self._lines.subtract(slots_of(gang, placement, self._nodes), end_ms)
        self.version, self._negative = self.version + 1, None

    def _add_lines(self, reserved: ReservedStart) -> None:
        """Add the lines of one start, if it fits beside the others; else all lines are made anew."""
        start, end = self._times(reserved)
        within = FreeCapacity(self.nodes_at(start, end))
        taken = None if self._short else take_shares(within, reserved.gang, reserved.reservation.shares)
        if taken is None:
            self._fresh = False
        else:
            self._lines.add(reserved.number, start, end, taken, self.nodes_at(start))

    def _times(self, reserved: ReservedStart) -> tuple[int, int]:
        """Return when it starts, now at the earliest, and ends, later than that."""
        start = max(reserved.start_ms, self._now_ms)
        return start, max(reserved.end_ms, start + 1)

    def _pieces(self) -> tuple[list[Piece], dict[int, None]]:
        """Return what the reserved starts ask for, and the numbers of those with nodes that are not there any more."""
        find = cache(self._nodes.find)
        found: list[Piece] = []
        unknown: dict[int, None] = {}
        for reserved in self.all:
            start, end = self._times(reserved)
            requests = {request.group: request for request in reserved.gang.requests}
            shares = [share for share in reserved.reservation.shares if share.group in requests]
            if all(find(share.node_id) >= 0 for share in shares):
                found += [
                    Piece(reserved.number, find(share.node_id), start, end, requests[share.group], share.count)
                    for share in shares
                ]
            else:
                unknown[reserved.number] = None
        return found, unknown


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
