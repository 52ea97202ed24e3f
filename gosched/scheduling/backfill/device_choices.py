"""Which devices reserved starts take, in one pass through time.

Invariant: a device that a start takes is free from its start to its end, beside those that were chosen before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from gosched.core.resources import MILLI
from gosched.scheduling.backfill.release_profile import Releases
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.placement.free_devices import FreeDevices, Slot
from gosched.scheduling.snapshot.columns import Column
from gosched.scheduling.snapshot.task_requests import TaskRequest


class Piece(NamedTuple):
    """Equal tasks of a reserved start on one node."""

    #: Number of the reserved start.
    owner: int
    row: int
    start_ms: int
    end_ms: int
    request: TaskRequest
    tasks: int


class DeviceChoices:
    """The choices of one pass, from what is free now and what is released later."""

    def __init__(self, now: FreeCapacity, releases: Releases) -> None:
        self._now = now
        self._releases = releases
        self._number = 0
        #: Milli-GPUs by number of the start, row and device.
        self.taken: dict[tuple[int, int, int], int] = {}
        #: The CPUs that a start owns on a row.
        self.cpus: dict[tuple[int, int], int] = {}

    def choose(self, pieces: Iterable[Piece]) -> list[int]:
        """Choose devices for the pieces, which are in order of their starts. Return the number of the first start that
        does not find its own, if there is one; those after it have none, then."""
        held: list[tuple[int, int, TaskRequest, Slot]] = []  # by end; the second number keeps equal ones apart
        devices: FreeDevices | None = None
        at_ms = -1
        for piece in pieces:
            if devices is None:
                devices = self._devices()
            if piece.start_ms > at_ms:
                devices.grow(self._releases.between(at_ms, piece.start_ms))
                at_ms = piece.start_ms
                while held and held[0][0] <= at_ms:
                    _, _, request, slot = heappop(held)
                    devices.give(request, slot)
            if not _fits(devices, piece):
                return [piece.owner]
            for _ in range(piece.tasks):
                slot = devices.take(piece.request, piece.row)
                self._number += 1
                heappush(held, (piece.end_ms, self._number, piece.request, slot))
                self._note(piece, slot)
        return []

    def _devices(self) -> FreeDevices:
        now = self._now
        return FreeDevices(now.nodes.with_load(now.free, now.devices.gpu_free, now.devices.cpus_owned))

    def _note(self, piece: Piece, slot: Slot) -> None:
        millis = min(piece.request.each[Column.GPU], MILLI)
        for gpu in slot.gpus:
            key = (piece.owner, piece.row, gpu)
            self.taken[key] = self.taken.get(key, 0) + millis
        if slot.cpus:
            self.cpus[piece.owner, piece.row] = self.cpus.get((piece.owner, piece.row), 0) | slot.cpus


def _fits(devices: FreeDevices, piece: Piece) -> bool:
    """Return whether the row has devices for all tasks of the piece."""
    request, nodes, row = piece.request, devices.nodes, piece.row
    free = devices.gpu_free[row].tolist()
    if request.gpu_share:
        return bool(sum([millis // request.gpu_share for millis in free]) >= piece.tasks)
    whole = [gpu for gpu, millis in enumerate(free) if millis == MILLI]
    if request.constraints.needs_numa:
        return int(devices.numa_slots(request)[row]) >= piece.tasks
    if request.constraints.needs_link:
        links = Counter([link for gpu in whole if (link := int(nodes.gpu_link[row, gpu])) >= 0])
        return sum([count // request.whole_gpus for count in links.values()]) >= piece.tasks
    return len(whole) // request.whole_gpus >= piece.tasks
