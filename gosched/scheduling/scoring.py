"""Which node is better: integers only, lower is better, and no two nodes are equal."""

from __future__ import annotations

import numpy as np

from gosched.core.job import Strategy
from gosched.scheduling.view import GPU, MEMORY, STORAGE, IntArray

_SCALE = 1000
_SPARE_GPU_NODES = 10 * _SCALE  # more than any fullness
_SHIFT = np.array([0, 0, 0, 0])
_SHIFT[[MEMORY, STORAGE]] = 10  # bytes as KiB, so that no product overflows 64 bits


def fullness(capacity: IntArray, free: IntArray) -> IntArray:
    """For each node, its used share of each resource in thousandths, summed."""
    capacity, used = capacity >> _SHIFT, (capacity - free) >> _SHIFT
    share: IntArray = np.where(capacity > 0, used * _SCALE // np.maximum(capacity, 1), 0)
    total: IntArray = share.sum(axis=1)
    return total


def preference(strategy: Strategy, wants_gpu: bool, full: IntArray, capacity: IntArray, rows: IntArray) -> IntArray:
    """Of the given rows. BINPACK takes the fullest node first, SPREAD the emptiest. Tasks without GPUs take nodes
    that have some last."""
    order = full[rows] if strategy is Strategy.SPREAD else -full[rows]
    if not wants_gpu:
        order = order + _SPARE_GPU_NODES * (capacity[rows, GPU] > 0)
    unique: IntArray = order * len(full) + rows
    return unique
