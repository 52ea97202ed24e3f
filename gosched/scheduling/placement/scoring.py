"""Which node is better, by BINPACK and by SPREAD.

BINPACK is best fit: it prefers the node with the least CPU and GPU left, in parts of the largest node's (memory counts
where there are no GPUs). What a task takes is the same on every node, so one order serves all tasks. SPREAD prefers the
node that uses the smallest part of its own capacity.

Invariant: keys are integers, lower is better, and no two nodes are equal: ties go to the lower id.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gosched.core.spec.placement_rules import Strategy
from gosched.scheduling.snapshot.columns import Column
from gosched.scheduling.snapshot.view import IntArray, NodeColumns

SCALE = 1000
_COUNTED = (Column.CPU, Column.MEMORY, Column.GPU)
_SHIFT = np.array([0, 10, 0])  # bytes as KiB, so that no product overflows 64 bits


class Scale:
    """Capacities against which free amounts are measured."""

    def __init__(self, nodes: NodeColumns) -> None:
        capacity = nodes.capacity[:, _COUNTED] >> _SHIFT
        self._capacity = np.maximum(capacity, 1)
        self._largest = np.maximum(capacity.max(axis=0, initial=1), 1)
        self._nodes = len(nodes)
        has_gpus = bool(nodes.capacity[:, Column.GPU].any())
        self._weights = np.array([SCALE, 0, SCALE] if has_gpus else [SCALE, SCALE, 0])
        self._of_one = list(zip(self._weights.tolist(), self._largest.tolist(), strict=True))

    def keys(self, strategy: Strategy, free: IntArray, rows: IntArray) -> IntArray:
        """Return the keys of the rows, of which `free` is given."""
        left = free[:, _COUNTED] >> _SHIFT
        if strategy is Strategy.SPREAD:
            own = self._capacity[rows]
            key = ((own - left) * SCALE // own).sum(axis=1)
        else:
            key = (left * self._weights // self._largest).sum(axis=1)
        unique: IntArray = key * self._nodes + rows
        return unique

    def key(self, strategy: Strategy, free: Sequence[int], row: int) -> int:
        """Return the key of one row, without the cost of arrays."""
        cpu, memory, gpu = free[Column.CPU], free[Column.MEMORY] >> 10, free[Column.GPU]
        if strategy is Strategy.SPREAD:
            x, y, z = self._capacity[row].tolist()
            key = (x - cpu) * SCALE // x + (y - memory) * SCALE // y + (z - gpu) * SCALE // z
        else:
            (a, x), (b, y), (c, z) = self._of_one
            key = cpu * a // x + memory * b // y + gpu * c // z
        return int(key * self._nodes + row)
