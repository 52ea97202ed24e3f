"""Ends tasks for good. Rule: whoever cancels a task waits until it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

REPEAT_S = 0.1


async def end_all(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Cancels until all have ended: `asyncio.wait_for` of Python 3.11 swallows a cancellation that meets a result."""
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=REPEAT_S)
