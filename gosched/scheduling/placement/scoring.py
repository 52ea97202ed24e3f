"""Which node is better: integers only, lower is better, and no two nodes are equal (ties fall to the lower id).

BINPACK is best fit: it takes the node with the least CPU and GPU left over, in parts of the largest node's (memory
counts where there are no GPUs). What the task takes itself is the same everywhere, so one order serves all tasks.
SPREAD takes the node that uses the smallest part of what it has itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gosched.core.spec import Strategy
from gosched.scheduling.snapshot.columns import Column
from gosched.scheduling.snapshot.view import IntArray, NodeColumns

SCALE = 1000
_COUNTED = (Column.CPU, Column.MEMORY, Column.GPU)
_SHIFT = np.array([0, 10, 0])  # bytes as KiB, so that no product overflows 64 bits


class Scale:
    """What amounts are measured against."""

    def __init__(self, nodes: NodeColumns) -> None:
        capacity = nodes.capacity[:, _COUNTED] >> _SHIFT
        self._capacity = np.maximum(capacity, 1)
        self._largest = np.maximum(capacity.max(axis=0, initial=1), 1)
        self._nodes = len(nodes)
        has_gpus = bool(nodes.capacity[:, Column.GPU].any())
        self._weights = np.array([SCALE, 0, SCALE] if has_gpus else [SCALE, SCALE, 0])
        self._of_one = list(zip(self._weights.tolist(), self._largest.tolist(), strict=True))

    def keys(self, strategy: Strategy, free: IntArray, rows: IntArray) -> IntArray:
        """Of the given rows; `free` is theirs."""
        left = free[:, _COUNTED] >> _SHIFT
        if strategy is Strategy.SPREAD:
            own = self._capacity[rows]
            key = ((own - left) * SCALE // own).sum(axis=1)
        else:
            key = (left * self._weights // self._largest).sum(axis=1)
        unique: IntArray = key * self._nodes + rows
        return unique

    def key(self, strategy: Strategy, free: Sequence[int], row: int) -> int:
        """The same for one row, without the cost of arrays."""
        cpu, memory, gpu = free[Column.CPU], free[Column.MEMORY] >> 10, free[Column.GPU]
        if strategy is Strategy.SPREAD:
            x, y, z = self._capacity[row].tolist()
            key = (x - cpu) * SCALE // x + (y - memory) * SCALE // y + (z - gpu) * SCALE // z
        else:
            (a, x), (b, y), (c, z) = self._of_one
            key = cpu * a // x + memory * b // y + gpu * c // z
        return int(key * self._nodes + row)
