"""Calls of a library that wait for a network or a file system, each in a thread of its own.

The library's own calls for asyncio are not used: they hand results over from its threads, which abort a process that
ends at the same moment. And a pool of threads would keep a process from its end while a shared directory hangs.

Invariant: no more calls than allowed are under way, those included that were given up and have not returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")


class Busy(Exception):
    """As many calls as allowed are under way, and none has returned in time."""


class BoundedCalls:
    """The calls of one event loop."""

    def __init__(self, limit: int) -> None:
        self._free = asyncio.Semaphore(limit)

    async def run(self, work: Callable[[], T], limit_s: float) -> T:
        """Return what `work` returns, or raise what it raises; after `limit_s` raise TimeoutError, and let it go on by
        itself. Raises Busy where it could not begin within `limit_s`."""
        try:
            async with asyncio.timeout(limit_s):
                await self._free.acquire()
        except TimeoutError as error:
            raise Busy from error
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        threading.Thread(target=self._run, args=(work, loop, done), daemon=True).start()
        async with asyncio.timeout(limit_s):
            return await done

    def _run(self, work: Callable[[], T], loop: asyncio.AbstractEventLoop, done: asyncio.Future[T]) -> None:
        settle: Callable[[], None]
        try:
            settle = partial(done.set_result, work())
        except Exception as error:
            settle = partial(done.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(self._end, done, settle)

    def _end(self, done: asyncio.Future[T], settle: Callable[[], None]) -> None:
        self._free.release()
        if not done.done():
            settle()
