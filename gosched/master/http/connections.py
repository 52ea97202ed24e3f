"""The connections of the HTTP server: how many there may be, in all and of one address, and which give way.

Invariant: where a bound is reached, the connection that has been without a request for longest gives way to a new one,
so connections that do nothing keep no caller out; with requests on all of them a new one is closed at once.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections import defaultdict
from dataclasses import dataclass

import structlog
from uvicorn.config import Config
from uvicorn.server import ServerState

from gosched.master.base.cancel import cancel_all
from gosched.master.http.protocol import Connection
from gosched.wire.tls_watch import TlsWatch

MAX_CONNECTIONS = 4096
MIN_CONNECTIONS = 64
OF_FILES = 4  # a quarter of the files that this process may open: gRPC and the log need the others
HANDSHAKE_S = 5.0
RETRY_S = 0.5  # after a connection could not be taken

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds of connections that are open at the same time."""

    #: Of all addresses.
    total: int
    #: Of one address.
    each: int


def default_bounds() -> Bounds:
    """Return the bounds for the files that this process may open."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    total = min(MAX_CONNECTIONS, max(MIN_CONNECTIONS, files // OF_FILES))
    return Bounds(total=total, each=total * 3 // 4)


class Connections:
    def __init__(self, config: Config, state: ServerState, bounds: Bounds) -> None:
        self._config = config
        self._state = state
        self._bounds = bounds
        self._hosts: dict[Connection, str] = {}
        self._opening: dict[Connection, asyncio.Task[None]] = {}
        #: Of each address: its connections without a request, the one that has been so for longest first.
        self._idle: dict[str, dict[Connection, None]] = defaultdict(dict)
        self._counts: dict[str, int] = defaultdict(int)

    def __len__(self) -> int:
        return len(self._hosts)

    async def accept(self, listening: socket.socket, tls: TlsWatch | None, *, guests: bool = False) -> None:
        """Take connections until it is cancelled, each with the certificates that are in use then."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                taken, address = await loop.sock_accept(listening)
            except OSError as error:
                log.warning("an HTTP connection could not be taken", why=str(error))
                await asyncio.sleep(RETRY_S)
                continue
            self._admit(taken, str(address[0]), _context(tls, guests=guests))

    def check(self) -> None:
        """Give up connections whose other end takes too long."""
        now = asyncio.get_running_loop().time()
        for connection in list(self._hosts):
            if connection not in self._opening:
                connection.check(now)

    def renew(self) -> None:
        """Let each connection end with its next answer, which says so: its certificates were looked at long ago."""
        for connection in self._hosts:
            connection.retires = True

    async def close(self) -> None:
        """End the connections that are not there yet, and abort all others."""
        await cancel_all(list(self._opening.values()))
        for connection in list(self._hosts):
            connection.transport.abort()

    def _admit(self, taken: socket.socket, host: str, context: ssl.SSLContext | None) -> None:
        full = self._counts[host] >= self._bounds.each and not self._drop_idle(host)
        if full or (len(self) >= self._bounds.total and not self._drop_idle(self._most_idle())):
            taken.close()
            return
        connection = Connection(self._config, self._state, busy=self._busy, lost=self._lost)
        self._hosts[connection] = host
        self._idle[host][connection] = None
        self._counts[host] += 1
        self._opening[connection] = asyncio.ensure_future(self._open(connection, taken, context))

    async def _open(self, connection: Connection, taken: socket.socket, context: ssl.SSLContext | None) -> None:
        timeout_s = HANDSHAKE_S if context else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, taken, ssl=context, ssl_handshake_timeout=timeout_s
            )
        except OSError:  # ssl.SSLError, and a handshake that took too long
            self._lost(connection)
        except asyncio.CancelledError:
            taken.close()
            self._lost(connection)
            raise
        finally:
            self._opening.pop(connection, None)

    def _drop_idle(self, host: str) -> bool:
        """Close the connection of an address that has been without a request for longest; return whether there was
        one."""
        connection = next(iter(self._idle.get(host, ())), None)
        if connection is None:
            return False
        if connection in self._opening:
            self._opening[connection].cancel()
        else:
            connection.transport.abort()
        self._forget(connection)
        return True

    def _most_idle(self) -> str:
        return max(self._idle, key=lambda host: len(self._idle[host]), default="")

    def _busy(self, connection: Connection, busy: bool) -> None:
        if (host := self._hosts.get(connection)) is None:
            return
        if busy:
            self._idle[host].pop(connection, None)
        else:
            self._idle[host][connection] = None

    def _lost(self, connection: Connection) -> None:
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        """Count a connection no more; again: nothing."""
        if (host := self._hosts.pop(connection, None)) is None:
            return
        self._idle[host].pop(connection, None)
        self._counts[host] -= 1
        if not self._counts[host]:
            del self._counts[host]
            self._idle.pop(host, None)


def _context(tls: TlsWatch | None, *, guests: bool) -> ssl.SSLContext | None:
    if tls is None:
        return None
    return tls.current.guests if guests else tls.current.server
