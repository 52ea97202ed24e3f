"""What is left on the nodes while a plan grows: the tentative overlay of a cycle.

Rule: whatever is taken can be given back in one step (`mark`, `undo`), to the last GPU and CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gosched.core.resources import GPU as MILLIS
from gosched.core.spec.placement_rules import Strategy
from gosched.scheduling.placement.ranking import Ranked
from gosched.scheduling.placement.scoring import Scale
from gosched.scheduling.plugins.filters import Choice
from gosched.scheduling.snapshot.capacity_rows import Freed, Rows
from gosched.scheduling.snapshot.devices import (
    derived,
    derived_of_one,
    numa_that_fits,
    pick_cpus,
    pick_shared,
    pick_whole,
    share_slots,
)
from gosched.scheduling.snapshot.task_requests import PendingGang, TaskRequest
from gosched.scheduling.snapshot.view import GPU, LINK, SHARE, WHOLE, BoolArray, IntArray, NodeColumns, summed

MAX_MISSES_KEPT = 16  # of single tasks, for each kind of rules
MAX_MOVES = 16  # nodes that move one by one in the ranked order; more than that are sorted anew

Wanted = list[tuple[int, int]]  # (column, least amount)


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one task goes: a row, its GPUs, the mask of its own CPUs."""

    row: int
    gpus: tuple[int, ...] = ()
    cpus: int = 0


@dataclass(frozen=True, slots=True)
class _Taken:
    request: TaskRequest
    seats: list[Slot]


class FreeCapacity:
    """Between gangs it only shrinks, so what did not fit once does not fit later in the cycle.

    `total`: free on the ready nodes together. `free` is current only after `settle`.
    """

    def __init__(self, nodes: NodeColumns) -> None:
        self.nodes = nodes
        self.free = nodes.free.copy(order="F")
        self.gpu_free = nodes.gpu_free.copy()
        self.scale = Scale(nodes)
        self.touched: list[int] = []  # rows in the order in which they changed, for what is cached by row
        ready = nodes.free[nodes.ready]
        self.total: list[int] = summed(ready).tolist()
        self._largest: list[int] = ready.max(axis=0, initial=0).tolist()
        self._owned = nodes.cpus_owned.copy()
        self._has_islands = bool((nodes.gpu_link > 0).any())
        self._ready_rows = np.flatnonzero(nodes.ready)
        self._left: dict[int, list[int]] = {}  # rows whose amounts `free` does not show yet
        self._keys: dict[Strategy, IntArray] = {}
        self._ranked: dict[Strategy, Ranked] = {}
        self._missed: dict[Choice, list[TaskRequest]] = {}
        self._taken: list[_Taken] = []

    # Questions

    def may_hold(self, gang: PendingGang) -> bool:
        """False is certain, and costs nothing per node."""
        total, largest = self.total, self._largest
        cpu, memory, storage, gpu = gang.total
        if cpu > total[0] or memory > total[1] or storage > total[2] or gpu > total[3]:
            return False
        for request in gang.requests:
            cpu, memory, storage, gpu = request.each
            if cpu > largest[0] or memory > largest[1] or storage > largest[2] or gpu > largest[3]:
                return False
        return True

    def wanted(self, request: TaskRequest, *, linked: bool = False) -> Wanted | None:
        """What a node must have left for one of the tasks; None: no node has such a resource at all."""
        cpu, memory, storage, gpu = request.each
        wanted = []
        if cpu:
            wanted.append((0, cpu))
        if memory:
            wanted.append((1, memory))
        if storage:
            wanted.append((2, storage))
        if gpu >= MILLIS:
            wanted.append((LINK if linked or request.constraints.needs_link else WHOLE, gpu))
        elif gpu:
            wanted.append((SHARE, gpu))
        for name, amount in request.custom:
            if name not in self.nodes.custom:
                return None
            wanted.append((self.nodes.custom[name], amount))
        return wanted

    def slots(self, request: TaskRequest, allowed: BoolArray) -> IntArray:
        """For each node, how many of the group's tasks it has room for, at most all of them."""
        self.settle()
        capacity = np.where(allowed, request.count, 0)
        wanted = self.wanted(request)
        if wanted is None:
            return np.zeros_like(capacity)
        for column, amount in wanted:
            if column == SHARE:
                np.minimum(capacity, share_slots(self.gpu_free, amount), out=capacity)
            elif column == LINK:
                np.minimum(capacity, self._island_slots(request.whole_gpus), out=capacity)
            else:
                np.minimum(capacity, self.free[:, column] // amount, out=capacity)
        if request.constraints.needs_numa:
            np.minimum(capacity, self._numa_slots(request), out=capacity)
        return np.maximum(capacity, 0, out=capacity)

    def best(self, request: TaskRequest, choice: Choice, strategy: Strategy) -> int:
        """The row for one task by the ranked order; -1: none. Nodes where its GPUs share an island come first."""
        wanted = self.wanted(request)
        if wanted is None or self._missed_less(request, choice):
            return -1
        ranked = self._ranked.get(strategy) or self._rank(strategy)
        if self._has_islands and request.whole_gpus > 1:
            linked = self.wanted(request, linked=True) or wanted
            for masks in choice.tiers:
                if (row := ranked.first(linked, masks)) >= 0:
                    return row
        for masks in choice.tiers:
            if (row := ranked.first(wanted, masks)) >= 0:
                return row
        if len(missed := self._missed.setdefault(choice, [])) < MAX_MISSES_KEPT:
            missed.append(request)
        return -1

    def _missed_less(self, request: TaskRequest, choice: Choice) -> bool:
        """Whether a task that asked for no more found no place before."""
        each = request.each
        for missed in self._missed.get(choice, ()):
            a, b, c, d = missed.each
            if a <= each[0] and b <= each[1] and c <= each[2] and d <= each[3] and not missed.custom:
                return True
        return False

    def keys(self, strategy: Strategy) -> IntArray:
        """Of all rows: lower is better."""
        self.settle()
        keys = self._keys.get(strategy)
        if keys is None:
            keys = self._keys[strategy] = self.scale.keys(strategy, self.free, np.arange(len(self.nodes)))
        return keys

    # Changes

    def mark(self) -> int:
        return len(self._taken)

    def forget_marks(self) -> None:
        self._taken.clear()

    def undo(self, mark: int) -> None:
        """Gives back all that was taken since the mark."""
        while len(self._taken) > mark:
            taken = self._taken.pop()
            for slot in reversed(taken.seats):
                self._give_back_devices(taken.request, slot)
            rows, counts = np.unique([slot.row for slot in taken.seats], return_counts=True)
            self._change(taken.request, rows, -counts)

    def take(self, request: TaskRequest, rows: IntArray, counts: IntArray, gpu: int | None = None) -> list[Slot]:
        """`counts[i]` of the group's tasks onto node `rows[i]`; rows are distinct and have the room. `gpu`: the device
        that they share."""
        seats: list[Slot] = []
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            if request.constraints.wants_gpu:
                seats += [self._take_devices(request, row, gpu) for _ in range(count)]
            else:
                seats += [Slot(row)] * count
        self._change(request, rows, counts)
        self._taken.append(_Taken(request, seats))
        return seats

    def take_one(self, request: TaskRequest, row: int) -> Slot:
        """One task, the quick way. There is no way back from it."""
        slot = self._take_devices(request, row) if request.constraints.wants_gpu else Slot(row)
        left = self._left.get(row)
        if left is None:
            left = self._left[row] = self.free[row].tolist()
        cpu, memory, storage, gpu = request.each
        left[0] -= cpu
        left[1] -= memory
        left[2] -= storage
        left[3] -= gpu
        total = self.total
        total[0] -= cpu
        total[1] -= memory
        total[2] -= storage
        total[3] -= gpu
        for name, amount in request.custom:
            left[self.nodes.custom[name]] -= amount
        if request.constraints.wants_gpu:
            left[WHOLE], left[SHARE], left[LINK] = self._derived(row)
        for strategy, ranked in self._ranked.items():
            ranked.move(row, self.scale.key(strategy, left, row), left)
        self.touched.append(row)
        return slot

    def settle(self) -> None:
        """Writes what `take_one` noted into the columns."""
        if not self._left:
            return
        rows = np.array(list(self._left), dtype=np.int64)
        self.free[rows] = list(self._left.values())
        self._left.clear()
        self._rekey(rows)

    def _change(self, request: TaskRequest, rows: IntArray, counts: IntArray) -> None:
        self.settle()
        self.free[rows, : len(request.each)] -= counts[:, None] * np.array(request.each)
        for name, amount in request.custom:
            self.free[rows, self.nodes.custom[name]] -= counts * amount
        number = int(counts.sum())
        for column, amount in enumerate(request.each):
            self.total[column] -= amount * number
        if request.constraints.wants_gpu:
            for row in rows.tolist():
                self.free[row, [WHOLE, SHARE, LINK]] = self._derived(row)
        self._moved(rows)

    def _rekey(self, rows: IntArray) -> None:
        for strategy, keys in self._keys.items():
            keys[rows] = self.scale.keys(strategy, self.free[rows], rows)

    def _rank(self, strategy: Strategy) -> Ranked:
        found = self._ranked[strategy] = Ranked(self.keys(strategy), self._ready_rows, self.free)
        return found

    # Other rooms

    def copy(self) -> FreeCapacity:
        """Independent of this one, and without its caches."""
        self.settle()
        return FreeCapacity(replace(self.nodes, free=self.free, gpu_free=self.gpu_free, cpus_owned=self._owned))

    def grow(self, more: Freed) -> None:
        """Capacity that comes free: this is not the room of now any more, but a later one."""
        self.settle()
        np.add.at(self.free, more.rows, more.amounts)
        np.add.at(self.gpu_free, (more.gpu_rows, more.gpus), more.gpu_millis)
        for row, mask in more.cpus:
            self._owned[row] &= ~mask
        self._renew(np.unique(more.rows))

    def has(self, wanted: Freed) -> bool:
        """Whether all of it is free here."""
        self.settle()
        rows, places = np.unique(wanted.rows, return_inverse=True)
        needed = np.zeros((len(rows), self.free.shape[1]), dtype=np.int64)
        np.add.at(needed, places, wanted.amounts)
        return (
            bool(((self.free[rows] >= needed) | (needed == 0)).all())
            and bool((self.gpu_free[wanted.gpu_rows, wanted.gpus] >= wanted.gpu_millis).all())
            and not any(self._owned[row] & mask for row, mask in wanted.cpus)
        )

    def lose(self, taken: Freed) -> None:
        """What somebody keeps: all of it is free here."""
        np.subtract.at(self.free, taken.rows, taken.amounts)
        np.subtract.at(self.gpu_free, (taken.gpu_rows, taken.gpus), taken.gpu_millis)
        for row, mask in taken.cpus:
            self._owned[row] |= mask
        self._renew(np.unique(taken.rows))

    def give(self, request: TaskRequest, seats: Sequence[Slot]) -> None:
        """What was taken for these seats is free again."""
        self.settle()
        for slot in seats:
            self._give_back_devices(request, slot)
        rows, counts = np.unique([slot.row for slot in seats], return_counts=True)
        self.free[rows, : len(request.each)] += counts[:, None] * np.array(request.each)
        for name, amount in request.custom:
            self.free[rows, self.nodes.custom[name]] += counts * amount
        self._renew(rows)

    def occupy(self, request: TaskRequest, seats: Sequence[Slot]) -> None:
        """Takes just these seats, which another room with no more in it has given."""
        for slot in seats:
            for gpu in slot.gpus:
                self.gpu_free[slot.row, gpu] -= min(request.each[GPU], MILLIS)
            self._owned[slot.row] |= slot.cpus
        rows, counts = np.unique([slot.row for slot in seats], return_counts=True)
        self._change(request, rows, counts)

    def rows(self, rows: IntArray) -> Rows:
        """How the rows stand."""
        self.settle()
        return Rows(rows, self.free[rows], self.gpu_free[rows], [self._owned[row] for row in rows.tolist()])

    def put(self, rows: Rows) -> None:
        """The rows stand like this now: they have less than before."""
        self.settle()
        at = rows.rows
        before = self.free[at]
        self.free[at] = rows.free
        self.gpu_free[at] = rows.gpu_free
        self.free[at[:, None], [WHOLE, SHARE, LINK]] = derived(rows.gpu_free, self.nodes.gpu_link[at])
        for row, owned in zip(at.tolist(), rows.owned, strict=True):
            self._owned[row] = owned
        lost = np.maximum(before, 0) - np.maximum(self.free[at], 0)
        less = np.where(self.nodes.ready[at][:, None], lost, 0).sum(axis=0)
        self.total = [total - part for total, part in zip(self.total, less.tolist(), strict=True)]
        self._moved(at)

    def _moved(self, rows: IntArray) -> None:
        """Their places in the orders follow."""
        self._rekey(rows)
        self.touched.extend(rows.tolist())
        if len(rows) > MAX_MOVES:
            self._ranked.clear()
        for strategy, ranked in self._ranked.items():
            keys = self._keys[strategy][rows].tolist()
            for row, key, left in zip(rows.tolist(), keys, self.free[rows].tolist(), strict=True):
                ranked.move(row, key, left)

    def _renew(self, rows: IntArray) -> None:
        """After a change that is no placement: what is derived and cached follows."""
        self.free[rows[:, None], [WHOLE, SHARE, LINK]] = derived(self.gpu_free[rows], self.nodes.gpu_link[rows])
        ready = self.free[self.nodes.ready]
        self.total = summed(ready).tolist()
        self._largest = ready.max(axis=0, initial=0).tolist()
        self._keys.clear()
        self._ranked.clear()
        self._missed.clear()
        self.touched.extend(rows.tolist())

    # Devices

    def _take_devices(self, request: TaskRequest, row: int, gpu: int | None = None) -> Slot:
        free = self.gpu_free[row].tolist()
        if request.gpu_share:
            chosen = pick_shared(free, request.gpu_share) if gpu is None else gpu
            self.gpu_free[row, chosen] -= request.gpu_share
            return Slot(row, (chosen,))
        nodes = self.nodes
        links, numa = nodes.gpu_link[row].tolist(), nodes.gpu_numa[row].tolist()
        known, owned = nodes.cpus[row], self._owned[row]
        count, owns = request.whole_gpus, request.owned_cpus if known else 0
        among = None
        if request.constraints.needs_numa:
            node = numa_that_fits(free, numa, known, owned, count, owns)
            among = [gpu for gpu, where in enumerate(numa) if where == node]
        gpus = pick_whole(free, links, count, among)
        cpus = pick_cpus(known, owned, owns, [numa[gpu] for gpu in gpus]) if owns else 0
        self.gpu_free[row, gpus] = 0
        self._owned[row] = owned | cpus
        return Slot(row, tuple(gpus), cpus)

    def _give_back_devices(self, request: TaskRequest, slot: Slot) -> None:
        for gpu in slot.gpus:
            self.gpu_free[slot.row, gpu] += min(request.each[GPU], MILLIS)
        self._owned[slot.row] &= ~slot.cpus

    def _derived(self, row: int) -> tuple[int, int, int]:
        return derived_of_one(self.gpu_free[row].tolist(), self.nodes.gpu_link[row].tolist())

    def _island_slots(self, gpus: int) -> IntArray:
        """For each row, how many tasks find their GPUs in one island each."""
        whole, links = self.gpu_free == MILLIS, self.nodes.gpu_link
        slots = np.zeros(len(self.nodes), dtype=np.int64)
        for island in np.unique(links) if links.size else ():
            slots += (whole & (links == island)).sum(axis=1) // gpus
        return slots

    def _numa_slots(self, request: TaskRequest) -> IntArray:
        """For each row, how many tasks find their GPUs and CPUs on one NUMA node each."""
        slots = np.zeros(len(self.nodes), dtype=np.int64)
        whole, numa = self.gpu_free == MILLIS, self.nodes.gpu_numa
        spare = self._numa_spare()
        for node in range(spare.shape[1]):
            here = np.full(len(slots), request.count)
            if request.whole_gpus:
                np.minimum(here, (whole & (numa == node)).sum(axis=1) // request.whole_gpus, out=here)
            if request.owned_cpus:
                np.minimum(here, spare[:, node] // request.owned_cpus, out=here)
            slots += here
        return slots

    def _numa_spare(self) -> IntArray:
        """CPUs that nobody owns, [rows x NUMA nodes]."""
        widest = max((len(cpus) for cpus in self.nodes.cpus), default=0)
        counts = [
            [(mask & ~owned).bit_count() for mask in cpus] + [0] * (widest - len(cpus))
            for cpus, owned in zip(self.nodes.cpus, self._owned, strict=True)
        ]
        return np.array(counts, dtype=np.int64).reshape(len(self.nodes), widest)

    def longest_id(self) -> int:
        """Bytes."""
        return max((len(node_id.encode()) for node_id in self.nodes.ids), default=0)
