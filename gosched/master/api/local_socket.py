"""The Unix socket of a master: programs of the same machine call gRPC there, and are known by their accounts.

gRPC does not show a server the credentials of its peers. So connections are accepted here, the kernel is asked whose
they are, and the bytes go on to a socket of the gRPC server in a directory that is closed to all other accounts. The
inner connection comes from a name that was made for it alone, and by that name gRPC shows it: `context.peer()`.

Invariant: a name stands for one connection of one account, and is known before the connection that bears it is made.
Each connection, and what is unread of it, is bounded, in total and for each account; when one side closes, both do.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections import Counter
from dataclasses import dataclass

import structlog

from gosched.master.base.cancel import cancel_all
from gosched.master.base.local_accounts import Credentials, LocalAccounts, LocalUser, NotSeen, credentials_of
from gosched.master.base.socket_file import SocketFile
from gosched.observe.faults import Faults

MAX_CONNECTIONS = 512
MAX_PER_ACCOUNT = 64
UNREAD_BYTES = 64 * 1024  # beyond them the other side is not read from
FIRST_S = 10.0  # for the first bytes of a connection
OPEN_S = 5.0  # to look up an account, and to reach the gRPC server
FLUSH_S = 5.0  # for what is unread when the other side has closed
_REFUSAL_PAUSE_S = 0.001  # so a flood of connections takes little of the loop's time
_ERROR_PAUSE_S = 0.5  # such as too many open files
_TELL_AGAIN_S = 60.0
_RETRY_S = 0.01

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketBounds:
    """How much is taken at once."""

    connections: int = MAX_CONNECTIONS
    per_account: int = MAX_PER_ACCOUNT
    first_s: float = FIRST_S


class LocalSocket:
    """The socket at a path. It is taken at once, so that one in use is known before anything else starts; `open` lets
    callers in."""

    def __init__(self, path: str, faults: Faults, bounds: SocketBounds = SocketBounds()) -> None:
        """Raises ConfigError."""
        self._file = SocketFile(path)
        self._inner = f"{self._file.private}/grpc"
        self._bounds = bounds
        self._faults = faults
        self._accounts = LocalAccounts()
        self._room = asyncio.Semaphore(bounds.connections)
        self._open: Counter[int] = Counter()  # connections of each uid
        self._users: dict[str, LocalUser] = {}  # by the peer that gRPC shows
        self._serving: set[asyncio.Task[None]] = set()
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._told_at = -_TELL_AGAIN_S

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def inner_address(self) -> str:
        """Return where the gRPC server has to listen."""
        return f"unix:{self._inner}"

    @property
    def connections(self) -> int:
        return sum(self._open.values())

    def user(self, peer: str) -> LocalUser | None:
        """Return whose connection this is, by what gRPC calls its other end; None: it did not come through here."""
        return self._users.get(peer)

    async def open(self) -> None:
        """Let callers in. Raises ConfigError."""
        self._listening = self._file.listen()
        listening = self._listening
        self._accepting = asyncio.ensure_future(self._faults.keep("local socket", lambda: self._accept(listening)))

    async def close_door(self) -> None:
        """Let nobody in any more."""
        if self._accepting is not None:
            await cancel_all([self._accepting])
            self._accepting = None
        if self._listening is not None:
            self._listening.close()
        self._file.remove_public()

    async def close(self) -> None:
        """End all connections, and remove the socket."""
        await self.close_door()
        await cancel_all(self._serving)
        self._accounts.close()
        self._file.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            try:
                sock, _ = await loop.sock_accept(listening)
            except OSError as error:
                self._room.release()
                self._tell("connections at the socket cannot be accepted", why=error.strerror)
                await asyncio.sleep(_ERROR_PAUSE_S)
                continue
            except asyncio.CancelledError:
                self._room.release()
                raise
            if (found := self._credentials(sock)) is None:
                sock.close()
                self._room.release()
                await asyncio.sleep(_REFUSAL_PAUSE_S)
                continue
            self._open[found.uid] += 1
            task = asyncio.ensure_future(self._serve(sock, found))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    def _credentials(self, sock: socket.socket) -> Credentials | None:
        """Return whose connection this is; None: it is refused."""
        try:
            found = credentials_of(sock)
        except (NotSeen, OSError) as error:
            self._tell("a connection at the socket was refused", why=str(error))
            return None
        if self._open[found.uid] >= self._bounds.per_account:
            self._tell("an account has too many connections at the socket", uid=found.uid)
            return None
        return found

    async def _serve(self, sock: socket.socket, found: Credentials) -> None:
        peer = ""
        try:
            async with asyncio.timeout(OPEN_S):
                user = await self._accounts.user(found)
                name = f"{self._file.private}/{secrets.token_urlsafe(12)}"
                peer = f"unix:{name}"
                self._users[peer] = user
                inner = await self._dial(name)
            await _splice(sock, inner, self._bounds.first_s)
        except OSError as error:  # TimeoutError is one
            self._tell("a connection at the socket broke off", why=str(error) or "looking up the account took too long")
        finally:
            sock.close()
            self._users.pop(peer, None)
            self._open[found.uid] -= 1
            self._open += Counter()  # without the zeros
            self._room.release()

    async def _dial(self, name: str) -> socket.socket:
        """Return a connection to the gRPC server that comes from this name. Raises OSError."""
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            inner.setblocking(False)
            inner.bind(name)
            try:
                while True:
                    try:
                        inner.connect(self._inner)
                        return inner
                    except BlockingIOError:  # many wait to be accepted
                        await asyncio.sleep(_RETRY_S)
            finally:
                os.unlink(name)  # the connection keeps its name
        except BaseException:
            inner.close()
            raise

    def _tell(self, event: str, **values: object) -> None:
        """Log what others may cause again and again."""
        now = time.monotonic()
        if now - self._told_at >= _TELL_AGAIN_S:
            self._told_at = now
            log.warning(event, socket=self.path, **values)


async def _splice(outer: socket.socket, inner: socket.socket, first_s: float) -> None:
    """Carry bytes both ways until one side closes. Raises OSError."""
    loop = asyncio.get_running_loop()
    ends: list[_End] = []
    try:
        for sock in (inner, outer):
            _, end = await loop.create_unix_connection(_End, sock=sock)
            ends.append(end)
        there, here = ends
        there.join(here)
        here.join(there)
        silent = loop.call_later(first_s, here.end_if_silent)
        try:
            await asyncio.wait([there.lost, here.lost], return_when=asyncio.FIRST_COMPLETED)
        finally:
            silent.cancel()
        await asyncio.wait([there.lost, here.lost], timeout=FLUSH_S)
    finally:
        for end in ends:
            end.abort()
        if not ends:
            inner.close()


class _End(asyncio.Protocol):
    """One of the two ends. It reads once both are joined."""

    def __init__(self) -> None:
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._other: _End | None = None
        self._is_silent = True
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        transport.set_write_buffer_limits(high=UNREAD_BYTES)
        self._transport = transport

    def join(self, other: _End) -> None:
        self._other = other
        self.resume_reading()

    def end_if_silent(self) -> None:
        if self._is_silent:
            self.close()

    def data_received(self, data: bytes) -> None:
        self._is_silent = False
        if self._other is not None and self._other._transport is not None:
            self._other._transport.write(data)

    def eof_received(self) -> None:
        """Let the transport close."""

    def pause_writing(self) -> None:
        if self._other is not None and self._other._transport is not None:
            self._other._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._other is not None:
            self._other.resume_reading()

    def resume_reading(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)
        if self._other is not None:
            self._other.close()

    def close(self) -> None:
        """Close, once what was written is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
