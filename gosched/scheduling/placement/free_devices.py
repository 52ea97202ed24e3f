"""The GPUs and CPUs of the nodes that are free while a plan grows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gosched.core.resources import MILLI
from gosched.scheduling.snapshot.capacity_rows import Freed, Rows
from gosched.scheduling.snapshot.columns import Column
from gosched.scheduling.snapshot.devices import (
    choose_cpus,
    choose_shared_gpu,
    choose_whole_gpus,
    device_columns,
    device_columns_of_one,
    fitting_numa_node,
)
from gosched.scheduling.snapshot.task_requests import TaskRequest
from gosched.scheduling.snapshot.view import IntArray, NodeColumns


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one task: a node, and the devices there that are the task's."""

    row: int
    #: Numbers of the node's GPUs; empty for a task without GPUs.
    gpus: tuple[int, ...] = ()
    #: Mask of the CPUs that the task owns; 0 if it owns none.
    cpus: int = 0


class FreeDevices:
    """The devices that no task holds.

    Invariant: a slot that was taken and is given back leaves everything as it was.
    """

    def __init__(self, nodes: NodeColumns) -> None:
        self.nodes = nodes
        #: As in NodeColumns.
        self.gpu_free = nodes.gpu_free.copy()
        self.cpus_owned = nodes.cpus_owned.copy()
        self.has_islands = nodes.derive("has_islands", lambda: bool((nodes.gpu_link > 0).any()))

    # Slots

    def take(self, request: TaskRequest, row: int, gpu: int | None = None) -> Slot:
        """Choose and take the devices of one task on a node that has them; `gpu` is the one to share, if given."""
        free = self.gpu_free[row].tolist()
        if request.gpu_share:
            chosen = choose_shared_gpu(free, request.gpu_share) if gpu is None else gpu
            self.gpu_free[row, chosen] -= request.gpu_share
            return Slot(row, (chosen,))
        nodes = self.nodes
        links, numa = nodes.gpu_link[row].tolist(), nodes.gpu_numa[row].tolist()
        known, owned = nodes.cpus[row], self.cpus_owned[row]
        count, owns = request.whole_gpus, request.owned_cpus if known else 0
        among = None
        if request.constraints.needs_numa:
            node = fitting_numa_node(free, numa, known, owned, count, owns)
            among = [gpu for gpu, where in enumerate(numa) if where == node]
        gpus = choose_whole_gpus(free, links, count, among)
        cpus = choose_cpus(known, owned, owns, [numa[gpu] for gpu in gpus]) if owns else 0
        self.gpu_free[row, gpus] = 0
        self.cpus_owned[row] = owned | cpus
        return Slot(row, tuple(gpus), cpus)

    def occupy(self, request: TaskRequest, slot: Slot) -> None:
        """Take the devices of just this slot."""
        for gpu in slot.gpus:
            self.gpu_free[slot.row, gpu] -= min(request.each[Column.GPU], MILLI)
        self.cpus_owned[slot.row] |= slot.cpus

    def give(self, request: TaskRequest, slot: Slot) -> None:
        """Give the devices of the slot back."""
        for gpu in slot.gpus:
            self.gpu_free[slot.row, gpu] += min(request.each[Column.GPU], MILLI)
        self.cpus_owned[slot.row] &= ~slot.cpus

    # Amounts of several nodes

    def grow(self, more: Freed) -> None:
        np.add.at(self.gpu_free, (more.gpu_rows, more.gpus), more.gpu_millis)
        for row, mask in more.cpus:
            self.cpus_owned[row] &= ~mask

    def lose(self, taken: Freed) -> None:
        np.subtract.at(self.gpu_free, (taken.gpu_rows, taken.gpus), taken.gpu_millis)
        for row, mask in taken.cpus:
            self.cpus_owned[row] |= mask

    def has(self, wanted: Freed) -> bool:
        """Return whether all of it is free here."""
        devices, places = np.unique(np.stack([wanted.gpu_rows, wanted.gpus]), axis=1, return_inverse=True)
        needed = np.zeros(devices.shape[1], dtype=np.int64)
        np.add.at(needed, places.reshape(-1), wanted.gpu_millis)
        if (self.gpu_free[devices[0], devices[1]] < needed).any():
            return False
        owned: dict[int, int] = {}
        for row, mask in wanted.cpus:
            others = owned.get(row, self.cpus_owned[row])
            if others & mask:
                return False
            owned[row] = others | mask
        return True

    def put(self, rows: Rows) -> None:
        """Set the devices of these rows."""
        self.gpu_free[rows.rows] = rows.gpu_free
        for row, owned in zip(rows.rows.tolist(), rows.owned, strict=True):
            self.cpus_owned[row] = owned

    # Columns

    def columns(self, rows: IntArray) -> IntArray:
        """Return the columns WHOLE, SHARE and LINK of the rows."""
        return device_columns(self.gpu_free[rows], self.nodes.gpu_link[rows])

    def columns_of_one(self, row: int) -> tuple[int, int, int]:
        return device_columns_of_one(self.gpu_free[row].tolist(), self.nodes.gpu_link[row].tolist())

    def island_slots(self, gpus: int) -> IntArray:
        """Return, for each row, how many tasks find so many GPUs each in one island."""
        whole, links = self.gpu_free == MILLI, self.nodes.gpu_link
        slots = np.zeros(len(self.nodes), dtype=np.int64)
        for island in np.unique(links) if links.size else ():
            slots += (whole & (links == island)).sum(axis=1) // gpus
        return slots

    def numa_slots(self, request: TaskRequest) -> IntArray:
        """Return, for each row, how many tasks find their GPUs and CPUs on one NUMA node each."""
        slots = np.zeros(len(self.nodes), dtype=np.int64)
        whole, numa = self.gpu_free == MILLI, self.nodes.gpu_numa
        cpus_left = self._cpus_left()
        for node in range(cpus_left.shape[1]):
            here = np.full(len(slots), request.count)
            if request.whole_gpus:
                np.minimum(here, (whole & (numa == node)).sum(axis=1) // request.whole_gpus, out=here)
            if request.owned_cpus:
                np.minimum(here, cpus_left[:, node] // request.owned_cpus, out=here)
            slots += here
        return slots

    def _cpus_left(self) -> IntArray:
        """Return how many CPUs no task owns, [rows x NUMA nodes]."""
        widest = max((len(cpus) for cpus in self.nodes.cpus), default=0)
        counts = [
            [(mask & ~owned).bit_count() for mask in cpus] + [0] * (widest - len(cpus))
            for cpus, owned in zip(self.nodes.cpus, self.cpus_owned, strict=True)
        ]
        return np.array(counts, dtype=np.int64).reshape(len(self.nodes), widest)
