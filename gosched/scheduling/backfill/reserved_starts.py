"""What is promised of the room to come: reserved starts of gangs, and windows that people made.

Rule: a gang that starts now takes nothing that a claim needs at its start, unless it ends before, or has to go then.
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
from gosched.scheduling.backfill.release_profile import Future
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.placement.free_devices import Slot
from gosched.scheduling.placement.transaction import Transaction
from gosched.scheduling.snapshot.capacity_rows import Freed, Rows
from gosched.scheduling.snapshot.columns import AMOUNTS, Column
from gosched.scheduling.snapshot.running_gangs import NEVER_MS
from gosched.scheduling.snapshot.task_requests import PendingGang, TaskRequest
from gosched.scheduling.snapshot.view import IntArray, NodeColumns

MIN_LOAN_MS = 60_000  # a gang is not started on reserved room for less


@dataclass(slots=True, eq=False)
class ReservedStart:
    """A reserved start. `rows`: how its nodes stand at its start, without what the claims then hold; None: not known
    yet."""

    gang: PendingGang
    reservation: Reservation
    rows: Rows | None = None

    @property
    def start_ms(self) -> int:
        return self.reservation.start_ms

    @property
    def end_ms(self) -> int:
        return self.reservation.end_ms or NEVER_MS

    @property
    def holds(self) -> bool:
        """Whether there will be the room, as far as is known."""
        return self.rows is not None and not self.rows.is_short

    @property
    def age(self) -> tuple[int, int]:
        """Lower is older."""
        return self.reservation.made_at_ms, self.gang.sequence


class ReservedStarts:
    """Of one cycle, in order of their starts."""

    def __init__(
        self, nodes: NodeColumns, windows: Sequence[Window], future: Future, plain: FreeCapacity, now_ms: int
    ) -> None:
        self.all: list[ReservedStart] = []
        self.windows = [window for window in windows if (window.end_ms or NEVER_MS) > now_ms]
        self.closed = [nodes.rows(window.nodes) for window in self.windows]
        self._nodes = nodes
        self._future = future
        self._plain = plain
        self._now_ms = now_ms
        self.due: dict[
            str, ReservedStart
        ] = {}  # gangs whose moment has come: they fit until the end of their reservations
        self.insisting: dict[str, ReservedStart] = {}  # those of them that respect older promises only
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

    def surveyed(self) -> list[ReservedStart]:
        """All of them, each with its rows."""
        if not self._fresh:
            self._survey()
        return self.all

    def binding(self, gang: PendingGang, before_ms: int) -> tuple[str, ...]:
        """Whose claims that start before then the gang has to respect: not those of gangs that it might evict if they
        ran, unless they were promised for a deadline; and, if it insists on its own start, older promises only."""
        own = self.insisting.get(gang.job_id)
        number = self.before(before_ms)
        key = (number, gang.queue, gang.priority, gang.may_evict, gang.job_id if own else "")
        found = self._binding.get(key)
        if found is None:
            first = [reserved for reserved in self.all[:number] if own is None or reserved.age < own.age]
            found = self._binding[key] = tuple([c.gang.job_id for c in first if not _outranks(gang, c)])
        return found

    def gave_way_to(self, job_id: str) -> bool:
        """Whether the gang of a claim was evicted for the job: that one is not evicted for it in turn."""
        return any(job_id in reserved.gang.evicted_for for reserved in self.all)

    def before(self, moment_ms: int) -> int:
        """How many start earlier."""
        return bisect_left(self._starts, moment_ms)

    def rows_of(self, job_ids: Iterable[str]) -> list[Rows]:
        """How the nodes of these claims stand at their starts."""
        by_job = {reserved.gang.job_id: reserved.rows for reserved in self.surveyed()}
        return [rows for job_id in job_ids if (rows := by_job[job_id]) is not None]

    def windows_of(self, gang: PendingGang, from_ms: int, to_ms: int) -> tuple[int, ...]:
        """Those that are not for the gang and that it would run into."""
        found = []
        for index, window in enumerate(self.windows):
            overlaps = window.start_ms < to_ms and from_ms < (window.end_ms or NEVER_MS)
            if overlaps and not admits(window, gang.queue, gang.tenant):
                found.append(index)
        return tuple(found)

    def is_closed(self, reserved: ReservedStart) -> bool:
        """Whether a window that is not for its gang lies on its nodes then."""
        found = self.windows_of(reserved.gang, reserved.start_ms, reserved.end_ms)
        nodes = {share.node_id for share in reserved.reservation.shares}
        return any(not nodes.isdisjoint(self.windows[index].nodes) for index in found)

    def capacity_at(self, moment_ms: int, without: ReservedStart | None = None) -> FreeCapacity:
        """The room at a later moment, without what claims, but for one, hold then."""
        capacity = self._plain.copy()
        capacity.grow(self._future.freed(self._now_ms, moment_ms))
        for reserved in self.all:
            if reserved is not without and reserved.start_ms <= moment_ms < reserved.end_ms:
                seated(capacity, reserved.gang, reserved.reservation.shares)
        return capacity

    def made_way(self, freed: Freed, end_ms: int) -> None:
        """Somebody who would have held this until then goes early: claims that start before have so much more."""
        for reserved in self.all:
            if reserved.rows is not None and reserved.start_ms < end_ms:
                reserved.rows.add(freed)

    def took(self, gang: PendingGang, placement: GangPlacement, end_ms: int) -> None:
        """A gang that starts now, and holds its place until then: claims that start before have so much less."""
        for reserved in self.all:
            if reserved.rows is not None and reserved.start_ms < end_ms:
                _subtract(reserved.rows, gang, placement, self._nodes)

    def _survey(self) -> None:
        """One way through time, from claim to claim."""
        capacity = self._plain.copy()
        at_ms = self._now_ms
        held: list[tuple[int, PendingGang, list[tuple[TaskRequest, list[Slot]]]]] = []
        for reserved in self.all:
            start = max(reserved.start_ms, self._now_ms)
            capacity.grow(self._future.freed(at_ms, start))
            at_ms = start
            for end, _, seats in held:
                for request, own in seats if end <= start else ():
                    capacity.give(request, own)
            held = [entry for entry in held if entry[0] > start]
            taken = seated(capacity, reserved.gang, reserved.reservation.shares)
            if taken is None:
                reserved.rows = None
                continue
            held.append((reserved.end_ms, reserved.gang, taken))
            rows = np.unique([slot.row for _, seats in taken for slot in seats])
            reserved.rows = capacity.rows(rows)
        self._fresh = True


def seated(
    capacity: FreeCapacity, gang: PendingGang, shares: Iterable[Share]
) -> list[tuple[TaskRequest, list[Slot]]] | None:
    """Takes the shares from the room; nothing, and None, if one does not fit."""
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
    group_of = {rank: request.group for request in gang.requests for rank in request.ranks}
    counts: dict[tuple[str, str], int] = {}
    for task in placement.tasks:
        key = (group_of[task.rank], task.node_id)
        counts[key] = counts.get(key, 0) + 1
    return tuple([Share(group=group, node_id=node, count=count) for (group, node), count in sorted(counts.items())])


def _outranks(gang: PendingGang, reserved: ReservedStart) -> bool:
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
    ask_of = {rank: request for request in gang.requests for rank in request.ranks}
    for task in placement.tasks:
        place = place_of.get(nodes.row(task.node_id))
        if place is None:
            continue
        request = ask_of[task.rank]
        rows.free[place, AMOUNTS] -= request.each
        for name, amount in request.custom:
            rows.free[place, nodes.custom[name]] -= amount
        for gpu in task.gpus:
            rows.gpu_free[place, gpu] -= min(request.each[Column.GPU], MILLI)
        if task.cpus:
            rows.owned[place] |= parse_cpulist(task.cpus)
