"""What is left on the nodes while a plan grows: the tentative overlay of a cycle."""

from __future__ import annotations

import numpy as np

from gosched.core.job import Strategy, StringMap
from gosched.core.resources import GPU as MILLIS
from gosched.scheduling.feasibility import eligible, fits, slots
from gosched.scheduling.scoring import fullness, preference
from gosched.scheduling.view import GPU, Ask, BoolArray, IntArray, NodeColumns, PendingGang, summed


class Room:
    """Only shrinks from gang to gang, so what did not fit once does not fit later in the cycle.

    `total`: free on the ready nodes together. `largest`: the most that one of them had free at the start.
    """

    def __init__(self, nodes: NodeColumns) -> None:
        self.nodes = nodes
        self.free = nodes.free.copy(order="F")
        ready = nodes.free[nodes.ready]
        self.total = summed(ready)
        self.largest: IntArray = ready.max(axis=0, initial=0)
        self._full = fullness(nodes.capacity, self.free)
        self._gpu_busy = nodes.gpu_busy.copy()
        self._preferences: dict[tuple[Strategy, bool], IntArray] = {}
        self._eligible: dict[tuple[StringMap, str], BoolArray] = {}

    def may_hold(self, gang: PendingGang) -> bool:
        """False is certain, and costs nothing per node."""
        return not (self.total < gang.total).any() and not any((self.largest < ask.each).any() for ask in gang.asks)

    def eligible(self, ask: Ask) -> BoolArray:
        key = (ask.selector, ask.gpu_model)
        mask = self._eligible.get(key)
        if mask is None:
            mask = self._eligible[key] = eligible(self.nodes, ask)
        return mask

    def fits(self, ask: Ask) -> BoolArray:
        return fits(self.free, self.eligible(ask), ask)

    def slots(self, ask: Ask) -> IntArray:
        return slots(self.free, self.eligible(ask), ask)

    def preference(self, strategy: Strategy, wants_gpu: bool) -> IntArray:
        key = (strategy, wants_gpu)
        column = self._preferences.get(key)
        if column is None:
            rows = np.arange(len(self.nodes))
            column = self._preferences[key] = preference(*key, self._full, self.nodes.capacity, rows)
        return column

    def take(self, ask: Ask, rows: IntArray, counts: IntArray) -> None:
        """`counts[i]` of the group's tasks onto node `rows[i]`; negative counts give them back."""
        self.free[rows] -= counts[:, None] * np.array(ask.each)
        self._full[rows] = fullness(self.nodes.capacity[rows], self.free[rows])
        for key, column in self._preferences.items():
            column[rows] = preference(*key, self._full, self.nodes.capacity, rows)
        self.total -= np.array(ask.each) * counts.sum()

    def name_gpus(self, row: int, count: int) -> tuple[int, ...]:
        """Takes the node's lowest free GPUs."""
        chosen = np.flatnonzero(~self._gpu_busy[row])[:count]
        self._gpu_busy[row, chosen] = True
        return tuple(chosen.tolist())

    def gpus_of(self, ask: Ask) -> int:
        return -(-ask.each[GPU] // MILLIS)

    def longest_id(self) -> int:
        return max((len(node_id.encode()) for node_id in self.nodes.ids), default=0)
