"""What was raised where no caller hears of it: in loops, listeners, collectors of metrics.

Nothing of a front may end it: only what applies the log may, in the replica and here. So each such place is named, and
an exception costs one turn of it.

Invariant: each exception is counted; the log has the traceback of one of a part in LOG_EVERY_S, and how many others
there were.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import structlog

from gosched.logs.failures import exhausted

LOG_EVERY_S = 60.0
FIRST_PAUSE_S, LAST_PAUSE_S = 0.1, 30.0  # before a loop that has ended is begun again; doubled each time
STEADY_S = 60.0  # a loop that has run for so long begins again after the first pause

log = structlog.get_logger()


class Faults:
    """The exceptions of one front. `count` is told the part of each; parts are named by the code, so they are few."""

    def __init__(self, count: Callable[[str], None] = lambda part: None) -> None:
        self._count = count
        self._logged_at: dict[str, float] = {}
        self._unlogged: dict[str, int] = {}

    def caught(self, part: str, error: BaseException) -> None:
        """Log and count an exception."""
        self._count(part)
        now = time.monotonic()
        if now - self._logged_at.get(part, -LOG_EVERY_S) < LOG_EVERY_S:
            self._unlogged[part] = self._unlogged.get(part, 0) + 1
            return
        self._logged_at[part] = now
        more = self._unlogged.pop(part, 0)
        if why := exhausted(error):
            log.error(why, part=part, not_logged_before=more)
            return
        log.error("internal error, please report it", part=part, not_logged_before=more, exc_info=error)

    @contextmanager
    def guarded(self, part: str) -> Iterator[None]:
        """Let an exception of the block cost the block alone."""
        try:
            yield
        except Exception as error:  # of whatever kind: it is a bug, and is told
            self.caught(part, error)

    async def keep(
        self, part: str, work: Callable[[], Awaitable[object]], *, passes: tuple[type[Exception], ...] = ()
    ) -> NoReturn:
        """Keep a loop running until it is cancelled: when it raises, or ends, it is begun again. `passes`: what its
        caller waits for."""
        pause_s = FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            try:
                await work()
            except passes:
                raise
            except Exception as error:  # of whatever kind: it is a bug, and is told
                self.caught(part, error)
            else:
                self.caught(part, RuntimeError(f"{part} has ended by itself"))
            pause_s = FIRST_PAUSE_S if time.monotonic() - began > STEADY_S else min(2 * pause_s, LAST_PAUSE_S)
            await asyncio.sleep(pause_s)
