"""What reserved starts take and leave on their nodes, as columns: a line for each reserved start and node of it.

Invariant: lines that were changed one by one are equal to lines that are computed anew, as far as amounts go; which of
several equal devices a start takes may differ. No line holds less than nothing when it is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from gosched.core.commands.plans import GangPlacement
from gosched.core.cpulist import parse_cpulist
from gosched.core.resources import MILLI
from gosched.scheduling.backfill.device_choices import DeviceChoices, Piece
from gosched.scheduling.backfill.release_profile import Releases
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.placement.free_devices import Slot
from gosched.scheduling.snapshot.capacity_rows import Freed, Rows
from gosched.scheduling.snapshot.columns import AMOUNTS, Column
from gosched.scheduling.snapshot.task_requests import PendingGang, TaskRequest
from gosched.scheduling.snapshot.view import BoolArray, IntArray, NodeColumns

Taken = Sequence[tuple[TaskRequest, Sequence[Slot]]]  # the places of tasks, by group


@dataclass(slots=True)
class Lines:
    """The columns. Amounts are followed by the milli-GPUs of each device."""

    #: Ascending.
    start: IntArray
    end: IntArray
    #: Number of the reserved start.
    owner: IntArray
    row: IntArray
    #: What the reserved start takes on the node.
    need: IntArray
    #: What is free there then, beside all that is reserved.
    free: IntArray

    @staticmethod
    def none(width: int) -> Lines:
        nothing, no_amounts = np.zeros(0, dtype=np.int64), np.zeros((0, width), dtype=np.int64)
        return Lines(nothing, nothing, nothing, nothing, no_amounts, no_amounts)

    def __len__(self) -> int:
        return len(self.start)

    def chosen(self, which: BoolArray) -> Lines:
        """Return some of the lines."""
        return Lines(*[getattr(self, field.name)[which] for field in fields(self)])


class StartLines:
    """The lines of one cycle. Starts have numbers."""

    def __init__(self, nodes: NodeColumns) -> None:
        self._nodes = nodes
        self._width = nodes.free.shape[1]
        self.lines = Lines.none(self._width + nodes.gpu_free.shape[1])
        #: The CPUs that tasks of a start own on a node, by number and row.
        self.cpus: dict[tuple[int, int], int] = {}

    # Computed anew

    def compute(self, pieces: Sequence[Piece], now: FreeCapacity, releases: Releases) -> dict[int, None]:
        """Compute the lines of these pieces, which are in order of their starts. Return the numbers of the starts that
        do not fit beside those before them; they have no lines."""
        everything = self._lines_of(pieces)
        wanting = [piece for piece in pieces if piece.request.constraints.wants_gpu]
        short: dict[int, None] = dict.fromkeys(everything.owner[~self._nodes.ready[everything.row]].tolist())
        while True:
            lines = everything.chosen(~np.isin(everything.owner, list(short))) if short else everything
            balance = _balance(lines, now, releases)
            misses = lines.owner[((balance < 0) & (lines.need > 0)).any(axis=1)][:1].tolist()
            choices = DeviceChoices(now, releases)
            misses += choices.choose([piece for piece in wanting if piece.owner not in short] if short else wanting)
            if not misses:
                break
            order = {owner: place for place, owner in reversed(list(enumerate(lines.owner.tolist())))}
            short[min(misses, key=order.__getitem__)] = None  # it may be in the way of those that follow
        if wanting:
            self._note_devices(lines, choices)
            balance = _balance(lines, now, releases)
        lines.free = _after_equals(lines, balance)
        self.lines, self.cpus = lines, choices.cpus
        return short

    def _note_devices(self, lines: Lines, choices: DeviceChoices) -> None:
        place = {key: i for i, key in enumerate(zip(lines.owner.tolist(), lines.row.tolist(), strict=True))}
        for (owner, row, gpu), millis in choices.taken.items():
            lines.need[place[owner, row], self._width + gpu] = millis

    def _lines_of(self, pieces: Sequence[Piece]) -> Lines:
        """Return a line for each piece, or for several of one start on one node."""
        kinds: dict[int, int] = {}  # of requests; they outlive the cycle
        table: list[list[int]] = []
        merged: dict[tuple[int, int], int] = {}
        number: list[int] = []
        kind: list[int] = []
        for piece in pieces:
            key = id(piece.request)
            if key not in kinds:
                kinds[key] = len(table)
                table.append(self.amounts(piece.request))
            kind.append(kinds[key])
            number.append(merged.setdefault((piece.owner, piece.row), len(merged)))
        width = self._width + self._nodes.gpu_free.shape[1]
        each = np.array(table, dtype=np.int64).reshape(len(table), width)
        columns = np.array([piece[:4] for piece in pieces], dtype=np.int64).reshape(len(pieces), 4)
        counts = np.array([piece.tasks for piece in pieces], dtype=np.int64)
        need = each[kind] * counts[:, None]
        if len(merged) < len(pieces):
            places = np.array(number)
            need = np.zeros((len(merged), width), dtype=np.int64)
            np.add.at(need, places, each[kind] * counts[:, None])
            columns = columns[np.unique(places, return_index=True)[1]]
        owner, row, start, end = columns.T
        return Lines(start, end, owner, row, need, np.zeros_like(need))

    def amounts(self, request: TaskRequest) -> list[int]:
        """Return what one of the tasks takes, without its devices."""
        found = [0] * (self._width + self._nodes.gpu_free.shape[1])
        found[AMOUNTS] = request.each
        for name, amount in request.custom:
            if name in self._nodes.custom:
                found[self._nodes.custom[name]] = amount
        return found

    # Changed one by one

    def add(self, owner: int, start_ms: int, end_ms: int, taken: Taken, then: NodeColumns) -> None:
        """Add a start that took these places. `then`: what is free at its start, without them."""
        rows, need = self.taken_on(taken)
        free = np.concatenate([then.free[rows], then.gpu_free[rows]], axis=1)
        self._change(rows, -need, start_ms, end_ms)
        self._insert(owner, start_ms, end_ms, rows, need, free - need)
        for _, slots in taken:
            for slot in slots:
                if slot.cpus:
                    key = (owner, slot.row)
                    self.cpus[key] = self.cpus.get(key, 0) | slot.cpus

    def remove(self, owner: int) -> None:
        """Remove a start: others have what it took. One without lines changes nothing."""
        mine = self.lines.owner == owner
        if not mine.any():
            return
        gone, self.lines = self.lines.chosen(mine), self.lines.chosen(~mine)
        self._change(gone.row, gone.need, int(gone.start[0]), int(gone.end[0]))
        self.cpus = {key: mask for key, mask in self.cpus.items() if key[0] != owner} if self.cpus else self.cpus

    def subtract(self, taken: Taken, before_ms: int) -> None:
        """Subtract places that are taken from now until then."""
        rows, need = self.taken_on(taken)
        self._change(rows, -need, 0, before_ms)

    def give(self, freed: Freed, before_ms: int) -> None:
        """Add what is free from now until then. Owned CPUs are left out."""
        rows = np.unique(np.concatenate([freed.rows, freed.gpu_rows]))
        more = np.zeros((len(rows), self.lines.need.shape[1]), dtype=np.int64)
        np.add.at(more[:, : self._width], np.searchsorted(rows, freed.rows), freed.amounts)
        np.add.at(more, (np.searchsorted(rows, freed.gpu_rows), self._width + freed.gpus), freed.gpu_millis)
        self._change(rows, more, 0, before_ms)

    def taken_on(self, taken: Taken) -> tuple[IntArray, IntArray]:
        """Return the rows, ascending, and what is taken on each."""
        found: dict[int, IntArray] = {}
        for request, slots in taken:
            each = np.array(self.amounts(request), dtype=np.int64)
            for slot in slots:
                need = found.setdefault(slot.row, np.zeros_like(each))
                need += each
                for gpu in slot.gpus:
                    need[self._width + gpu] += min(request.each[Column.GPU], MILLI)
        rows = sorted(found)
        need = np.array([found[row] for row in rows], dtype=np.int64)
        return np.array(rows, dtype=np.int64), need.reshape(len(rows), self.lines.need.shape[1])

    def _change(self, rows: IntArray, more: IntArray, from_ms: int, to_ms: int) -> None:
        """Change what is free on these rows, which ascend, at the starts from one moment up to another."""
        first, last = np.searchsorted(self.lines.start, (from_ms, to_ms))
        places, known = _places(rows, self.lines.row[first:last])
        self.lines.free[first:last][known] += more[places[known]]

    def _insert(self, owner: int, start_ms: int, end_ms: int, rows: IntArray, need: IntArray, free: IntArray) -> None:
        lines = self.lines
        at = int(np.searchsorted(lines.start, start_ms, side="right"))
        self.lines = Lines(
            np.insert(lines.start, at, [start_ms] * len(rows)),
            np.insert(lines.end, at, [end_ms] * len(rows)),
            np.insert(lines.owner, at, [owner] * len(rows)),
            np.insert(lines.row, at, rows),
            np.insert(lines.need, at, need, axis=0),
            np.insert(lines.free, at, free, axis=0),
        )

    # Queries

    def negative(self) -> list[int]:
        """Return the numbers of starts that have less than nothing on a node."""
        if not len(self.lines):
            return []
        found: list[int] = self.lines.owner[(self.lines.free < 0).any(axis=1)].tolist()
        return found

    def rows_of(self, owner: int) -> IntArray:
        """Return the rows of a start."""
        found: IntArray = self.lines.row[self.lines.owner == owner]
        return found

    def held_at(self, moment_ms: int, without: int) -> Freed:
        """Return what the starts hold at a moment, all but one."""
        lines = self.lines
        held = lines.chosen((lines.start <= moment_ms) & (lines.end > moment_ms) & (lines.owner != without))
        devices = held.need[:, self._width :]
        places, gpus = np.nonzero(devices)
        owned = [(row, self.cpus.get((o, row), 0)) for o, row in _keys(held)] if self.cpus else []
        return Freed(
            held.row,
            held.need[:, : self._width],
            held.row[places],
            gpus,
            devices[places, gpus],
            [e for e in owned if e[1]],
        )

    def least(self, which: BoolArray, without: int = 0) -> Rows:
        """Return the least that is free at any of these lines, by row, if the start `without` did not take its part."""
        lines = self.lines.chosen(which)
        mine = (
            self.lines.chosen(self.lines.owner == without)
            if without
            else lines.chosen(np.zeros(len(lines), dtype=np.bool_))
        )
        if len(mine):
            order = np.argsort(mine.row)
            places, known = _places(mine.row[order], lines.row)
            known &= (lines.start >= mine.start[0]) & (lines.start < mine.end[0])
            lines.free[known] += mine.need[order][places[known]]
        order = np.argsort(lines.row, kind="stable")
        rows, firsts = np.unique(lines.row[order], return_index=True)
        free = np.minimum.reduceat(lines.free[order], firsts) if rows.size else lines.free
        masks = dict.fromkeys(rows.tolist(), 0)
        for owner, row in _keys(lines) if self.cpus else ():
            masks[row] |= self.cpus.get((owner, row), 0)
        return Rows(rows, free[:, : self._width], free[:, self._width :], list(masks.values()))

    def within(self, after_ms: int, before_ms: int, without: int) -> BoolArray:
        """Return which lines start between two moments."""
        found: BoolArray = (
            (self.lines.start > after_ms) & (self.lines.start < before_ms) & (self.lines.owner != without)
        )
        return found

    def of(self, owners: Sequence[int], rows: IntArray | None = None) -> BoolArray:
        """Return which lines are of these starts, on these rows; None: on all."""
        chosen = np.zeros(max([*owners, 0]) + 2, dtype=np.bool_)
        chosen[list(owners)] = True
        found: BoolArray = chosen[np.minimum(self.lines.owner, len(chosen) - 1)]
        return found if rows is None else found & np.isin(self.lines.row, rows)


def _keys(lines: Lines) -> zip[tuple[int, int]]:
    return zip(lines.owner.tolist(), lines.row.tolist(), strict=True)


def _places(rows: IntArray, wanted: IntArray) -> tuple[IntArray, BoolArray]:
    """Return where the wanted rows are among `rows`, which ascend, and which of them are there."""
    places = np.minimum(np.searchsorted(rows, wanted), max(len(rows) - 1, 0))
    known: BoolArray = rows[places] == wanted if len(rows) else np.zeros(len(wanted), dtype=np.bool_)
    return places, known


def _balance(lines: Lines, now: FreeCapacity, releases: Releases) -> IntArray:
    """Return what is free at each line once it took what it needs, beside those before it: per row a running sum over
    releases, ends and starts."""
    if not len(lines):
        return lines.need
    freed, width = releases.freed, now.nodes.free.shape[1]
    rows = np.unique(lines.row)
    amounts, gpus = np.isin(freed.rows, rows), np.isin(freed.gpu_rows, rows)
    devices = np.zeros((int(gpus.sum()), lines.need.shape[1]), dtype=np.int64)
    devices[np.arange(len(devices)), width + freed.gpus[gpus]] = freed.gpu_millis[gpus]
    more = np.pad(freed.amounts[amounts], ((0, 0), (0, lines.need.shape[1] - width)))
    row = np.concatenate([freed.rows[amounts], freed.gpu_rows[gpus], lines.row, lines.row])
    when = np.concatenate([releases.ends[amounts], releases.gpu_ends[gpus], lines.end, lines.start])
    takes = np.arange(len(row)) >= len(row) - len(lines)
    change = np.concatenate([more, devices, lines.need, -lines.need])
    order = np.lexsort((takes, when, row))  # stable: starts of one moment keep their order
    total = np.cumsum(change[order], axis=0)
    ordered = row[order]
    firsts = np.searchsorted(ordered, rows)
    before = np.where((firsts > 0)[:, None], total[firsts - 1], 0)
    at_first = now.rows(rows)
    base = np.concatenate([at_first.free, at_first.gpu_free], axis=1) - before
    total += base[np.searchsorted(rows, ordered)]
    found = np.empty_like(lines.need)
    is_take = takes[order]
    found[order[is_take] - (len(row) - len(lines))] = total[is_take]
    return found


def _after_equals(lines: Lines, balance: IntArray) -> IntArray:
    """Return what is free once all have started that start on a row at one moment."""
    order = np.lexsort((lines.start, lines.row))
    row, start = lines.row[order], lines.start[order]
    last = np.append((row[1:] != row[:-1]) | (start[1:] != start[:-1]), True)[: len(row)]
    group = np.cumsum(last) - last
    found = np.empty_like(balance)
    found[order] = balance[order][np.flatnonzero(last)[group]]
    return found


def slots_of(gang: PendingGang, placement: GangPlacement, nodes: NodeColumns) -> list[tuple[TaskRequest, list[Slot]]]:
    """Return the places of the gang's tasks, by group."""
    by_rank = {task.rank: task for task in placement.tasks}
    found: list[tuple[TaskRequest, list[Slot]]] = []
    for request in gang.requests:
        own = [by_rank[rank] for rank in request.ranks if rank in by_rank]
        if own:
            found.append((request, [Slot(nodes.row(t.node_id), t.gpus, parse_cpulist(t.cpus)) for t in own]))
    return found
