"""Slots that are taken on trial.

Invariant: whatever was taken since a mark can be given back in one step, to the last GPU and CPU.
"""

from __future__ import annotations

from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.placement.free_devices import Slot
from gosched.scheduling.snapshot.task_requests import TaskRequest
from gosched.scheduling.snapshot.view import IntArray


class Transaction:
    """One trial on a capacity that nothing else changes meanwhile. Dropping a transaction keeps what it took."""

    def __init__(self, capacity: FreeCapacity) -> None:
        self._capacity = capacity
        self._taken: list[tuple[TaskRequest, list[Slot]]] = []

    def mark(self) -> int:
        return len(self._taken)

    def take(self, request: TaskRequest, rows: IntArray, counts: IntArray) -> list[Slot]:
        """Take slots as `FreeCapacity.take` does."""
        slots = self._capacity.take(request, rows, counts)
        self._taken.append((request, slots))
        return slots

    def take_one(self, request: TaskRequest, row: int, gpu: int | None = None) -> Slot:
        """Take a slot for one task, as `FreeCapacity.take_one` does."""
        slot = self._capacity.take_one(request, row, gpu)
        self._taken.append((request, [slot]))
        return slot

    def undo(self, mark: int = 0) -> None:
        """Give back all that was taken since the mark, the latest first."""
        while len(self._taken) > mark:
            self._capacity.take_back(*self._taken.pop())
