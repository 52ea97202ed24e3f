"""Cancels tasks for good.

Invariant: the code that cancels a task waits until it has ended, or says that its result is of no use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

REPEAT_S = 0.1


async def cancel_all(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Cancel the tasks until all have ended, and drop their results. It repeats, for `asyncio.wait_for` of Python 3.11
    swallows a cancellation that meets a result."""
    for task in tasks:
        ignore_result(task)
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=REPEAT_S)


def cancel_and_ignore(task: asyncio.Future[Any]) -> None:
    """Cancel a task that nothing waits for any more; its result is of no use, an error included."""
    task.cancel()
    ignore_result(task)


def ignore_result(task: asyncio.Future[Any]) -> None:
    """Let a task end, also with an error, while nothing waits for it."""
    task.add_done_callback(_look)


def _look(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()  # else asyncio reports it as one that was never retrieved
