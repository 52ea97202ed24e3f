"""The nodes in the order of preference of each strategy, kept in step with what is free on them.

Invariant: after each change an order is the one that sorting anew would give. Nodes that hold no task that was asked
for so far are left out of ranked orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from gosched.core.spec.placement_rules import Strategy
from gosched.scheduling.placement.least_request import LeastRequest
from gosched.scheduling.placement.ranking import Ranked, Unranked
from gosched.scheduling.placement.scoring import Scale
from gosched.scheduling.snapshot.columns import Vector
from gosched.scheduling.snapshot.view import IntArray, NodeColumns

MAX_LOOKS = 8  # at all nodes for one task each; then they are ranked, which costs as much as some eight looks
MAX_MOVES = 16  # nodes that move one by one in the ranked order; more than that are sorted anew


class NodeOrders:
    """Keys and ranked orders, made when they are first asked for. `free` is the capacity's own array."""

    def __init__(self, nodes: NodeColumns, free: IntArray) -> None:
        self._free = free
        self._nodes = nodes
        self._keys: dict[Strategy, IntArray] = {}
        #: Read by `FreeCapacity.best` for each task.
        self.ranked: dict[Strategy, Ranked] = {}
        self._looks = 0
        self._least = LeastRequest()

    @cached_property
    def _scale(self) -> Scale:  # most capacities are copies in which nothing is ranked
        return self._nodes.derive("scale", lambda: Scale(self._nodes))

    def keys(self, strategy: Strategy) -> IntArray:
        """Return a key for each row: lower is better."""
        keys = self._keys.get(strategy)
        if keys is None:
            keys = self._keys[strategy] = self._scale.keys(strategy, self._free, np.arange(len(self._nodes)))
        return keys

    def serve(self, each: Vector) -> None:
        """Prepare for a task that asks for these amounts: forget ranked orders that may lack nodes for it."""
        if self._least.lower_to(each):
            self.ranked.clear()

    def order(self, strategy: Strategy) -> Ranked | Unranked:
        """Return the nodes in order, for one search; the columns have to be current. They are ranked if there are more
        searches than a few."""
        self._looks += 1
        if self._looks <= MAX_LOOKS:
            return Unranked(self.keys(strategy), self._nodes.ready, self._free)
        return self._rank(strategy)

    def _rank(self, strategy: Strategy) -> Ranked:
        ready_rows = np.flatnonzero(self._nodes.ready)
        found = self.ranked[strategy] = Ranked(self.keys(strategy), ready_rows, self._free, self._least)
        return found

    def move_one(self, row: int, left: Sequence[int]) -> None:
        """Put a node where it belongs with `left` on it; its key follows with `renew_keys`."""
        for strategy, ranked in self.ranked.items():
            ranked.move(row, self._scale.key(strategy, left, row), left)

    def renew_keys(self, rows: IntArray) -> None:
        for strategy, keys in self._keys.items():
            keys[rows] = self._scale.keys(strategy, self._free[rows], rows)

    def move(self, rows: IntArray) -> None:
        """Put the nodes where they belong with what is free on them now."""
        self.renew_keys(rows)
        if len(rows) > MAX_MOVES:
            self.ranked.clear()
        for strategy, ranked in self.ranked.items():
            keys = self._keys[strategy][rows].tolist()
            for row, key, left in zip(rows.tolist(), keys, self._free[rows].tolist(), strict=True):
                ranked.move(row, key, left)

    def clear(self) -> None:
        self._keys.clear()
        self.ranked.clear()
