"""What is left on the nodes while a plan grows: the tentative overlay of a cycle.

The amounts are here, the GPUs and CPUs in `free_devices`, the nodes in their orders in `node_orders`; what is taken on
trial is given back by a `transaction`.

Invariant: the three say the same of every node, after each change.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gosched.core.spec.placement_rules import Strategy
from gosched.scheduling.placement.free_devices import FreeDevices, Slot
from gosched.scheduling.placement.needs import Needs, needs_of
from gosched.scheduling.placement.node_orders import NodeOrders
from gosched.scheduling.placement.ranking import Ranked, Unranked
from gosched.scheduling.plugins.filters import Choice
from gosched.scheduling.snapshot.capacity_rows import Freed, Rows
from gosched.scheduling.snapshot.columns import AMOUNTS, DEVICES, NOTHING, Column, Vector
from gosched.scheduling.snapshot.devices import share_slots
from gosched.scheduling.snapshot.task_requests import PendingGang, TaskRequest
from gosched.scheduling.snapshot.view import BoolArray, IntArray, NodeColumns, summed

# As globals of this module, because an attribute of a class takes 15 ns, and a task needs a dozen of them.
_CPU, _MEMORY, _STORAGE, _GPU = Column.CPU, Column.MEMORY, Column.STORAGE, Column.GPU

_EVERYWHERE = slice(None)
_PART = 4  # of fewer nodes than one in four the free amounts are copied out before they are computed with

MAX_MISSES_KEPT = 16  # requests of single tasks that found no node, for each set of constraints


class FreeCapacity:
    """The capacity that is free. Between gangs it only shrinks, so what did not fit once does not fit later in the
    cycle."""

    def __init__(self, nodes: NodeColumns) -> None:
        self.nodes = nodes
        #: Amounts, [nodes x columns]; current only after `settle`.
        self.free = nodes.free.copy(order="F")
        self.devices = FreeDevices(nodes)
        #: Rows in the order in which they changed, with repeats, for what is cached by row.
        self.touched: list[int] = []
        self._total: list[int] = []  # free on the ready nodes together, by column; empty until it is asked for
        self._largest: Vector = NOTHING  # when the total was made: the most that one of them has
        self._unsettled: dict[int, list[int]] = {}  # the amounts of rows that `free` does not show yet
        self._orders = NodeOrders(nodes, self.free)
        self._missed: dict[Choice, list[TaskRequest]] = {}

    # Queries

    @property
    def total(self) -> list[int]:
        """Return what is free on the ready nodes together, by column."""
        if not self._total:  # many capacities are copies that nothing is asked of in all
            self.settle()
            ready = np.where(self.nodes.ready[:, None], self.free, 0)
            self._total, self._largest = summed(ready).tolist(), _largest(ready)
        return self._total

    def may_hold(self, gang: PendingGang) -> bool:
        """Return whether it might fit. False is certain, and costs nothing per node."""
        total = self._total or self.total
        cpu, memory, storage, gpu = gang.total
        if cpu > total[_CPU] or memory > total[_MEMORY] or storage > total[_STORAGE] or gpu > total[_GPU]:
            return False
        most_cpu, most_memory, most_storage, most_gpu = self._largest
        for request in gang.requests:
            cpu, memory, storage, gpu = request.each
            if cpu > most_cpu or memory > most_memory or storage > most_storage or gpu > most_gpu:
                return False
        return True

    def lacks(self, gang: PendingGang) -> bool:
        """Return whether it is known not to fit. Costs nothing; nothing is known before the total was asked for."""
        return bool(self._total) and not self.may_hold(gang)

    def fits(self, request: TaskRequest, allowed: BoolArray) -> BoolArray:
        """Return the allowed nodes on which one of the group's tasks fits."""
        if request.constraints.needs_numa:
            return self.slots(request, allowed) > 0
        self.settle()
        needs = needs_of(request, self.nodes)
        fits = allowed.copy() if needs is not None else np.zeros(len(self.nodes), dtype=np.bool_)
        for column, amount in needs or ():
            fits &= self.free[:, column] >= amount
        return fits

    def slots(self, request: TaskRequest, allowed: BoolArray) -> IntArray:
        """Return, for each node, how many of the group's tasks fit, at most all of them."""
        self.settle()
        needs = needs_of(request, self.nodes)
        if needs is None:
            return np.zeros(len(self.nodes), dtype=np.int64)
        rows = np.flatnonzero(allowed)
        if len(rows) > len(allowed) // _PART:
            return np.where(allowed, self._slots_on(request, needs, _EVERYWHERE), 0)
        slots = np.zeros(len(self.nodes), dtype=np.int64)
        slots[rows] = self._slots_on(request, needs, rows)
        return slots

    def _slots_on(self, request: TaskRequest, needs: Needs, rows: IntArray | slice) -> IntArray:
        """Return, for each of the rows, how many of the group's tasks fit, at most all of them."""
        slots: IntArray | None = None
        for column, amount in needs:
            if column == Column.SHARE:
                own = share_slots(self.devices.gpu_free[rows], amount)
            elif column == Column.LINK:
                own = self.devices.island_slots(request.whole_gpus)[rows]
            else:
                own = self.free[rows, column] // amount
            slots = own if slots is None else np.minimum(slots, own, out=slots)
        if request.constraints.needs_numa:
            numa_slots = self.devices.numa_slots(request)[rows]
            slots = numa_slots if slots is None else np.minimum(slots, numa_slots, out=slots)
        if slots is None:
            return np.full(len(self.free[rows]), request.count)
        return np.clip(slots, 0, request.count, out=slots)

    def best(self, request: TaskRequest, choice: Choice, strategy: Strategy) -> int:
        """Return the best row for one task; -1 if there is none. Nodes where its GPUs share an island come first."""
        needs = needs_of(request, self.nodes)
        if needs is None or self._missed_less(request, choice):
            return -1
        self._orders.serve(request.each)
        order: Ranked | Unranked | None = self._orders.ranked.get(strategy)
        if order is None:
            self.settle()
            order = self._orders.order(strategy)
        if self.devices.has_islands and request.whole_gpus > 1:
            linked = needs_of(request, self.nodes, linked=True) or needs
            for masks in choice.tiers:
                if (row := order.first(linked, masks)) >= 0:
                    return row
        for masks in choice.tiers:
            if (row := order.first(needs, masks)) >= 0:
                return row
        if len(missed := self._missed.setdefault(choice, [])) < MAX_MISSES_KEPT:
            missed.append(request)
        return -1

    def _missed_less(self, request: TaskRequest, choice: Choice) -> bool:
        """Return whether a task that asked for no more found no node before."""
        cpu, memory, storage, gpu = request.each
        for missed in self._missed.get(choice, ()):
            less_cpu, less_memory, less_storage, less_gpu = missed.each
            if missed.custom:
                continue
            if less_cpu <= cpu and less_memory <= memory and less_storage <= storage and less_gpu <= gpu:
                return True
        return False

    def keys(self, strategy: Strategy) -> IntArray:
        """Return a key for each row: lower is better."""
        self.settle()
        return self._orders.keys(strategy)

    def rows(self, rows: IntArray) -> Rows:
        """Return a copy of what is free on the rows."""
        self.settle()
        owned = [self.devices.cpus_owned[row] for row in rows.tolist()]
        return Rows(rows, self.free[rows], self.devices.gpu_free[rows], owned)

    def has(self, wanted: Freed) -> bool:
        """Return whether all of it is free here."""
        self.settle()
        rows, places = np.unique(wanted.rows, return_inverse=True)
        needed = np.zeros((len(rows), self.free.shape[1]), dtype=np.int64)
        np.add.at(needed, places, wanted.amounts)
        return bool(((self.free[rows] >= needed) | (needed == 0)).all()) and self.devices.has(wanted)

    # Placements

    def take(self, request: TaskRequest, rows: IntArray, counts: IntArray) -> list[Slot]:
        """Take `counts[i]` slots on node `rows[i]`; the rows are distinct and have them."""
        slots: list[Slot] = []
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            if request.constraints.wants_gpu:
                slots += [self.devices.take(request, row) for _ in range(count)]
            else:
                slots += [Slot(row)] * count
        self._change(request, rows, counts)
        return slots

    def take_one(self, request: TaskRequest, row: int, gpu: int | None = None) -> Slot:
        """Take a slot for a single task, the quick way. `gpu`: the device to share."""
        wants_gpu = request.constraints.wants_gpu
        slot = self.devices.take(request, row, gpu) if wants_gpu else Slot(row)
        left = self._unsettled.get(row)
        if left is None:
            left = self._unsettled[row] = self.free[row].tolist()
        cpu, memory, storage, gpu = request.each
        left[_CPU] -= cpu
        left[_MEMORY] -= memory
        left[_STORAGE] -= storage
        left[_GPU] -= gpu
        if total := self._total:
            total[_CPU] -= cpu
            total[_MEMORY] -= memory
            total[_STORAGE] -= storage
            total[_GPU] -= gpu
        for name, amount in request.custom:
            left[self.nodes.custom[name]] -= amount
        if wants_gpu:
            left[Column.WHOLE], left[Column.SHARE], left[Column.LINK] = self.devices.columns_of_one(row)
        self._orders.move_one(row, left)
        self.touched.append(row)
        return slot

    def take_back(self, request: TaskRequest, slots: Sequence[Slot]) -> None:
        """Give back what was just taken: what was known of the nodes before is true again."""
        for slot in reversed(slots):
            self.devices.give(request, slot)
        rows, counts = np.unique([slot.row for slot in slots], return_counts=True)
        self._change(request, rows, -counts)
        cpu, memory, storage, gpu = _largest(self.free[rows])
        largest = self._largest
        self._largest = max(cpu, largest[0]), max(memory, largest[1]), max(storage, largest[2]), max(gpu, largest[3])

    def occupy(self, request: TaskRequest, slots: Sequence[Slot]) -> None:
        """Take just these slots, which were found in another capacity that has no more than this one."""
        for slot in slots:
            self.devices.occupy(request, slot)
        rows, counts = np.unique([slot.row for slot in slots], return_counts=True)
        self._change(request, rows, counts)

    def settle(self) -> None:
        """Write what `take_one` noted into the columns."""
        if not self._unsettled:
            return
        rows = np.array(list(self._unsettled), dtype=np.int64)
        self.free[rows] = list(self._unsettled.values())
        self._unsettled.clear()
        self._orders.renew_keys(rows)

    def _change(self, request: TaskRequest, rows: IntArray, counts: IntArray) -> None:
        self.settle()
        self._add(request, rows, -counts)
        if self._total:
            number = int(counts.sum())
            for column, amount in enumerate(request.each):
                self._total[column] -= amount * number
        if request.constraints.wants_gpu:
            for row in rows.tolist():
                self.free[row, DEVICES] = self.devices.columns_of_one(row)
        self._moved(rows)

    def _add(self, request: TaskRequest, rows: IntArray, counts: IntArray) -> None:
        self.free[rows, AMOUNTS] += counts[:, None] * np.array(request.each)
        for name, amount in request.custom:
            self.free[rows, self.nodes.custom[name]] += counts * amount

    def _moved(self, rows: IntArray) -> None:
        self._orders.move(rows)
        self.touched.extend(rows.tolist())

    # Changes that are no placement

    def copy(self) -> FreeCapacity:
        """Return a capacity that is independent of this one, without its caches."""
        self.settle()
        devices = self.devices
        return FreeCapacity(self.nodes.with_load(self.free, devices.gpu_free, devices.cpus_owned))

    def grow(self, more: Freed) -> None:
        """Add capacity that comes free: this is then the capacity of a later moment."""
        self.settle()
        np.add.at(self.free, more.rows, more.amounts)
        self.devices.grow(more)
        self._renew(np.unique(more.rows))

    def lose(self, taken: Freed) -> None:
        """Take away what jobs keep; all of it is free here."""
        np.subtract.at(self.free, taken.rows, taken.amounts)
        self.devices.lose(taken)
        self._renew(np.unique(taken.rows))

    def give(self, request: TaskRequest, slots: Sequence[Slot]) -> None:
        """Free slots that were taken earlier."""
        self.settle()
        for slot in slots:
            self.devices.give(request, slot)
        rows, counts = np.unique([slot.row for slot in slots], return_counts=True)
        self._add(request, rows, counts)
        self._renew(rows)

    def put(self, rows: Rows) -> None:
        """Set the rows; none has more than before."""
        self.settle()
        at = rows.rows
        before = self.free[at]
        self.free[at] = rows.free
        self.devices.put(rows)
        self.free[at, DEVICES] = self.devices.columns(at)
        if self._total:
            lost = np.maximum(before, 0) - np.maximum(self.free[at], 0)
            less = np.where(self.nodes.ready[at][:, None], lost, 0).sum(axis=0)
            self._total = [total - part for total, part in zip(self._total, less.tolist(), strict=True)]
        self._moved(at)

    def _renew(self, rows: IntArray) -> None:
        """Bring up to date what is derived of the rows, and forget what was concluded when less was free."""
        self.free[rows, DEVICES] = self.devices.columns(rows)
        self._total = []
        self._orders.clear()
        self._missed.clear()
        self.touched.extend(rows.tolist())


def _largest(free: IntArray) -> Vector:
    """Return the most that one of the nodes has free, of each amount."""
    cpu, memory, storage, gpu = free[:, AMOUNTS].max(axis=0, initial=0).tolist()
    return cpu, memory, storage, gpu
