"""The channels to masters of a client with asyncio. Which master is next says `targets.py`."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc.aio

from gosched.client import targets
from gosched.client.credentials import channel_credentials, plain_token, socket_credentials
from gosched.client.errors import GoSchedError, Misused
from gosched.client.looking import look_at_all
from gosched.client.masters import MAX_LEFT
from gosched.client.requests.cluster import get_status
from gosched.client.targets import CLOSED, CONNECT_S, LOOK_UP_S, OPTIONS, Targets, TlsFiles, Token, Tries, is_socket
from gosched.wire.addresses import grpc_dial, name_of
from gosched.wire.shared_token import with_token

T = TypeVar("T")

_UNDER_WAY = (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING)


@dataclass(frozen=True, slots=True)
class _Channel:
    channel: Any
    #: Where it was dialled; empty: gRPC looks the name up, or there is none.
    addresses: tuple[str, ...]


class AsyncMasters:
    """The endpoints, and a channel to each that was used. Channels belong to the loop that was running then."""

    def __init__(
        self,
        endpoints: str | Sequence[str],
        tls: TlsFiles | None,
        token: Token = None,
        *,
        fails_fast: bool = False,
    ) -> None:
        self._targets = Targets(endpoints, tls, token, fails_fast=fails_fast)
        self._channels: dict[tuple[str, int], _Channel] = {}  # by address, and version of the TLS files
        self._left: deque[Any] = deque()  # channels whose names point elsewhere by now; streams over them go on
        self._closing: set[asyncio.Future[None]] = set()
        self._tried: weakref.WeakSet[Any] = weakref.WeakSet()  # channels whose first try to connect has ended
        self._closed = False

    async def call(
        self, rpc: Callable[[Any, float], Awaitable[T]], *, timeout_s: float, try_s: float = targets.TRY_S
    ) -> T:
        """Call `rpc(channel, timeout)` on one master after the other until one answers, each for `try_s` at most.
        Raises GoSchedError."""
        async for channel, left in self.tries(timeout_s, calls=True):
            at_leader = bool(self._targets.leader)
            try:
                with cancelled_as(Misused(CLOSED)):
                    answer = await rpc(channel, min(try_s, left))
                self.answered()
                await self._learn(channel)
                return answer
            except grpc.RpcError as error:
                self._targets.failed(error, at_leader=at_leader)
        raise AssertionError("tries() ends by raising")

    async def tries(self, timeout_s: float, *, calls: bool = False) -> AsyncIterator[tuple[Any, float]]:
        """Yield a channel and the seconds left, again and again, and raise Unavailable when the time is up. `calls`:
        for one call, which the leader serves; a stream may stay with any master."""
        tries = Tries(self._targets, timeout_s)
        while True:
            left = tries.left_s()
            if await self._find(min(targets.TRY_S, left)):
                target = (calls and self._targets.leader) or self._targets.current
                channel = await self.at(target)
                if len(self._targets.known) == 1 or await self._connects(channel, min(CONNECT_S, left)):
                    yield channel, left
                else:
                    self._targets.unconnected(target)
            if tries.time_to_look():
                tries.looked(
                    await asyncio.to_thread(look_at_all, self._targets.known, self._targets.tls, self._targets.book)
                )
            await asyncio.sleep(tries.pause_s())

    async def at(self, target: str) -> Any:
        """Return a channel to the master at this very address."""
        self._targets.check(target)
        version, tls = self._targets.tls_contents()
        key = target, version
        host = name_of(target)
        addresses: tuple[str, ...] = ()
        if host and (target in self._targets.silent or key not in self._channels):
            addresses = await self._targets.book.found(host, LOOK_UP_S)
        if self._closed:
            raise Misused(CLOSED)
        self._targets.silent.discard(target)
        found = self._channels.get(key)
        if found is None or not set(addresses) <= set(found.addresses):
            if found is not None:
                self._leave(found.channel)
            found = _Channel(_open(target, addresses, tls, self._targets.token), addresses)
            self._channels[key] = found
            for old in [old for old in self._channels if self._targets.is_old(old[1])]:
                self._close_soon(self._channels.pop(old).channel)
        return found.channel

    async def _connects(self, channel: Any, wait_s: float) -> bool:
        """Return whether a first try to connect has ended by then, well or not; a later call finds how it went."""
        if channel in self._tried:
            return True
        with contextlib.suppress(TimeoutError), cancelled_as(Misused(CLOSED)):
            async with asyncio.timeout(wait_s):
                while (state := channel.get_state(try_to_connect=True)) in _UNDER_WAY:
                    await channel.wait_for_state_change(state)
                self._tried.add(channel)
                return True
        return False

    def _leave(self, channel: Any) -> None:
        # Not closed with a grace: gRPC then takes it for closed, and `close` could not end its streams before that.
        self._left.append(channel)
        if len(self._left) > MAX_LEFT:
            self._close_soon(self._left.popleft())

    def _close_soon(self, channel: Any) -> None:
        closing = asyncio.ensure_future(channel.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def answered(self) -> None:
        """Note that a master has answered."""
        self._targets.has_answered = True

    def passed_on(self, trailer: Any) -> None:
        """Take up which master a call was passed on to."""
        self._targets.passed_on(trailer)

    def failed(self, error: Any) -> None:
        """Move on to the next master; raise when the error is an answer."""
        self._targets.failed(error)

    async def close(self) -> None:
        """Close all channels. Streams that other tasks follow end, and are not opened anew."""
        self._closed = True
        channels = [*(each.channel for each in self._channels.values()), *self._left]
        self._channels.clear()
        self._left.clear()
        for channel in channels:
            await channel.close()

    def __str__(self) -> str:
        return ",".join(self._targets.endpoints)

    async def _find(self, timeout_s: float) -> bool:
        """See to it that masters are known, and return whether they are."""
        if self._targets.known:
            return True
        from gosched.client.http_endpoint import NoAddresses, grpc_addresses  # urllib takes long to import

        for url in self._targets.urls:
            try:
                tls, book = self._targets.tls, self._targets.book
                self._targets.known = await asyncio.to_thread(
                    grpc_addresses, url, tls, timeout_s, book, self._targets.token
                )
                break
            except NoAddresses as error:
                self._targets.last_error = str(error)
                self._targets.obstacles[url] = error.obstacle
        return bool(self._targets.known)

    async def _learn(self, channel: Any) -> None:
        if not self._targets.time_to_learn():
            return
        call = get_status()
        try:
            status = call.read(await call.rpc.unary(channel)(call.request, timeout=targets.TRY_S))
        except grpc.RpcError:
            return  # the next call meets the same problem, and says so
        self._targets.learn([master.grpc_address for master in status.masters])


@contextmanager
def cancelled_as(error: GoSchedError) -> Iterator[None]:
    """Raise `error` where a call is cancelled, as by `close`: a CancelledError would be taken for the task's."""
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise error from None


def _open(target: str, addresses: tuple[str, ...], tls: tuple[bytes, bytes, bytes] | None, token: Token) -> Any:
    """Return a channel. `addresses`: those of its name; `tls`: CA, key, certificate."""
    dialled, more = grpc_dial(target, addresses)
    options = OPTIONS + more
    if tls is None and token and is_socket(target):
        return grpc.aio.secure_channel(dialled, socket_credentials(token), options=options)
    if tls is None:
        return with_token(grpc.aio.insecure_channel(dialled, options=options), plain_token(target, token))
    return grpc.aio.secure_channel(dialled, channel_credentials(tls, token), options=options)
