"""Queries to the planner besides the cycles: answered one at a time in a thread, about the view as it is then.

Invariant: each caller gets an answer, or is told to come again, in bounded time. One that asks little finds a place
however much others ask, and waits for one query of each of them. The event loop is never held up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar
from weakref import WeakValueDictionary

from gosched.master.base.callers import Shares
from gosched.master.base.errors import busy
from gosched.scheduling import Policy, View

ANSWER_S = 10.0
MAX_WAITING = 64

R = TypeVar("R")
Given = tuple[View, Policy, int, int]  # with the time in ms and the seed, as a cycle would have them


class PlannerQueries:
    def __init__(self, thread: Executor, given: Callable[[], Given]) -> None:
        """`given` is called on the event loop, when the turn of a query comes."""
        self._thread = thread
        self._given = given
        self._waiting = Shares(MAX_WAITING, "planning queries wait")
        self._lock = asyncio.Lock()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # of callers that ask

    async def ask(self, question: Callable[[View, Policy, int, int], R], caller: str) -> R:
        """Return the query's answer. Raises ApiError when there is no time for it."""
        with self._waiting.place(caller):
            turn = self._turns.setdefault(caller, asyncio.Lock())
            try:
                async with asyncio.timeout(ANSWER_S), turn, self._lock:
                    return await asyncio.get_running_loop().run_in_executor(self._thread, question, *self._given())
            except TimeoutError:
                raise busy(f"the planner did not answer within {ANSWER_S:g} s; try again later") from None
