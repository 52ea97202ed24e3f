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
_SHIFTS = (0, 10, 0)  # bytes as KiB, so that no product overflows 64 bits


class Scale:
    """Capacities against which free amounts are measured."""

    def __init__(self, nodes: NodeColumns) -> None:
        capacity = nodes.capacity[:, _COUNTED] >> _SHIFTS
        self._capacity = np.maximum(capacity, 1)
        self._nodes = len(nodes)
        weights = [SCALE, 0, SCALE] if nodes.capacity[:, Column.GPU].any() else [SCALE, SCALE, 0]
        #: For each counted column its weight, and the most that a node has.
        self._parts = list(zip(weights, capacity.max(axis=0, initial=1).tolist(), strict=True))

    def keys(self, strategy: Strategy, free: IntArray, rows: IntArray) -> IntArray:
        """Return the keys of the rows, of which `free` is given."""
        key: IntArray = np.zeros(len(rows), dtype=np.int64)
        for i, (column, shift, (weight, largest)) in enumerate(zip(_COUNTED, _SHIFTS, self._parts, strict=True)):
            if strategy is Strategy.SPREAD:
                own = self._capacity[rows, i]
                key += (own - (free[:, column] >> shift)) * SCALE // own
            elif weight:
                key += (free[:, column] >> shift) * weight // largest
        return key * self._nodes + rows

    def key(self, strategy: Strategy, free: Sequence[int], row: int) -> int:
        """Return the key of one row, without the cost of arrays."""
        cpu, memory, gpu = free[Column.CPU], free[Column.MEMORY] >> 10, free[Column.GPU]
        if strategy is Strategy.SPREAD:
            x, y, z = self._capacity[row].tolist()
            key = (x - cpu) * SCALE // x + (y - memory) * SCALE // y + (z - gpu) * SCALE // z
        else:
            (a, x), (b, y), (c, z) = self._parts
            key = cpu * a // x + memory * b // y + gpu * c // z
        return int(key * self._nodes + row)
