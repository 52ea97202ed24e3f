"""What the planner sees: nodes as columns, pending gangs as records, and how the cluster is shared.

Invariant: a view shares nothing that changes. Its records are frozen, its arrays are copies; the columns of nodes that
are equal in several views are one copy, which nothing can write. Rows ascend by node id, so a tie that is broken by row
is broken by id.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gosched.core.limits import MAX_JOB_DEMAND
from gosched.core.records.queue import Queue
from gosched.core.records.reservation import Reservation
from gosched.core.records.tenant import Account, Quota
from gosched.core.records.window import Window
from gosched.core.resources import Resources
from gosched.core.sharing import BUILT_IN, Amounts
from gosched.core.spec.placement_rules import Affinity, Taint
from gosched.scheduling.snapshot.columns import Column
from gosched.scheduling.snapshot.labels import NO_VALUE, BoolArray, IntArray, LabelColumns
from gosched.scheduling.snapshot.running_gangs import Holding, RunningGang
from gosched.scheduling.snapshot.task_requests import PendingGang

T = TypeVar("T")

MAX_DERIVED = 128  # results that `NodeColumns.derive` keeps; then it begins anew
GPU_MODEL = "\0gpu_model"  # kept like a label; no label's key has a control character


@dataclass(slots=True, kw_only=True)
class NodeColumns:
    """All nodes as columns: one row for each node."""

    #: Ascending.
    ids: list[str]
    #: Host names.
    names: list[str]
    #: Amounts, [nodes x columns], by the columns in `columns.Column`.
    capacity: IntArray
    #: As `capacity`; below zero where a node came back smaller than what runs on it.
    free: IntArray
    ready: BoolArray
    #: Cordoned or draining, and so not ready.
    closed: BoolArray
    #: Milli-GPUs that each device has free, [nodes x devices]; 0 where the node has no such device.
    gpu_free: IntArray
    #: The island of fast links that each device is in; -1 if unknown.
    gpu_link: IntArray
    #: The NUMA node of each device; -1 if unknown.
    gpu_numa: IntArray
    #: Bytes of each of the node's GPUs; 0 if unknown.
    gpu_memory: IntArray
    #: For each NUMA node the mask of its CPUs; empty if unknown.
    cpus: list[tuple[int, ...]]
    #: Mask of the CPUs that tasks own.
    cpus_owned: list[int]
    #: Index into `taint_sets`.
    taints: IntArray
    #: Each set of taints that a node has or had; the first is empty.
    taint_sets: list[tuple[Taint, ...]]
    #: Columns of the cluster's own resources, by name.
    custom: dict[str, int]
    labels: LabelColumns
    _derived: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @staticmethod
    def empty() -> NodeColumns:
        return NodeColumns(
            ids=[],
            names=[],
            capacity=np.zeros((0, Column.CUSTOM), dtype=np.int64, order="F"),
            free=np.zeros((0, Column.CUSTOM), dtype=np.int64, order="F"),
            ready=np.zeros(0, dtype=np.bool_),
            closed=np.zeros(0, dtype=np.bool_),
            gpu_free=np.zeros((0, 0), dtype=np.int64),
            gpu_link=np.zeros((0, 0), dtype=np.int64),
            gpu_numa=np.zeros((0, 0), dtype=np.int64),
            gpu_memory=np.zeros(0, dtype=np.int64),
            cpus=[],
            cpus_owned=[],
            taints=np.zeros(0, dtype=np.int64),
            taint_sets=[()],
            custom={},
            labels=LabelColumns(),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def copy(self) -> NodeColumns:
        return NodeColumns(
            ids=self.ids.copy(),
            names=self.names.copy(),
            capacity=self.capacity.copy(order="F"),
            free=self.free.copy(order="F"),
            ready=self.ready.copy(),
            closed=self.closed.copy(),
            gpu_free=self.gpu_free.copy(),
            gpu_link=self.gpu_link.copy(),
            gpu_numa=self.gpu_numa.copy(),
            gpu_memory=self.gpu_memory.copy(),
            cpus=self.cpus.copy(),
            cpus_owned=self.cpus_owned.copy(),
            taints=self.taints.copy(),
            taint_sets=self.taint_sets.copy(),
            custom=self.custom.copy(),
            labels=self.labels.copy(),
        )

    def frozen(self) -> NodeColumns:
        """Return a copy that views can share; its arrays can't be written."""
        copy = self.copy()
        for shared in fields(copy):
            column = getattr(copy, shared.name)
            if isinstance(column, np.ndarray):
                column.setflags(write=False)
        return copy

    def with_load_of(self, other: NodeColumns) -> NodeColumns:
        """Return these columns with a copy of what tasks hold in `other`, which are of the same nodes."""
        return self.with_load(other.free.copy(order="F"), other.gpu_free.copy(), other.cpus_owned.copy())

    def with_load(self, free: IntArray, gpu_free: IntArray, cpus_owned: list[int]) -> NodeColumns:
        """Return these columns with another load; both keep together what is derived from the others."""
        loaded = copy(self)
        loaded.free, loaded.gpu_free, loaded.cpus_owned = free, gpu_free, cpus_owned
        return loaded

    def derive(self, key: object, make: Callable[[], T]) -> T:
        """Return what `make` derives from the columns without the load (free, gpu_free, cpus_owned). It is made once
        for all views that share these columns; so only those of a view may be asked, not a builder's own."""
        found: T | None = self._derived.get(key)
        if found is None:
            if len(self._derived) >= MAX_DERIVED:
                self._derived.clear()
            found = self._derived[key] = make()
        return found

    def row(self, node_id: str) -> int:
        """Return the row of a node that is known to be there."""
        return bisect_left(self.ids, node_id)

    def find(self, node_id: str) -> int:
        """Return the row of a node; -1 if it is not known."""
        row = self.row(node_id)
        return row if row < len(self.ids) and self.ids[row] == node_id else -1

    def rows(self, node_ids: list[str] | tuple[str, ...]) -> IntArray:
        """Return the rows of the nodes; unknown ids are left out."""
        found = [self.row(node_id) for node_id in node_ids]
        known = [row for row, node_id in zip(found, node_ids, strict=True) if self.ids[row : row + 1] == [node_id]]
        return np.array(known, dtype=np.int64)

    def longest_id_bytes(self) -> int:
        """Return the length of the longest node id as UTF-8."""
        return max((len(node_id.encode()) for node_id in self.ids), default=0)

    def column_of(self, resource: str) -> int | None:
        """Return the column of a resource by its name; None if no node has it."""
        return BUILT_IN.index(resource) if resource in BUILT_IN else self.custom.get(resource)

    def label(self, key: str) -> IntArray:
        """Return, for each node, the code of its value of the label; NO_VALUE if it has none."""
        return self.labels.column(key, len(self))

    def with_model(self, model: str) -> BoolArray:
        """Return the nodes whose GPUs are of the model."""
        return self.labels.having(((GPU_MODEL, model),), len(self))


NodeFilter = tuple[str, tuple[Affinity, ...]]  # a GPU model or "", and required affinity


class TaskKind(NamedTuple):
    """What counts as one kind of task in the workload."""

    #: Of each task.
    cpu_millis: int
    #: Of each task; below 1000 a share of one GPU.
    gpu_millis: int
    #: Which nodes suit such a task.
    node_filter: NodeFilter


class FreedSoon(NamedTuple):
    """What victims leave on a node beyond what fences there take."""

    amounts: Resources
    #: Milli-GPUs by device number; devices without any are left out.
    gpus: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A gang that broke and starts again, where it ran as far as that can be."""

    #: As it asks, or will ask, to be placed.
    gang: PendingGang
    #: The job's, as it is now.
    attempt: int
    #: Whether it has to stop first.
    stops: bool
    #: What a task of each group holds.
    each: tuple[Resources, ...]
    #: Where it stood, by rank, but for what is lost.
    holdings: tuple[Holding, ...]
    #: How many tasks of each group had a place.
    stood: tuple[int, ...]

    @property
    def job_id(self) -> str:
        return self.gang.job_id


class FencedCharge(NamedTuple):
    """What a fence will hold once it has become a start, by resource name."""

    job_id: str
    queue: str
    tenant: str
    charge: Mapping[str, int]
    #: The part that is charged already: the gang's own tasks hold it, and end before it starts again.
    charged: Mapping[str, int]
    #: Whether one more job will run.
    starts: bool

    def added(self) -> Amounts:
        """Return what it adds to what is held now."""
        return {name: max(amount - self.charged.get(name, 0), 0) for name, amount in self.charge.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The state at one revision, as the planner needs it."""

    revision: int
    nodes: NodeColumns
    #: Gangs that wait, in no particular order.
    pending: tuple[PendingGang, ...]
    #: By path.
    queues: Mapping[str, Queue] = field(default_factory=dict)
    #: By tenant.
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    #: Decayed usage, of queues that have a half-life.
    accounts: tuple[Account, ...] = ()
    #: What the living nodes offer together, by resource name.
    total: Mapping[str, int] = field(default_factory=dict)
    #: What allocations hold, by (queue, tenant, GPU model).
    charges: Mapping[tuple[str, str, str], Resources] = field(default_factory=dict)
    #: Number of RUNNING jobs, by (queue, tenant).
    running: Mapping[tuple[str, str], int] = field(default_factory=dict)
    #: What the pending gangs ask for, by queue and resource name.
    demand: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: Ids of the nodes where jobs hold a place that pending gangs keep away from, by TENANT/NAME.
    avoided: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Number of tasks of live jobs, by kind.
    workload: Mapping[TaskKind, int] = field(default_factory=dict)
    #: For each (label, value) that a plugin tracks, how many tasks of such jobs hold a place, by node id.
    label_counts: Mapping[tuple[str, str], Mapping[str, int]] = field(default_factory=dict)
    #: Gangs that hold a place or a fence, by job id.
    holders: Mapping[str, RunningGang] = field(default_factory=dict)
    fences: tuple[FencedCharge, ...] = ()
    #: What tasks hold that are evicted alone, for a fence, by queue: their gangs run on.
    evicted_alone: tuple[tuple[str, Mapping[str, int]], ...] = ()
    #: Gangs that broke and start again.
    repairs: tuple[Repair, ...] = ()
    #: By job id.
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    windows: tuple[Window, ...] = ()
    #: Whether all masters know standing reservations.
    may_keep_nodes: bool = True
    #: By node id, for nodes with fences: what will be free beyond what is free now, once all victims have ended.
    freed_soon: Mapping[str, FreedSoon] = field(default_factory=dict)


def summed(columns: IntArray) -> IntArray:
    """Return the sum over the nodes, where amounts below zero count as zero.

    Amounts are clipped so that no sum overflows 64 bits; it is exact up to MAX_JOB_DEMAND / nodes for each node.
    """
    most = MAX_JOB_DEMAND // max(len(columns), 1)
    total: IntArray = np.minimum(np.maximum(columns, 0), most).sum(axis=0)
    return total


__all__ = [
    "GPU_MODEL",
    "NO_VALUE",
    "BoolArray",
    "IntArray",
    "NodeColumns",
    "NodeFilter",
    "TaskKind",
    "View",
    "summed",
]
