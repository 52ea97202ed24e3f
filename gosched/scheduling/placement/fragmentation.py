"""Fragmentation gradient descent: how much idle GPU a placement makes useless for the tasks that are typical here.

After Weng et al., "Beware of Fragmentation" (ATC'23).

Invariant: integers in, integers out; a score depends on the node's own row alone, so a column of scores stays valid for
each node on which nothing was placed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gosched.core.resources import MILLI

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

TYPICAL_PERCENT = 95  # of the tasks; rarer requests say little and cost as much as frequent ones
MIN_CPU_MILLIS = 100  # what a task that asks for no CPU counts as
MAX_CELLS = 1 << 20  # of one temporary: 8 MiB, and a handful live at once

_SCORES = range(1, 100)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Demand:
    """What one task asks for."""

    cpu_millis: int
    #: Below 1000: a share of one GPU; else whole GPUs; 0: no GPU.
    gpu_millis: int
    #: The column of `model_ok` that says which nodes suit it.
    allowed: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """The typical demands that ask for GPUs, as columns: one entry for each demand."""

    cpu_millis: IntArray
    #: Number of GPUs; 1 for a share.
    gpus: IntArray
    #: Index into `needs`.
    need: IntArray
    #: The distinct milli-GPUs that a device must have for one of the demands.
    needs: IntArray
    #: What a device is worth for each need, see `_of_device`.
    of_device: IntArray
    #: As in Demand.
    allowed: IntArray
    #: How many tasks are of this demand.
    weights: IntArray
    #: The number of all typical tasks, those without GPUs included.
    total: int
    #: `thresholds[i]` is the least drop of fragmentation that scores i + 1.
    thresholds: IntArray

    @staticmethod
    def of(requests: Iterable[tuple[Demand, int]]) -> Workload:
        """Make the workload of demands, each with its number of tasks, in any order."""
        typical = _typical(requests)
        total = sum([weight for _, weight in typical])
        with_gpu = [(demand, weight) for demand, weight in typical if demand.gpu_millis]
        needs, need = np.unique(_column([min(d.gpu_millis, MILLI) for d, _ in with_gpu]), return_inverse=True)
        return Workload(
            cpu_millis=_column([d.cpu_millis for d, _ in with_gpu]),
            gpus=_column([max(d.gpu_millis // MILLI, 1) for d, _ in with_gpu]),
            need=need,
            needs=needs,
            of_device=_of_device(needs),
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
    """Return the score of placing a task on each node, 0 to 100, and the device that a share is best taken from.

    The score is 100 * sigmoid(the drop of fragmentation in GPUs), rounded down: 50 changes nothing. Rounding matters:
    it lets the order of nodes decide between nodes that are about as good. Rows that cannot hold the task have a score
    without meaning. The arrays are those of `fragmentation`, or of another `measure`.
    """
    measure = measure or fragmentation
    scores = np.empty(len(cpu_free), dtype=np.int64)
    devices = np.zeros(len(cpu_free), dtype=np.int64)
    width = gpu_free.shape[1]
    cells = max(width, 1) * max(2 * width * len(workload.needs), width, len(workload.weights), 1)  # `width` outcomes
    step = max(MAX_CELLS // cells, 1)
    for first in range(0, len(cpu_free), step):
        rows = slice(first, first + step)
        cpu, gpu = cpu_free[rows], gpu_free[rows]
        owner, device, left = _outcomes(gpu_millis, gpu)
        # In one call, as a call on a few nodes costs by its steps: the nodes as they are, and after each outcome.
        which = np.concatenate([np.arange(len(cpu)), owner])
        cpu_left = cpu[which]
        cpu_left[len(cpu) :] -= cpu_millis
        wasted = measure(workload, cpu_left, np.concatenate([gpu, left]), model_ok[rows][which])
        drop = wasted[owner] - wasted[len(cpu) :]
        score = np.searchsorted(workload.thresholds, drop, side="right")
        if device is None:
            scores[rows] = score
            continue
        by_device = np.full((len(cpu), max(width, 1)), -1, dtype=np.int64)
        by_device[owner, device] = score
        devices[rows] = by_device.argmax(axis=1)  # the first of the best
        scores[rows] = by_device.max(axis=1)
    return scores, devices


def fragmentation(workload: Workload, cpu_free: IntArray, gpu_free: IntArray, model_ok: BoolArray) -> IntArray:
    """Return, for each node, the milli-GPUs that are idle and of no use to typical tasks, times the workload's `total`.

    `cpu_free[n]` in thousandths; `gpu_free[n, g]` in thousandths of each device, 0 where there is none;
    `model_ok[n, m]` whether node n has a model of set m. To a task that cannot run on the node (or needs no GPU) all
    that is idle is of no use; to any other task, what is idle on devices with less than it needs.
    """
    by_need = workload.of_device[np.maximum(gpu_free, 0)].sum(axis=1)  # below zero where more is reserved than there is
    useful, enough = by_need[:, : len(workload.needs)], by_need[:, len(workload.needs) :]
    runs = (cpu_free[:, None] >= workload.cpu_millis) & (enough[:, workload.need] >= workload.gpus)
    runs &= model_ok[:, workload.allowed]
    idle = gpu_free.sum(axis=1)
    wasted: IntArray = idle * workload.total - (useful[:, workload.need] * runs) @ workload.weights
    return wasted


def _of_device(needs: IntArray) -> IntArray:
    """Return a table [milli-GPUs that a device has free] -> for each need what is of use to it there (all or nothing),
    then for each need whether the device has it (1 or 0)."""
    free = np.arange(MILLI + 1)[:, None]
    has = free >= needs
    return np.concatenate([free * has, has], axis=1)


def _typical(requests: Iterable[tuple[Demand, int]]) -> list[tuple[Demand, int]]:
    """Return the most frequent demands that together are TYPICAL_PERCENT of the tasks."""
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


def _outcomes(gpu_millis: int, gpu_free: IntArray) -> tuple[IntArray, IntArray | None, IntArray]:
    """Return what taking `gpu_millis` can leave: for each outcome its row, the device, and what is left on all devices.

    Devices with equally much free are one outcome, that of the first. Whole GPUs are the first free ones: each row has
    one outcome, and no device is named.
    """
    if 0 < gpu_millis < MILLI:
        again = ((gpu_free[:, :, None] == gpu_free[:, None, :]) & _earlier(gpu_free.shape[1])).any(axis=2)
        rows, devices = np.nonzero(~again & (gpu_free >= gpu_millis))
        left = gpu_free[rows]
        left[np.arange(len(rows)), devices] -= gpu_millis
        return rows, devices, left
    if gpu_millis:
        free = gpu_free == MILLI
        gpu_free = np.where(free & (free.cumsum(axis=1) <= gpu_millis // MILLI), 0, gpu_free)
    return np.arange(len(gpu_free)), None, gpu_free


@cache
def _earlier(width: int) -> BoolArray:
    """Return which devices come before which, [device x earlier device]."""
    return np.tri(width, k=-1, dtype=np.bool_)


def _column(values: list[int]) -> IntArray:
    return np.array(values, dtype=np.int64)
