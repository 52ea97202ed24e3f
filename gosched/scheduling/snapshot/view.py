"""What the planner sees: nodes as columns, pending gangs as records, and how the cluster is shared.

A view is nobody else's: its arrays are copies, its records are frozen. Rows ascend by node id, so that a tie
broken by row is a tie broken by id.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gosched.core.cluster import Account, Queue, Quota, Reservation, Window
from gosched.core.limits import MAX_JOB_DEMAND
from gosched.core.resources import Resources
from gosched.core.sharing import BUILT_IN
from gosched.core.spec import Affinity, Taint
from gosched.scheduling.snapshot.columns import Column
from gosched.scheduling.snapshot.labels import NO_VALUE, BoolArray, IntArray, LabelColumns
from gosched.scheduling.snapshot.running_gangs import RunningGang
from gosched.scheduling.snapshot.task_requests import PendingGang

GPU_MODEL = "\0gpu_model"  # kept like a label; no label's key has a control character


@dataclass(slots=True, kw_only=True)
class NodeColumns:
    """`free` is below zero where a node came back smaller than what runs on it.

    `closed`: cordoned or draining, and so not ready. `gpu_free[row, i]`: milli-GPUs that GPU i has free; 0 where the
    node has no such GPU. `gpu_link`, `gpu_numa`: its island and NUMA node, -1 where unknown. `cpus[row]`: for each NUMA
    node the mask of its CPUs, `cpus_owned[row]` the mask of those that tasks own. `taints[row]`: index into
    `taint_sets`.
    """

    ids: list[str]
    names: list[str]  # of the hosts
    capacity: IntArray
    free: IntArray
    ready: BoolArray
    closed: BoolArray
    gpu_free: IntArray
    gpu_link: IntArray
    gpu_numa: IntArray
    gpu_memory: IntArray
    cpus: list[tuple[int, ...]]
    cpus_owned: list[int]
    taints: IntArray
    taint_sets: list[tuple[Taint, ...]]
    custom: dict[str, int]  # name -> column
    labels: LabelColumns

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

    def row(self, node_id: str) -> int:
        return bisect_left(self.ids, node_id)

    def rows(self, node_ids: list[str] | tuple[str, ...]) -> IntArray:
        """Of those of the nodes that there are."""
        found = [self.row(node_id) for node_id in node_ids]
        known = [row for row, node_id in zip(found, node_ids, strict=True) if self.ids[row : row + 1] == [node_id]]
        return np.array(known, dtype=np.int64)

    def longest_id_bytes(self) -> int:
        return max((len(node_id.encode()) for node_id in self.ids), default=0)

    def column_of(self, resource: str) -> int | None:
        """Return the column of a resource by its name; None if no node has it."""
        return BUILT_IN.index(resource) if resource in BUILT_IN else self.custom.get(resource)

    def label(self, key: str) -> IntArray:
        """A code for each node's value of the label; NO_VALUE without one."""
        return self.labels.column(key, len(self))

    def with_model(self, model: str) -> BoolArray:
        return self.labels.having(((GPU_MODEL, model),), len(self))


NodeFilter = tuple[str, tuple[Affinity, ...]]


class TaskKind(NamedTuple):
    """A kind of task. `where`: the GPU model it names, and its required affinity."""

    cpu_millis: int
    gpu_millis: int
    node_filter: NodeFilter


class FreedSoon(NamedTuple):
    """Amounts, and milli-GPUs by device."""

    amounts: Resources
    gpus: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The state at one revision, as the planner needs it. Gangs stand in no particular order.

    `total`: what the living nodes can give; `charges`: what is held, by (queue, tenant, GPU model); `running`: RUNNING
    jobs by (queue, tenant); `demand`: what the pending gangs of each queue ask for; `standing`: node ids where the
    jobs stand that pending ones keep away from, by job name; `workload`: tasks of live jobs, by kind;
    `labelled`: for each label of jobs that a plugin tracks, how many tasks of jobs with it hold a place, by node id.
    `holders`: gangs that hold a place or a fence, by job id; `repairs`: those that lost a member with a node and are
    about to start again, as they will want to be placed. `soon`: of nodes with fences, what is free for others once all
    have gone that leave, beyond what is free now.
    """

    revision: int
    nodes: NodeColumns
    pending: tuple[PendingGang, ...]
    queues: Mapping[str, Queue] = field(default_factory=dict)
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    accounts: tuple[Account, ...] = ()
    total: Mapping[str, int] = field(default_factory=dict)
    charges: Mapping[tuple[str, str, str], Resources] = field(default_factory=dict)
    running: Mapping[tuple[str, str], int] = field(default_factory=dict)
    demand: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    avoided: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    workload: Mapping[TaskKind, int] = field(default_factory=dict)
    label_counts: Mapping[tuple[str, str], Mapping[str, int]] = field(default_factory=dict)
    holders: Mapping[str, RunningGang] = field(default_factory=dict)
    repairs: tuple[PendingGang, ...] = ()
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    windows: tuple[Window, ...] = ()
    freed_soon: Mapping[str, FreedSoon] = field(default_factory=dict)


def summed(columns: IntArray) -> IntArray:
    """Over the nodes; what is below zero counts as nothing. Clipped so that no sum leaves 64 bits: it is exact up to
    MAX_JOB_DEMAND / nodes for each node."""
    most = MAX_JOB_DEMAND // max(len(columns), 1)
    total: IntArray = np.clip(columns, 0, most).sum(axis=0)
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
