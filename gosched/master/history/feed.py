"""The newest events in memory, for those that watch: one copy for all of them.

A listener is a revision that it has come to; nothing is queued for it. One that is slower than what is held here reads
from the file until it has caught up, so no listener takes memory by being slow.

Invariant: what is held follows on `floor` without a gap, and a listener is told of whole revisions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from gosched.api.history import HistoryEvent

MAX_EVENTS = 5_000
TELL_S = 0.05  # the shortest between two wakes of the listeners
TELL_EACH_S = 0.0005  # more for each listener: waking them all is a bounded part of the loop's time


@dataclass(slots=True)
class FeedBatch:
    """The events of one revision."""

    revision: int
    events: tuple[HistoryEvent, ...]
    #: As server-sent events, made once for all that want all of it; empty: not made yet.
    encoded: bytes = b""


@dataclass(slots=True)
class Feed:
    #: What came later is held here.
    floor: int = 0
    #: The newest revision.
    last: int = 0
    _held: deque[FeedBatch] = field(default_factory=deque)
    _events: int = 0
    _listeners: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _timer: asyncio.TimerHandle | None = None

    def reset(self, revision: int) -> None:
        """Hold nothing: the state was replaced by that of a revision."""
        self._held.clear()
        self._events = 0
        self.floor = self.last = revision
        self._tell_soon()

    def add(self, revision: int, events: tuple[HistoryEvent, ...]) -> None:
        self.last = revision
        if not events:
            return
        self._held.append(FeedBatch(revision, events))
        self._events += len(events)
        while self._events > MAX_EVENTS and len(self._held) > 1:
            gone = self._held.popleft()
            self._events -= len(gone.events)
            self.floor = gone.revision
        self._tell_soon()

    def since(self, revision: int) -> Sequence[FeedBatch] | None:
        """Return what came after a revision; None: some of it is not held any more."""
        if revision < self.floor:
            return None
        found: list[FeedBatch] = []
        for batch in reversed(self._held):
            if batch.revision <= revision:
                break
            found.append(batch)
        return found[::-1]

    async def change(self, timeout_s: float) -> None:
        """Return once there is something new, or after a time."""
        self._listeners += 1
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return
        finally:
            self._listeners -= 1

    def _tell_soon(self) -> None:
        if self._listeners and self._timer is None:
            delay = TELL_S + TELL_EACH_S * self._listeners
            with contextlib.suppress(RuntimeError):  # no loop: nothing waits
                self._timer = asyncio.get_running_loop().call_later(delay, self._tell)

    def _tell(self) -> None:
        self._timer = None
        self._changed.set()
        self._changed = asyncio.Event()
