"""The channels to masters of a client without asyncio. Which master is next says `targets.py`."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc

from gosched.client import targets
from gosched.client.credentials import channel_credentials, plain_token, socket_credentials
from gosched.client.errors import Misused
from gosched.client.requests.cluster import get_status
from gosched.client.targets import CLOSED, CONNECT_S, LOOK_UP_S, OPTIONS, Targets, TlsFiles, Token, Tries, is_socket
from gosched.wire.addresses import grpc_dial, name_of
from gosched.wire.shared_token import with_token

T = TypeVar("T")

MAX_LEFT = 16  # channels to addresses that their names have left; of more, the oldest is closed


class Masters:
    """The endpoints, and a channel to each that was used."""

    def __init__(
        self,
        endpoints: str | Sequence[str],
        tls: TlsFiles | None,
        token: Token = None,
        *,
        fails_fast: bool = False,
    ) -> None:
        self._targets = Targets(endpoints, tls, token, fails_fast=fails_fast)
        self._lock = threading.Lock()  # one thread may follow a stream while another closes the client
        self._channels: dict[tuple[str, int], _Channel] = {}  # by address, and version of the TLS files
        self._left: deque[Any] = deque()  # channels whose names point elsewhere by now; streams over them go on
        self._tried: weakref.WeakSet[Any] = weakref.WeakSet()  # channels whose first try to connect has ended
        self._closed = False

    def call(self, rpc: Callable[[Any, float], T], *, timeout_s: float, try_s: float = targets.TRY_S) -> T:
        """Call `rpc(channel, timeout)` on one master after the other until one answers, each for `try_s` at most.
        Raises GoSchedError."""
        for channel, left in self.tries(timeout_s, calls=True):
            at_leader = bool(self._targets.leader)
            try:
                answer = rpc(channel, min(try_s, left))
                self.answered()
                self._learn(channel)
                return answer
            except grpc.RpcError as error:
                self._targets.failed(error, at_leader=at_leader)
        raise AssertionError("tries() ends by raising")

    def tries(self, timeout_s: float, *, calls: bool = False) -> Iterator[tuple[Any, float]]:
        """Yield a channel and the seconds left, again and again, and raise Unavailable when the time is up. `calls`:
        for one call, which the leader serves; a stream may stay with any master."""
        tries = Tries(self._targets, timeout_s)
        while True:
            left = tries.left_s()
            if self._find(min(targets.TRY_S, left)):
                target = (calls and self._targets.leader) or self._targets.current
                channel = self.at(target)
                if len(self._targets.known) == 1 or self._connects(channel, min(CONNECT_S, left)):
                    yield channel, left
                else:
                    self._targets.unconnected(target)
            if tries.time_to_look():
                from gosched.client.looking import look_at_all  # slow to import, and seldom needed

                tries.looked(look_at_all(self._targets.known, self._targets.tls, self._targets.book))
            time.sleep(tries.pause_s())

    def at(self, target: str) -> Any:
        """Return a channel to the master at this very address."""
        self._targets.check(target)
        version, tls = self._targets.tls_contents()
        key = target, version
        found, host = self._channels.get(key), name_of(target)
        is_silent = target in self._targets.silent
        addresses = self._targets.book.find(host, LOOK_UP_S) if host and (is_silent or found is None) else ()
        with self._lock:
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
                    self._channels.pop(old).channel.close()
            return found.channel

    def _leave(self, channel: Any) -> None:
        self._left.append(channel)
        if len(self._left) > MAX_LEFT:
            self._left.popleft().close()

    def _connects(self, channel: Any, wait_s: float) -> bool:
        """Return whether a first try to connect has ended by then, well or not; a later call finds how it went."""
        if channel in self._tried:
            return True
        settled = threading.Event()

        def changed(state: grpc.ChannelConnectivity) -> None:
            if state not in (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING):
                settled.set()

        channel.subscribe(changed, try_to_connect=True)
        try:
            if settled.wait(wait_s):
                self._tried.add(channel)
                return True
            return False
        finally:
            channel.unsubscribe(changed)

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(self._targets.known)

    def answered(self) -> None:
        """Note that a master has answered."""
        self._targets.has_answered = True

    def passed_on(self, trailer: Any) -> None:
        """Take up which master a call was passed on to."""
        self._targets.passed_on(trailer)

    def failed(self, error: Any) -> None:
        """Move on to the next master; raise when the error is an answer."""
        self._targets.failed(error)

    def close(self) -> None:
        """Close all channels. Streams that other threads follow end, and are not opened anew."""
        with self._lock:
            self._closed = True
            channels = [*(each.channel for each in self._channels.values()), *self._left]
            self._channels.clear()
            self._left.clear()
        for channel in channels:
            channel.close()

    def __str__(self) -> str:
        return ",".join(self._targets.endpoints)

    def _find(self, timeout_s: float) -> bool:
        """See to it that masters are known, and return whether they are."""
        if self._targets.known:
            return True
        from gosched.client.http_endpoint import NoAddresses, grpc_addresses  # urllib takes long to import

        for url in self._targets.urls:
            try:
                self._targets.known = grpc_addresses(
                    url, self._targets.tls, timeout_s, self._targets.book, self._targets.token
                )
                break
            except NoAddresses as error:
                self._targets.last_error = str(error)
                self._targets.obstacles[url] = error.obstacle
        return bool(self._targets.known)

    def _learn(self, channel: Any) -> None:
        if not self._targets.time_to_learn():
            return
        call = get_status()
        try:
            status = call.read(call.rpc.unary(channel)(call.request, timeout=targets.TRY_S))
        except grpc.RpcError:
            return  # the next call meets the same problem, and says so
        self._targets.learn([master.grpc_address for master in status.masters])


@dataclass(frozen=True, slots=True)
class _Channel:
    channel: Any
    #: Where it was dialled; empty: gRPC looks the name up, or there is none.
    addresses: tuple[str, ...]


def _open(target: str, addresses: tuple[str, ...], tls: tuple[bytes, bytes, bytes] | None, token: Token) -> Any:
    """Return a channel. `addresses`: those of its name; `tls`: CA, key, certificate."""
    dialled, more = grpc_dial(target, addresses)
    options = OPTIONS + more
    if tls is None and token and is_socket(target):
        return grpc.secure_channel(dialled, socket_credentials(token), options=options)
    if tls is None:
        return with_token(grpc.insecure_channel(dialled, options=options), plain_token(target, token))
    return grpc.secure_channel(dialled, channel_credentials(tls, token), options=options)
