"""Calls that block, made beside an event loop.

Invariant: a call that hangs keeps neither the loop nor the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[[], T], name: str) -> T:
    """Return the result of a call in a thread of its own, or raise what it raises."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def succeed(value: T) -> None:
        if not result.done():
            result.set_result(value)

    def fail(error: Exception) -> None:
        if not result.done():
            result.set_exception(error)

    def work() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            try:
                value = call()
            except Exception as error:  # raised again, in the loop
                loop.call_soon_threadsafe(fail, error)
            else:
                loop.call_soon_threadsafe(succeed, value)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await result
