"""Fragmentation gradient descent: how much idle GPU a placement spoils for the tasks that are typical here.

After Weng et al., "Beware of Fragmentation" (ATC'23). Rule: integers in, integers out; a score depends on the node's
own row alone, so a column of scores stays valid for every node that nothing was placed on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gosched.core.resources import MILLI

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

TYPICAL_PERCENT = 95  # of the tasks; rarer requests say little and cost as much
MIN_CPU_MILLIS = 100  # what a task that asks for no CPU counts as
MAX_CELLS = 1 << 20  # of one temporary: 8 MiB, and a handful live at once

_SCORES = range(1, 100)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Demand:
    """What one task asks for. `gpu_millis` below 1000: a share of one GPU, else whole ones; 0: no GPU. `allowed`: the
    column of `model_ok` that says which nodes have a GPU model it may use."""

    cpu_millis: int
    gpu_millis: int
    allowed: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """TaskKind demands, one entry each, those with GPUs only; `total` is the weight of all, those without included.

    `needs`: distinct milli-GPUs that a device must have; `need`: the index of a demand's own among them.
    `thresholds[i]`: the least drop of fragmentation that scores i + 1.
    """

    cpu_millis: IntArray
    gpus: IntArray
    need: IntArray
    needs: IntArray
    allowed: IntArray
    weights: IntArray
    total: int
    thresholds: IntArray

    @staticmethod
    def of(requests: Iterable[tuple[Demand, int]]) -> Workload:
        """`asks`: demands, each with its number of tasks. The order of the input does not matter."""
        typical = _typical(requests)
        total = sum([weight for _, weight in typical])
        with_gpu = [(demand, weight) for demand, weight in typical if demand.gpu_millis]
        needs, need = np.unique(_column([min(d.gpu_millis, MILLI) for d, _ in with_gpu]), return_inverse=True)
        return Workload(
            cpu_millis=_column([d.cpu_millis for d, _ in with_gpu]),
            gpus=_column([max(d.gpu_millis // MILLI, 1) for d, _ in with_gpu]),
            need=need,
            needs=needs,
            allowed=_column([d.allowed for d, _ in with_gpu]),
            weights=_column([weight for _, weight in with_gpu]),
            total=total,
            thresholds=_column([math.ceil(MILLI * total * math.log(s / (100 - s))) for s in _SCORES]),
        )


# (workload, cpu_free, gpu_free, what suits each node) -> milli-GPUs of each node, times the workload's total
Measure = Callable[[Workload, IntArray, IntArray, NDArray[Any]], IntArray]


def placement_scores(
    workload: Workload,
    cpu_millis: int,
    gpu_millis: int,
    cpu_free: IntArray,
    gpu_free: IntArray,
    model_ok: NDArray[Any],
    measure: Measure | None = None,
) -> tuple[IntArray, IntArray]:
    """For each node, the score of placing a task on it, 0 to 100, and the device that a share is best taken from.

    The score is 100 * sigmoid(the drop of fragmentation in GPUs), rounded down: 50 spoils nothing and repairs nothing.
    Rounding matters, it lets the order of nodes decide between those that are about as good. Rows that can't hold the
    task have a score too; it means nothing. The arrays are those of `fragmentation`, or of another `measure`.
    """
    measure = measure or fragmentation
    scores = np.empty(len(cpu_free), dtype=np.int64)
    devices = np.zeros(len(cpu_free), dtype=np.int64)
    width = gpu_free.shape[1]
    cells = max(width, 1) * max(width * len(workload.needs), width, len(workload.weights), 1)  # `width` outcomes
    step = max(MAX_CELLS // cells, 1)
    for first in range(0, len(cpu_free), step):
        rows = slice(first, first + step)
        before = measure(workload, cpu_free[rows], gpu_free[rows], model_ok[rows])
        owner, device, left = _outcomes(gpu_millis, gpu_free[rows])
        after = measure(workload, cpu_free[rows][owner] - cpu_millis, left, model_ok[rows][owner])
        by_device = np.full((len(before), max(width, 1)), -1, dtype=np.int64)
        by_device[owner, device] = np.searchsorted(workload.thresholds, before[owner] - after, side="right")
        devices[rows] = by_device.argmax(axis=1)  # the first of the best
        scores[rows] = by_device.max(axis=1)
    return scores, devices


def fragmentation(workload: Workload, cpu_free: IntArray, gpu_free: IntArray, model_ok: BoolArray) -> IntArray:
    """For each node, the milli-GPUs that are idle and of no use to a typical task, times the workload's `total`.

    `cpu_free[n]` in thousandths; `gpu_free[n, g]` in thousandths of each device, 0 where there is none;
    `model_ok[n, m]` whether node n has a model of set m. To a task that can't run on the node (or needs no GPU) all
    that is idle is of no use; to any other, what is idle on devices with less than it needs.
    """
    idle = gpu_free.sum(axis=1)
    has = gpu_free[:, :, None] >= workload.needs
    enough = has.sum(axis=1)  # devices that have what is needed, and what is idle on these
    useful = (gpu_free[:, :, None] * has).sum(axis=1)
    runs = (cpu_free[:, None] >= workload.cpu_millis) & (enough[:, workload.need] >= workload.gpus)
    runs &= model_ok[:, workload.allowed]
    wasted: IntArray = idle * workload.total - (useful[:, workload.need] * runs) @ workload.weights
    return wasted


def _typical(requests: Iterable[tuple[Demand, int]]) -> list[tuple[Demand, int]]:
    """The most frequent demands that together are TYPICAL_PERCENT of the tasks."""
    counts: Counter[Demand] = Counter()
    for demand, count in requests:
        cpu = demand.cpu_millis or MIN_CPU_MILLIS
        counts[Demand(cpu_millis=cpu, gpu_millis=demand.gpu_millis, allowed=demand.allowed)] += count
    missing = counts.total() * TYPICAL_PERCENT
    typical = []
    for demand, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if missing <= 0:
            break
        typical.append((demand, count))
        missing -= 100 * count
    return typical


def _outcomes(gpu_millis: int, gpu_free: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """What taking `gpu_millis` can leave: for each outcome its row, the device it is taken from and all that is left.

    Devices with equally much left are one outcome, the first; whole GPUs are the first free ones, so there is one too.
    """
    if 0 < gpu_millis < MILLI:
        earlier = np.tri(gpu_free.shape[1], k=-1, dtype=np.bool_)
        again = ((gpu_free[:, :, None] == gpu_free[:, None, :]) & earlier).any(axis=2)
        rows, devices = np.nonzero(~again & (gpu_free >= gpu_millis))
        left = gpu_free[rows]
        left[np.arange(len(rows)), devices] -= gpu_millis
        return rows, devices, left
    free = gpu_free == MILLI
    taken = free & (free.cumsum(axis=1) <= gpu_millis // MILLI)
    rows = np.arange(len(gpu_free))
    return rows, np.zeros_like(rows), np.where(taken, 0, gpu_free)


def _column(values: list[int]) -> IntArray:
    return np.array(values, dtype=np.int64)
