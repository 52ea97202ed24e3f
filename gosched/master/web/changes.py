"""The stream that tells open pages that something has changed: at most once in SHORTEST_S, and never what.

A page then asks for itself anew, as often as `refresh_s` allows: the more pages are open, the rarer. A page that hears
nothing for longer than SILENCE_S takes this master for dead, so a line goes out that often even when nothing changes.

Invariant: a listener holds one small record, however slowly it reads; where none listens nothing is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from gosched.core.access import Permission
from gosched.master.base.access import Access
from gosched.master.base.callers import Caller
from gosched.master.base.errors import ApiError
from gosched.master.http.call import CALL
from gosched.master.web.security import HEADERS
from gosched.replication.interface import AppliedBatch, Replication, Role

SHORTEST_S = 1.0
SILENCE_S = 5.0
MAX_LISTENERS = 4096
LISTENERS_PER_S = 100  # pages that ask anew each second, at most
LEAST_REFRESH_S = 2.0


class Changes:
    """Tells listeners of new revisions."""

    def __init__(self, replication: Replication, access: Access) -> None:
        self._replication = replication
        self._access = access
        self._changed: asyncio.Future[None] | None = None
        self.listeners = 0
        self._stopped = False
        replication.follow(self._on_batch)
        replication.watch_role(self._on_role)

    async def serve(self, request: Request) -> Response:
        """Answer with the stream."""
        if self.listeners >= MAX_LISTENERS or self._stopped:
            headers = {**HEADERS, "Retry-After": "10"}
            return PlainTextResponse("too many pages are open on this master\n", status_code=503, headers=headers)
        caller = request.scope[CALL].caller
        self._access.check(caller, Permission.VIEW)
        request.scope[CALL].become_stream()
        headers = {**HEADERS, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._guarded(caller), media_type="text/event-stream", headers=headers)

    def stop(self) -> None:
        """End all streams, so that the master can stop."""
        self._stopped = True
        self._wake()

    async def _guarded(self, caller: Caller) -> AsyncIterator[bytes]:
        """Yield the lines until the caller may see pages no more."""
        lines = self._access.guarded(caller, lambda: self._access.check(caller, Permission.VIEW), self._lines())
        with contextlib.suppress(ApiError):  # the page asks again, and is told why not
            async for line in lines:
                yield line

    async def _lines(self) -> AsyncIterator[bytes]:
        self.listeners += 1
        try:
            yield b"retry: 1000\n\n"
            while not self._stopped:
                yield self._line()
                told = self._replication.state.revision
                await asyncio.sleep(SHORTEST_S)
                if self._replication.state.revision == told:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(SILENCE_S - SHORTEST_S):
                            await self._next_change()
        finally:
            self.listeners -= 1

    def _line(self) -> bytes:
        told = {
            "revision": self._replication.state.revision,
            "leader": self._replication.role.leader,
            "refresh_s": max(LEAST_REFRESH_S, self.listeners / LISTENERS_PER_S),
        }
        return f"event: change\ndata: {json.dumps(told)}\n\n".encode()

    async def _next_change(self) -> None:
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._changed)

    def _on_batch(self, batch: AppliedBatch) -> None:
        self._wake()

    def _on_role(self, role: Role) -> None:
        self._wake()

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
        self._changed = None
