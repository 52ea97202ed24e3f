"""One connection over HTTP/1.1: uvicorn's on h11, with a time for each thing that its other end may take.

    IDLE      nothing of a request has come            closed without a word
    HEAD      a part of a request's head has come      408
    BODY      a part of a body has come                408, and a little time more for each 64 KiB
    BUSY      the answer is being made or read         bounded by who makes it, and by Entrance
    LINGER    the answer is sent, the body still comes  aborted
    CLOSING   unread answers are in its buffer          aborted

Invariant: a connection whose other end does nothing ends by itself, in each phase.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from gosched.master.http.problems import problem_body

TRANSPORT = "gosched.transport"  # in the state of an ASGI scope
WRITE_BUFFER_BYTES = 64 * 1024
FIRST_REQUEST_S = 10.0
KEEP_ALIVE_S = 30.0
HEAD_S = 10.0
BODY_S = 20.0
BODY_BYTES_PER_S = 64 * 1024  # at least, after BODY_S
LINGER_S = 3.0
CLOSING_S = 5.0

_SILENT = logging.Logger("gosched.http", logging.CRITICAL + 1)


class Phase(Enum):
    IDLE = "idle"
    HEAD = "head"
    BODY = "body"
    BUSY = "busy"
    LINGER = "linger"
    CLOSING = "closing"


class Connection(H11Protocol):
    """`busy` is told when a request comes and when its answer is sent; `lost`, when the connection has ended."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        *,
        busy: Callable[[Connection, bool], None],
        lost: Callable[[Connection], None],
    ) -> None:
        super().__init__(config, state, {})
        self.logger = _SILENT  # what strangers send is answered, not logged; failures of handlers Entrance logs
        self._busy = busy
        self._lost = lost
        self.retires = False  # with its next answer it ends, and says so
        self._inner = self.app
        self.app = self._serve
        self._requests = 0
        self._serving = 0  # calls whose answer is not sent; two for a moment, where requests come one behind the other
        self._received = 0  # bytes, since the last request began
        self._phase = (Phase.IDLE, 0)
        self._since = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self.app_state = {TRANSPORT: transport}
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._lost(self)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Answer a request that h11 does not take."""
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        self.refuse(status if status in (431, 501) else 400, f"the request is not HTTP/1.1: {error}")

    def refuse(self, status: int, detail: str) -> None:
        """Answer a request that is not whole, if nothing of an answer is sent yet, and close the connection."""
        if self.cycle is not None:
            started = self.cycle.response_started and not self.cycle.response_complete
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if started:
                self.transport.abort()
                return
        body = json.dumps(problem_body(status, detail)).encode()
        headers = [("content-type", "application/problem+json"), ("content-length", str(len(body)))]
        try:
            head = h11.Response(status_code=status, headers=[*headers, ("connection", "close")])
            for event in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            self.transport.abort()  # an answer is sent already
        else:
            self.transport.close()

    def check(self, now: float) -> None:
        """Give the connection up if its other end takes too long. Called about once a second."""
        phase = (self._phase_now(), self._requests)
        if phase != self._phase:
            self._phase, self._since = phase, now
        took = now - self._since
        match phase[0]:
            case Phase.IDLE if took > (KEEP_ALIVE_S if self._requests else FIRST_REQUEST_S):
                self.transport.close()
            case Phase.HEAD if took > HEAD_S:
                self.refuse(408, f"the head of a request did not come within {HEAD_S:.0f} s")
            case Phase.BODY if took > BODY_S + self._received / BODY_BYTES_PER_S:
                self.refuse(408, f"the body of a request did not come within {took:.0f} s")
            case Phase.LINGER if took > LINGER_S:
                self.transport.abort()
            case Phase.CLOSING if took > CLOSING_S:
                self.transport.abort()

    def _phase_now(self) -> Phase:
        if self.transport.is_closing():
            return Phase.CLOSING
        serving = self.cycle is not None and not self.cycle.response_complete
        if self.conn.their_state is h11.SEND_BODY:
            return Phase.BODY if serving else Phase.LINGER
        if serving:
            return Phase.BUSY
        return Phase.HEAD if self._received else Phase.IDLE

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        self._requests += 1
        self._serving += 1
        self._busy(self, True)
        try:
            await self._inner(scope, receive, partial(self._send, send))
        finally:
            self._received = len(self.conn.trailing_data[0])
            self._serving -= 1
            self._busy(self, self._serving > 0)

    async def _send(self, send: Any, message: Any) -> None:
        if self.retires and message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        await send(message)
