"""How the work of many callers shares the event loop with what a master owes its replica, the agents and the other
masters.

Calls over HTTP begin one after the other, with a turn of the loop between any two, so that a crowd of them makes the
turns of the loop no longer than a few do. What looks at thousands of things does so in slices of time, between which
the loop turns. Both tell the replica that this front is at work: a front that is busy leads on, one that stands still
does not.

Invariant: what goes through here keeps the loop for SLICE_S at a stretch, and the one thing more that was under way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

SLICE_S = 0.005

V = TypeVar("V")


class Turns:
    """Lets calls begin one at a time. `say_alive` tells the replica that this front is at work."""

    def __init__(self, say_alive: Callable[[], None]) -> None:
        self.say_alive = say_alive
        self._first = asyncio.Lock()  # wakes those that wait in the order in which they came

    async def begin(self) -> None:
        """Return when it is this call's turn to begin."""
        async with self._first:
            await asyncio.sleep(0)
        self.say_alive()


async def sliced(items: Iterable[V], slice_s: float = SLICE_S) -> AsyncIterator[V]:
    """Yield the items; after each slice of time that was spent on them the loop turns. `items` must not change
    meanwhile: give a copy of what others may change."""
    ends = time.monotonic() + slice_s
    for item in items:
        yield item
        if time.monotonic() > ends:
            await asyncio.sleep(0)
            ends = time.monotonic() + slice_s
