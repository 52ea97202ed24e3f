"""The least that tasks have asked for so far, of each amount: a node with less of one of them is exhausted.

Learned from the tasks that are placed, so it is right whoever asks. A task that asks for less than all before it makes
the orders of nodes be sorted anew; so that this happens seldom, the bound then falls to half of what it asks for.

Invariant: the bound only falls.
"""

from __future__ import annotations

import numpy as np

from gosched.core.resources import MILLI
from gosched.scheduling.snapshot.columns import Column, Vector
from gosched.scheduling.snapshot.view import BoolArray, IntArray


class LeastRequest:
    """The bound of one capacity."""

    def __init__(self) -> None:
        self._each: list[int] | None = None
        #: (column, least amount) that a node must have free to be of use to any task.
        self.needs: list[tuple[int, int]] = []

    def lower_to(self, each: Vector) -> bool:
        """Lower the bound to what a task asks for; return whether that changes it."""
        least = self._each
        if least is None:
            self._set(list(each))
            return True
        cpu, memory, storage, gpu = least
        if each[0] >= cpu and each[1] >= memory and each[2] >= storage and each[3] >= gpu:
            return False
        self._set([amount // 2 if amount < bound else bound for amount, bound in zip(each, least, strict=True)])
        return True

    def _set(self, each: list[int]) -> None:
        self._each = each
        cpu, memory, storage, gpu = each
        # A task on GPUs needs a device with so much: the sum of a node's devices says less.
        device = min(gpu, MILLI)
        columns = ((Column.CPU, cpu), (Column.MEMORY, memory), (Column.STORAGE, storage), (Column.SHARE, device))
        self.needs = [(column, amount) for column, amount in columns if amount]

    def may_fit(self, free: IntArray) -> BoolArray:
        """Return a mask of the nodes, of which the free amounts are given, that are not exhausted."""
        mask = np.ones(len(free), dtype=np.bool_)
        for column, amount in self.needs:
            mask &= free[:, column] >= amount
        return mask
