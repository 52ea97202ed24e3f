"""Answers that were made a moment ago, shared by all who ask for the same.

Invariant: what many ask for at once is made once; at most `most` answers are kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gosched.master.base.cancel import cancel_all, ignore_result
from gosched.master.base.clock import Clock

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Made(Generic[V]):
    task: asyncio.Task[V]
    begun_s: float


class Recent(Generic[V]):
    """Keeps each answer for `kept_s`, counted from when it was asked for."""

    def __init__(self, clock: Clock, *, kept_s: float, most: int) -> None:
        self._clock = clock
        self._kept_s = kept_s
        self._most = most
        self._made: dict[Hashable, _Made[V]] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[V]]) -> V:
        """Return the answer to `key`; one that failed is not kept. Raises what `make` raises."""
        now_s = self._clock.monotonic_s()
        made = self._made.get(key)
        if made is None or (made.task.done() and (_failed(made.task) or now_s - made.begun_s >= self._kept_s)):
            self._made.pop(key, None)
            self._drop_old(now_s)
            made = self._made[key] = _Made(asyncio.ensure_future(_run(make)), now_s)
            ignore_result(made.task)
        return await asyncio.shield(made.task)  # a caller that goes away leaves it to the others

    async def close(self) -> None:
        await cancel_all([made.task for made in self._made.values()])

    def _drop_old(self, now_s: float) -> None:
        """Drop answers that are too old, and the oldest where there are too many. What is being made goes on."""
        done = [key for key, made in self._made.items() if made.task.done()]
        for key in done:
            if now_s - self._made[key].begun_s >= self._kept_s or len(self._made) >= self._most:
                del self._made[key]


async def _run(make: Callable[[], Awaitable[V]]) -> V:
    return await make()


def _failed(task: asyncio.Task[V]) -> bool:
    return task.cancelled() or task.exception() is not None
