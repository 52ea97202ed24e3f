"""Texts of callers are parsed in threads beside the event loop: a few at once, and large ones one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

R = TypeVar("R")

_parser = ThreadPoolExecutor(2, thread_name_prefix="parse")
_batch_parser = ThreadPoolExecutor(1, thread_name_prefix="parse-batch")


async def parse_aside(parse: Callable[[], R], *, is_batch: bool = False) -> R:
    """Return what `parse` returns. `is_batch`: it may take seconds, and waits for others that do."""
    return await asyncio.get_running_loop().run_in_executor(_batch_parser if is_batch else _parser, parse)
