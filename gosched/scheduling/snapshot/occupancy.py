"""Which task holds what, as columns: one entry for each task that holds a place, or has one behind a fence.

Invariant: made once in a cycle, when the planner first looks ahead or for victims; most cycles do neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from gosched.core.cpulist import parse_cpulist
from gosched.core.resources import MILLI, Resources
from gosched.scheduling.snapshot.capacity_rows import Freed
from gosched.scheduling.snapshot.columns import AMOUNTS, vector
from gosched.scheduling.snapshot.running_gangs import Holding, RunningGang
from gosched.scheduling.snapshot.view import BoolArray, IntArray, NodeColumns, View


class Holds(Protocol):
    """A gang that holds a place. `each` is what a task of each group holds."""

    @property
    def job_id(self) -> str: ...
    @property
    def each(self) -> tuple[Resources, ...]: ...
    @property
    def holdings(self) -> tuple[Holding, ...]: ...


G = TypeVar("G", bound=Holds)


class Occupied(Generic[G]):
    """What gangs hold. Tasks are numbered; those of a gang are neighbours."""

    def __init__(self, nodes: NodeColumns, gangs: Sequence[G]) -> None:
        #: In the order given.
        self.gangs = gangs
        row_of: dict[str, int] = {}  # of nodes that were seen; below zero if a node is unknown
        most = nodes.gpu_free.shape[1]
        rows: list[int] = []
        ranks: list[int] = []
        kinds: list[int] = []  # index into `vectors`
        vectors: list[list[int]] = []
        begins = [0]
        devices: list[tuple[int, int, int]] = []
        #: (task, row, mask) of the CPUs that a task owns.
        self.cpus: list[tuple[int, int, int]] = []
        for gang in gangs:
            first = len(vectors)
            vectors += [column_amounts(each, nodes) for each in gang.each]
            for rank, group, node_id, gpus, cpus, _ in gang.holdings:
                if (row := row_of.get(node_id)) is None:
                    row = row_of[node_id] = nodes.find(node_id)
                if row < 0:
                    continue
                millis = min(gang.each[group].gpu_millis, MILLI)
                if gpus:
                    devices += [(len(rows), gpu, millis) for gpu in gpus if gpu < most]
                if cpus:
                    self.cpus.append((len(rows), row, parse_cpulist(cpus)))
                rows.append(row)
                ranks.append(rank)
                kinds.append(first + group)
                # A task may hold bad GPUs too, which come free for no other task.
                if len(gpus) * millis < gang.each[group].gpu_millis:
                    kinds[-1] = len(vectors)
                    vectors.append(column_amounts(replace(gang.each[group], gpu_millis=len(gpus) * millis), nodes))
            begins.append(len(rows))
        #: Of each task.
        self.row: IntArray = np.array(rows, dtype=np.int64)
        self.rank: IntArray = np.array(ranks, dtype=np.int64)
        #: The first task of each gang, and the number of all tasks.
        self.begins: IntArray = np.array(begins, dtype=np.int64)
        #: Of each task the index into `gangs`.
        self.gang: IntArray = np.repeat(np.arange(len(gangs)), np.diff(self.begins))
        table = np.array(vectors, dtype=np.int64).reshape(len(vectors), nodes.free.shape[1])
        #: Of each task by column; the columns that are derived from devices are 0.
        self.amounts: IntArray = table[np.array(kinds, dtype=np.int64)]
        columns = np.array(devices, dtype=np.int64).reshape(len(devices), 3)
        #: Of each device that a task holds: the task, the device's number, and the milli-GPUs held.
        self.device_task, self.device, self.device_millis = columns[:, 0], columns[:, 1], columns[:, 2]
        self._number = {gang.job_id: number for number, gang in enumerate(gangs)}

    def __len__(self) -> int:
        return len(self.row)

    def own(self, number: int) -> slice:
        """Return where the tasks of the gang of this number are."""
        return slice(int(self.begins[number]), int(self.begins[number + 1]))

    def number_of(self, job_id: str) -> int:
        """Return the gang's index in `gangs`."""
        return self._number[job_id]

    def tasks_of(self, job_id: str, ranks: Sequence[int] = ()) -> BoolArray:
        """Return a mask of the gang's tasks of these ranks; of all its tasks if no ranks are given."""
        number = self._number[job_id]
        mask = np.zeros(len(self), dtype=np.bool_)
        own = self.own(number)
        mask[own] = np.isin(self.rank[own], ranks) if ranks else True
        return mask

    def freed(self, tasks: BoolArray) -> Freed:
        """Return what comes free when these tasks end."""
        devices = tasks[self.device_task]
        return Freed(
            rows=self.row[tasks],
            amounts=self.amounts[tasks],
            gpu_rows=self.row[self.device_task[devices]],
            gpus=self.device[devices],
            gpu_millis=self.device_millis[devices],
            cpus=[(row, mask) for task, row, mask in self.cpus if tasks[task]],
        )


class Occupants:
    """What is held in a view, in the order of the jobs' submission; made when it is first asked for."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._occupied: Occupied[RunningGang] | None = None

    def __call__(self) -> Occupied[RunningGang]:
        if self._occupied is None:
            holders = sorted(self._view.holders.values(), key=lambda holder: holder.sequence)
            self._occupied = Occupied(self._view.nodes, holders)
        return self._occupied


def column_amounts(each: Resources, nodes: NodeColumns) -> list[int]:
    """Return the amounts by column of the nodes."""
    found = [*vector(each), *([0] * (nodes.free.shape[1] - AMOUNTS.stop))]
    for name, amount in each.custom:
        if name in nodes.custom:
            found[nodes.custom[name]] = amount
    return found
