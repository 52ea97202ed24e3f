"""Nodes in an order of preference that is kept while a plan grows.

The order is in two parts, as in a log-structured merge tree: the base, which was sorted at once and is searched a chunk
of nodes at a time, and the few nodes that have moved since, which are looked at one by one. A node that takes a task
moves within the second part, at no cost for the base; when there are many, the parts are merged. Exhausted nodes are in
neither part. So the cost of a placement hardly grows with the cluster, nor with what was placed before.

Invariant: after each change the order is that of a fresh sort of the nodes that are not exhausted.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gosched.scheduling.placement.least_request import LeastRequest
from gosched.scheduling.snapshot.labels import BoolArray, IntArray

_FIRST_CHUNK = 256
_GROWTH = 8
_MOST_MOVED = 64  # nodes beside the base, or one for so many nodes of a larger cluster:
_NODES_PER_MOVED = 128


_NO_KEY = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Unranked:
    """The nodes of a mask in ascending order of `keys`, for a search or two: each looks at all of them."""

    keys: IntArray
    mask: BoolArray
    #: What is free, [nodes x columns].
    free: IntArray

    def first(self, wanted: Sequence[tuple[int, int]], masks: Sequence[BoolArray]) -> int:
        """Return what `Ranked.first` does."""
        fits = self.mask.copy()
        for column, amount in wanted:
            fits &= self.free[:, column] >= amount
        for mask in masks:
            fits &= mask
        row = int(np.where(fits, self.keys, _NO_KEY).argmin()) if len(fits) else -1
        return row if row >= 0 and fits[row] else -1


class Ranked:
    """The `rows` in ascending order of `keys`, which are unique: a key modulo the number of nodes is its row. `free` is
    copied, by columns. `least`: nodes with less than that are exhausted."""

    def __init__(self, keys: IntArray, rows: IntArray, free: IntArray, least: LeastRequest) -> None:
        self._nodes = len(keys)
        self._least = least
        self._most_moved = max(_MOST_MOVED, self._nodes // _NODES_PER_MOVED)
        self._is_ranked = np.zeros(self._nodes, dtype=np.bool_)
        self._is_ranked[rows] = True
        #: Keys of the nodes that moved, ascending.
        self._moved: list[int] = []
        #: The key of each of them, by row, ...
        self._moved_keys: dict[int, int] = {}
        #: ... and what is free there.
        self._left: dict[int, Sequence[int]] = {}
        self._set_base(rows[least.may_fit(free[rows])], keys, free)

    def _set_base(self, rows: IntArray, keys: IntArray, free: IntArray) -> None:
        """Sort these rows. `keys` and `free` are by row."""
        own = keys[rows]
        order = own.argsort()
        self._rows = rows[order]
        self._keys = own[order]
        self._free = np.ascontiguousarray(free[self._rows].T)
        #: False where a node has moved since: then `_free` is below zero, too.
        self._is_there = np.ones(len(rows), dtype=np.bool_)
        #: Of each row the place in the base; -1: it is not there.
        self._place = np.full(self._nodes, -1, dtype=np.int64)
        self._place[self._rows] = np.arange(len(rows))
        self._begin = 0
        self._lowest = int(self._keys[0]) if len(rows) else 1 << 62

    def first(self, wanted: Sequence[tuple[int, int]], masks: Sequence[BoolArray]) -> int:
        """Return the best row with these amounts (column, amount) for which all masks hold; -1 if there is none."""
        nodes, all_left = self._nodes, self._left
        for key in self._moved:
            row = key % nodes
            left = all_left[row]
            for column, amount in wanted:
                if left[column] < amount:
                    break
            else:
                for mask in masks:
                    if not mask[row]:
                        break
                else:
                    if key < self._lowest:
                        return row
                    better = self._first_of_base(wanted, masks, bisect_left(self._keys, key))
                    return row if better < 0 else better
        return self._first_of_base(wanted, masks, len(self._rows))

    def _first_of_base(self, wanted: Sequence[tuple[int, int]], masks: Sequence[BoolArray], end: int) -> int:
        """Return the best row of the base before the place `end`."""
        low, chunk = self._begin, _FIRST_CHUNK
        rows, free = self._rows, self._free
        while low < end:
            high = min(low + chunk, end)
            fits: BoolArray | None = None
            for column, amount in wanted:
                enough = free[column, low:high] >= amount
                fits = enough if fits is None else np.logical_and(fits, enough, out=fits)
            if fits is None:
                fits = self._is_there[low:high].copy()
            for mask in masks:
                np.logical_and(fits, mask[rows[low:high]], out=fits)
            place = int(fits.argmax())
            if fits[place]:
                return int(rows[low + place])
            low, chunk = high, chunk * _GROWTH
        return -1

    def move(self, row: int, key: int, free: Sequence[int]) -> None:
        """Move a node that has `free` left now, and another key."""
        moved = self._moved
        old = self._moved_keys.get(row)
        if old is not None:
            del moved[bisect_left(moved, old)]
        elif (place := int(self._place[row])) >= 0:
            self._drop(row, place)
        elif not self._is_ranked[row]:
            return
        for column, amount in self._least.needs:
            if free[column] < amount:
                if old is not None:
                    del self._moved_keys[row], self._left[row]
                return
        insort(moved, key)
        self._moved_keys[row] = key
        self._left[row] = free
        if len(moved) > self._most_moved:
            self._merge()

    def _drop(self, row: int, place: int) -> None:
        """Take a node out of the base."""
        self._place[row] = -1
        self._is_there[place] = False
        self._free[:, place] = -1  # nothing that is asked for fits
        if place == self._begin:
            there = self._is_there[place:]
            step = int(there.argmax())
            self._begin = place + step if there[step] else len(self._rows)
            self._lowest = int(self._keys[self._begin]) if self._begin < len(self._rows) else 1 << 62

    def _merge(self) -> None:
        """Sort the nodes that moved into the base."""
        there = self._is_there
        stayed, moved = self._rows[there], np.array(list(self._left), dtype=np.int64)
        keys = np.zeros(self._nodes, dtype=np.int64)
        keys[stayed], keys[moved] = self._keys[there], list(self._moved_keys.values())
        free = np.zeros((self._nodes, len(self._free)), dtype=np.int64, order="F")
        free[stayed], free[moved] = self._free[:, there].T, list(self._left.values())
        self._set_base(np.concatenate([stayed, moved]), keys, free)
        self._moved, self._moved_keys, self._left = [], {}, {}
