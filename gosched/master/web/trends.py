"""How the cluster was used in the last hour: one sample each SAMPLE_S, in memory.

Invariant: its size is fixed: SAMPLES of a few numbers each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from gosched.core.sharing import charge_of
from gosched.master.api.status import StatusReader

SAMPLE_S = 10.0
SAMPLES = 360
RESOURCES = ("gpu", "cpu", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The cluster at one moment."""

    at_ms: int
    #: Of RESOURCES: what nodes that live have, what allocations hold, and what waiting jobs ask for.
    total: tuple[int, ...]
    used: tuple[int, ...]
    demand: tuple[int, ...]
    pending: int
    running: int


class Trends:
    """The samples of an hour, the oldest first."""

    def __init__(self, status: StatusReader) -> None:
        self._status = status
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)

    async def run(self) -> None:
        """Take a sample now and then; it does not end by itself."""
        while True:
            self.take()
            await asyncio.sleep(SAMPLE_S)

    def take(self) -> None:
        """Take a sample now."""
        status = self._status.read()
        total, used = charge_of(status.total), charge_of(status.used)
        demands = [dict(queue.demand) for queue in status.queues if "." not in queue.path]
        self._samples.append(
            Sample(
                at_ms=status.clock_ms,
                total=tuple([total.get(name, 0) for name in RESOURCES]),
                used=tuple([used.get(name, 0) for name in RESOURCES]),
                demand=tuple([sum(demand.get(name, 0) for demand in demands) for name in RESOURCES]),
                pending=status.pending,
                running=status.running,
            )
        )

    def samples(self) -> list[Sample]:
        return [*self._samples]
