"""Connections to agents and to other masters: one channel per address and lane, kept open and bounded.

Names are looked up here, and not by gRPC, which has nothing to try while no name server answers.

Invariant: a channel that is given up closes only after its calls have ended, or after a grace.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import structlog

from gosched.config import ConfigError
from gosched.config.settings import Tls
from gosched.core.records.node import Node
from gosched.wire.addresses import RECONNECT, AddressBook, grpc_dial, name_of
from gosched.wire.grpc_tls import channel_credentials
from gosched.wire.role_rules import reader_of
from gosched.wire.roles import BadCertificate, CertificateHolder, Role, node_label, server_name
from gosched.wire.shared_token import with_token
from gosched.wire.tls_watch import TlsWatch

MAX_CHANNELS = 16_384
MAX_CALLS = 64  # in `bounded`, over connections that there are
MAX_DIALS = 32  # and over those that are made first
LOOK_UP_S = 1.0  # at most, before one of these calls
REDIAL_S = 1.0  # a channel that is not connected has so long until it is made anew for other addresses
MAX_ANSWER_BYTES = 64 * 1024 * 1024
STREAMS = "streams"  # the lane of streams, which people may leave unread
STREAM_WINDOW_BYTES = 64 * 1024  # of what is unread of one stream
CLOSE_GRACE_S = 10.0
#: What streams have, once there are new certificates: those of people may last.
RETIRED_GRACE_S = 24 * 3600.0

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
    *RECONNECT,
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)
# Otherwise gRPC finds out how much a connection carries, and takes in as much of each unread stream.
_OF_STREAMS = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", STREAM_WINDOW_BYTES))
_TO_AGENTS = (("grpc.max_reconnect_backoff_ms", 1000),)
# A frozen leader is noticed in the middle of a call (the servers of masters allow these pings), and a master that was
# started anew is found again at once.
_TO_MASTERS = (("grpc.max_reconnect_backoff_ms", 200), ("grpc.keepalive_time_ms", 1000))
_PING_MS = 1000  # for the answer to such a ping, at least


@dataclass(frozen=True, slots=True)
class _Channel:
    channel: Any
    #: The name that it was dialled by; empty: an address.
    host: str
    #: Where that pointed; empty: it was not known yet, and gRPC looks it up.
    addresses: tuple[str, ...]
    #: When it was dialled, in seconds of the monotonic clock.
    since: float


_Key = tuple[str, str, str]  # address, lane, and the name that the server's certificate must have; empty: its host


def watched_tls(tls: Tls | None, member: str) -> TlsWatch | None:
    """Return this master's TLS files, to be watched. Raises ConfigError, also for a certificate that the others would
    not take for this master's."""
    if tls is None:
        return None
    try:
        watch = TlsWatch(tls.cert, tls.key, tls.ca, structlog.get_logger(), roles=reader_of(tls))
    except BadCertificate as error:
        raise ConfigError(f"tls: {error}") from error
    mine = watch.current.holder
    if (mine.role, mine.name) != (Role.MASTER, member):
        wanted = CertificateHolder(cluster=mine.cluster or "CLUSTER", role=Role.MASTER, name=member).uri()
        either = f"{wanted} among its alternative names, or the DNS name {server_name(Role.MASTER, member)}"
        raise ConfigError(f"tls.cert: {tls.cert} must have the URI {either}")
    return watch


def own_certificate(tls: Tls | None, member: str) -> CertificateHolder:
    """Return what this master's certificate says. Raises ConfigError like `watched_tls`."""
    watch = watched_tls(tls, member)
    return watch.current.holder if watch else CertificateHolder()


class Channels:
    """Channels to agents, or to masters.

    Agents are known by the hosts of their addresses, or, with `by_role`, by the DNS name of their role, whatever their
    addresses are. It is so where the master's own certificate has its role in a DNS name: a cluster has one form.

    `token`: what is shown without TLS; empty: nothing.

    Once new certificates are in use, calls go over new channels, and the old ones close after their calls.
    """

    def __init__(
        self,
        tls: TlsWatch | None,
        *,
        book: AddressBook | None = None,
        to_masters: bool = False,
        by_role: bool = False,
        round_trip_ms: int = 0,
        limit: int = MAX_CHANNELS,
        token: str = "",
    ) -> None:
        """`book`: the addresses of names; None: they are kept in memory. `round_trip_ms`: the longest to a master."""
        self._tls = tls
        self._book = book or AddressBook()
        self._token = token
        self._credentials = channel_credentials(tls.current.pem) if tls else None
        if tls:
            tls.follow(self._renew)
        self._options: tuple[tuple[str, int | str], ...] = _OPTIONS + (_TO_MASTERS if to_masters else _TO_AGENTS)
        if to_masters:
            self._options += (("grpc.keepalive_timeout_ms", max(_PING_MS, 2 * round_trip_ms)),)
        self._by_role = by_role
        self._limit = limit
        self._open: OrderedDict[_Key, _Channel] = OrderedDict()  # the one used longest ago first
        self._calls, self._dials = asyncio.Semaphore(MAX_CALLS), asyncio.Semaphore(MAX_DIALS)
        self._closing: set[asyncio.Task[None]] = set()

    def to(self, address: str, lane: str = "") -> Any:
        """Return the channel to an address. Lanes share no connection, so what waits in one holds up nothing in
        another."""
        return self._to((address, lane, ""))

    def to_agent(self, node: Node, lane: str = "") -> Any:
        """Return the channel to a node's agent, whose certificate has to be of this node, or of any."""
        return self._to((node.address, lane, self._name_of(node)))

    @asynccontextmanager
    async def bounded(self, node: Node) -> AsyncIterator[Any]:
        """Return the channel to a node's agent for one of many calls. So many are made at the same time, and fewer
        where a connection has to be made first: thousands at once take so long that they are given up and made again.
        """
        is_connected = self.to_agent(node).get_state() is grpc.ChannelConnectivity.READY
        async with self._calls if is_connected else self._dials:
            if not is_connected:
                await self._book.found(name_of(node.address), LOOK_UP_S)
            yield self.to_agent(node)

    def drop_agent(self, node: Node) -> None:
        for lane in ("", STREAMS):
            if (key := (node.address, lane, self._name_of(node))) in self._open:
                self._give_up(key)

    async def close(self) -> None:
        channels, self._open = [each.channel for each in self._open.values()], OrderedDict()
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*(channel.close() for channel in channels), *self._closing, return_exceptions=True)

    def _name_of(self, node: Node) -> str:
        return server_name(Role.AGENT, node_label(node.name, node.id)) if self._by_role else ""

    def _to(self, key: _Key) -> Any:
        found = self._open.get(key)
        if found is not None and found.host and self._is_outdated(found):
            self._give_up(key)
            found = None
        if found is None:
            found = self._open[key] = self._dial(*key)
            if len(self._open) > self._limit:
                self._give_up(next(iter(self._open)))
        self._open.move_to_end(key)
        return found.channel

    def _is_outdated(self, found: _Channel) -> bool:
        """Return whether a name points elsewhere by now than where its server has not been reached."""
        if found.channel.get_state() is grpc.ChannelConnectivity.READY:
            self._book.worked(found.host, found.addresses or self._book.of(found.host))
            return False
        self._book.ask(found.host)
        tried_s = time.monotonic() - found.since
        return tried_s >= REDIAL_S and not set(self._book.of(found.host)) <= set(found.addresses)

    def _dial(self, address: str, lane: str, server: str) -> _Channel:
        options = self._options + _OF_STREAMS if lane == STREAMS else self._options
        if server:
            options = (*options, ("grpc.ssl_target_name_override", server))
        host = name_of(address)
        self._book.ask(host)
        addresses = self._book.of(host) if host else ()
        target, more = grpc_dial(address, addresses)
        options = (*options, *more)
        if self._credentials is None:
            channel = with_token(grpc.aio.insecure_channel(target, options=options), self._token)
        else:
            channel = grpc.aio.secure_channel(target, self._credentials, options=options)
        return _Channel(channel, host, addresses, time.monotonic())

    def _renew(self) -> None:
        assert self._tls is not None
        self._credentials = channel_credentials(self._tls.current.pem)
        for key in list(self._open):
            self._give_up(key, RETIRED_GRACE_S)

    def _give_up(self, key: _Key, grace_s: float = CLOSE_GRACE_S) -> None:
        task = asyncio.ensure_future(self._open.pop(key).channel.close(grace_s))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
