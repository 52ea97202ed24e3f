"""The HTTP server of a master: its port, TLS, its connections, and its end.

uvicorn brings the protocol; its own server is not used, which takes the process's signals and polls. So the port is
bound here, and connections are taken in this master's loop, as many as may be open (http/connections.py).
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from email.utils import formatdate

from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.server import ServerState

from gosched.config import ConfigError, Listen
from gosched.master.base.cancel import cancel_all
from gosched.master.http.connections import Bounds, Connections, default_bounds
from gosched.master.http.protocol import KEEP_ALIVE_S, Connection
from gosched.observe.faults import Faults
from gosched.wire.tls_watch import TlsWatch

BACKLOG = 1024
FOR_PROBES = Bounds(total=64, each=32)
STOP_GRACE_S = 1.0
TICK_S = 1.0
MAX_HEADER_BYTES = 32 * 1024


class HttpServer:
    def __init__(self, app: ASGIApp, faults: Faults, *, key: str, bounds: Bounds | None = None) -> None:
        """`key`: the setting of its address, for errors."""
        self._key = key
        self._faults = faults
        self._state = ServerState()
        self._config = Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # a caller is its address, not what it says
            server_header=False,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            timeout_keep_alive=int(KEEP_ALIVE_S),
        )
        self._connections = Connections(self._config, self._state, bounds or default_bounds())
        self._listening: socket.socket | None = None
        self._work: list[asyncio.Task[None]] = []

    async def start(self, listen: Listen, tls: TlsWatch | None, *, guests: bool = False) -> int:
        """Return the port. `guests`: callers without certificates are let in, too. Raises ConfigError."""
        bound = _bound(listen, self._key)
        self._config.load()
        bound.listen(BACKLOG)
        self._listening = bound
        if tls:
            tls.follow(self._connections.renew)
        self._work = [
            asyncio.ensure_future(
                self._faults.keep("HTTP connections", lambda: self._connections.accept(bound, tls, guests=guests))
            ),
            asyncio.ensure_future(self._faults.keep("HTTP connections", self._tick)),
        ]
        return int(bound.getsockname()[1])

    async def stop(self) -> None:
        """End at once what is idle; give the others a moment."""
        await cancel_all(self._work)
        if self._listening is None:
            return
        self._listening.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=STOP_GRACE_S)
        await self._connections.close()
        await cancel_all(list(self._state.tasks))

    async def _tick(self) -> None:
        """Keep the Date header up to date, and look after the connections."""
        while True:
            self._state.default_headers = [(b"date", formatdate(time.time(), usegmt=True).encode())]
            self._connections.check()
            await asyncio.sleep(TICK_S)


def _bound(listen: Listen, key: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    # With the protocol named, which accepted connections inherit: asyncio sets TCP_NODELAY for no others, and without
    # it the body of an answer, which is written after its head, waits 40 ms for the delayed ACK.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((listen.host, listen.port))
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise ConfigError(f"{key}: cannot listen on {listen.address}: {os.strerror(error.errno or 0)}") from error
    return bound
