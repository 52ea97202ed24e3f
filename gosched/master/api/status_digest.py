"""The status with a digest of the whole state, which takes seconds where there are many jobs: one is made at a time.

Invariant: each caller gets a digest of a revision that is not older than its call; those that call meanwhile share the
next one. One that asks seldom finds a place however often others ask.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gosched.api.status import Status
from gosched.core.state.restore import restore
from gosched.master.api.status import StatusReader
from gosched.master.base.callers import Shares
from gosched.master.base.cancel import ignore_result
from gosched.replication.interface import Replication

MAX_WAITING = 64


class StatusDigest:
    def __init__(self, replication: Replication, status: StatusReader) -> None:
        self._replication = replication
        self._status = status
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[Status] | None = None
        self._waiting = Shares(MAX_WAITING, "calls wait for a digest of the state")

    async def status(self, caller: str) -> Status:
        """Return the status of the cluster, with the digest of the state at its revision. Raises ApiError."""
        with self._waiting.place(caller):
            if self._next is None:
                self._next = asyncio.create_task(self._made())
                ignore_result(self._next)
            return await asyncio.shield(self._next)

    async def _made(self) -> Status:
        async with self._turn:
            self._next = None  # a caller from now on might know of something newer
            status = self._status.read()
            frozen = self._replication.state.freeze()
            return replace(status, digest=await asyncio.to_thread(lambda: restore(frozen).digest()))
