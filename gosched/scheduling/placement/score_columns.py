"""Scores of the nodes by fragmentation or expected waste: one column for each kind of request, kept for the cycle.

Invariant: a score depends on its node alone, so only nodes that changed since are scored again. A node that cannot hold
the task is not scored: it will not hold it before it changes again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gosched.core.resources import MILLI
from gosched.core.spec.placement_rules import Strategy
from gosched.scheduling.placement.expected_waste import ExpectedWaste
from gosched.scheduling.placement.fragmentation import Demand, Workload, placement_scores
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.snapshot.columns import Column
from gosched.scheduling.snapshot.task_requests import TaskRequest
from gosched.scheduling.snapshot.view import BoolArray, IntArray, NodeColumns, NodeFilter, View

_BEST_SCORE = 100


@dataclass(slots=True)
class _Column:
    #: Lower is better, no two are equal. Of a node that cannot hold the task: what it was when it could.
    keys: IntArray
    #: The device of each node that a share is best taken from; without meaning where none has enough.
    devices: IntArray
    #: How much of FreeCapacity.touched the column shows.
    seen: int


class ScoreColumns:
    """The columns of one strategy on one capacity."""

    def __init__(self, strategy: Strategy, view: View, capacity: FreeCapacity) -> None:
        self._capacity = capacity
        kinds = {typical.node_filter: None for typical in view.workload}
        columns = {node_filter: i for i, node_filter in enumerate(sorted(kinds, key=repr))}
        self._model_ok = _suits(view.nodes, list(columns))
        self._workload = Workload.of(
            (Demand(cpu_millis=t.cpu_millis, gpu_millis=t.gpu_millis, allowed=columns[t.node_filter]), count)
            for t, count in view.workload.items()
        )
        self._expected_waste: ExpectedWaste | None = None
        if strategy is Strategy.EXPECTED_WASTE:
            devices = capacity.devices.gpu_free.shape[1]
            self._expected_waste = ExpectedWaste(self._workload, self._model_ok, devices, cpu_short=cpu_is_short(view))
        self._columns: dict[tuple[int, int], _Column] = {}

    def keys(self, request: TaskRequest) -> IntArray:
        """Return a key for each row: lower is better, no two are equal. Higher scores come first, then lower rows."""
        return self._column(request).keys

    def device(self, request: TaskRequest, row: int) -> int | None:
        """Return the device that a share is best taken from; None for a request of whole GPUs or none."""
        return int(self._column(request).devices[row]) if request.gpu_share else None

    def _column(self, request: TaskRequest) -> _Column:
        self._capacity.settle()
        kind = (request.each[Column.CPU], request.each[Column.GPU])
        nodes = len(self._capacity.nodes)
        column = self._columns.get(kind)
        touched = self._capacity.touched
        if column is None:
            rows = np.arange(nodes)
            worst = _BEST_SCORE * nodes + rows
            column = self._columns[kind] = _Column(worst, np.zeros(nodes, np.int64), len(touched))
            self._score(kind, column, rows)
        elif column.seen < len(touched):
            self._score(kind, column, np.array(sorted(set(touched[column.seen :])), dtype=np.int64))
            column.seen = len(touched)
        return column

    def _score(self, kind: tuple[int, int], column: _Column, rows: IntArray) -> None:
        cpu, gpu = kind
        free = self._capacity.free[rows]
        holds = (free[:, Column.CPU] >= cpu) & (free[:, Column.WHOLE if gpu >= MILLI else Column.SHARE] >= gpu)
        rows = rows[holds]
        if not rows.size:
            return
        suits = self._model_ok if self._expected_waste is None else self._expected_waste.kinds
        gpu_free = self._capacity.devices.gpu_free[rows]
        scores, devices = placement_scores(
            self._workload, cpu, gpu, free[holds, Column.CPU], gpu_free, suits[rows], self._expected_waste
        )
        column.keys[rows] = (_BEST_SCORE - scores) * len(self._capacity.nodes) + rows
        column.devices[rows] = devices


def cpu_is_short(view: View) -> bool:
    """Return whether nodes with GPUs would run out of CPUs before GPUs, if tasks came as the live jobs' tasks are.

    Tasks without GPUs take the CPUs of nodes without GPUs first.
    """
    kinds = view.workload.items()
    gpu = sum([kind.gpu_millis * count for kind, count in kinds])
    beside_gpus = sum([kind.cpu_millis * count for kind, count in kinds if kind.gpu_millis])
    alone = sum([kind.cpu_millis * count for kind, count in kinds if not kind.gpu_millis])
    capacity = view.nodes.capacity
    with_gpus = capacity[:, Column.GPU] > 0
    all_gpu = int(capacity[:, Column.GPU].sum())
    cpu, cpu_elsewhere = (int(capacity[rows, Column.CPU].sum()) for rows in (with_gpus, ~with_gpus))
    # Both sides times `gpu`, so that integers do: what is asked for by the time that all GPUs are.
    return beside_gpus * all_gpu + max(alone * all_gpu - cpu_elsewhere * gpu, 0) > cpu * gpu


def _suits(nodes: NodeColumns, kinds: list[NodeFilter]) -> BoolArray:
    """Return whether each node suits each kind of task by GPU model and required affinity, [nodes x kinds]."""
    masks = np.ones((len(nodes), max(len(kinds), 1)), dtype=np.bool_)
    for i, (model, affinity) in enumerate(kinds):
        if model:
            masks[:, i] &= nodes.with_model(model)
        for term in affinity:
            masks[:, i] &= nodes.labels.meeting(term, len(nodes))
    return masks
