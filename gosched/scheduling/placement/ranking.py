"""Nodes in an order of preference that is kept while a plan grows.

A task is placed by looking at the best nodes first, a chunk at a time; then only the node that took it moves. So the
cost of a placement hardly grows with the cluster.

Invariant: after each change the order is that of a fresh sort.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gosched.scheduling.snapshot.labels import BoolArray, IntArray

_FIRST_CHUNK = 64
_GROWTH = 8


class Ranked:
    """The `rows` in ascending order of `keys`, which are unique. `free` is copied, by columns."""

    def __init__(self, keys: IntArray, rows: IntArray, free: IntArray) -> None:
        order = rows[np.argsort(keys[rows])]
        self._keys = keys[order]
        self._key_of = keys.tolist()  # of each row
        self._rows = order
        self._free = np.ascontiguousarray(free[order].T)

    def first(self, wanted: Sequence[tuple[int, int]], masks: Sequence[BoolArray]) -> int:
        """Return the best row with these amounts (column, amount) for which all masks hold; -1 if there is none."""
        low, chunk, end = 0, _FIRST_CHUNK, len(self._rows)
        free = self._free
        while low < end:
            high = low + chunk
            fits: BoolArray | None = None
            for column, amount in wanted:
                enough = free[column, low:high] >= amount
                fits = enough if fits is None else np.logical_and(fits, enough, out=fits)
            for mask in masks:
                allowed = mask[self._rows[low:high]]
                fits = allowed if fits is None else np.logical_and(fits, allowed, out=fits)
            if fits is None:
                return int(self._rows[low])
            place = int(fits.argmax())
            if fits[place]:
                return int(self._rows[low + place])
            low, chunk = high, chunk * _GROWTH
        return -1

    def move(self, row: int, key: int, free: Sequence[int]) -> None:
        """Move a node that has `free` left now, and another key."""
        keys, rows, columns = self._keys, self._rows, self._free
        old = int(keys.searchsorted(self._key_of[row]))
        new = int(keys.searchsorted(key))
        self._key_of[row] = key
        if new <= old:
            keys[new + 1 : old + 1] = keys[new:old]
            rows[new + 1 : old + 1] = rows[new:old]
            columns[:, new + 1 : old + 1] = columns[:, new:old]
        else:
            new -= 1
            keys[old:new] = keys[old + 1 : new + 1]
            rows[old:new] = rows[old + 1 : new + 1]
            columns[:, old:new] = columns[:, old + 1 : new + 1]
        keys[new] = key
        rows[new] = row
        columns[:, new] = free
