"""What the transport keeps of the other members: peers, and connections whose other side is not known yet."""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from gosched.core.features import FeatureLevel
from gosched.replication.members.identity import Met
from gosched.replication.peers.connection import Connection
from gosched.replication.peers.hello import Introduction
from gosched.replication.raft.member_node import MemberNode
from gosched.wire.role_rules import BUILT_IN, RoleReader

Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One of the addresses of a peer, as it is dialled."""

    host: str
    #: What is dialled: the host itself, or where its name points.
    address: Address
    #: The name points there now; False: it did.
    is_fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The two sides of TLS between members."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    #: The cluster that the own certificate names; empty: any.
    cluster: str = ""
    #: Says what role a certificate has.
    roles: RoleReader = BUILT_IN


#: Tell whether the certificate with this serial number is revoked, by the state that is applied here.
Revoked = Callable[[str], bool]

#: Return the two sides as they are in use now: new contents of the files make new ones.
TlsNow = Callable[[], Tls | None]


@dataclass(slots=True)
class Peer:
    """Another member, connected or not."""

    node: MemberNode
    #: Where it may listen, by the log, then by the config; empty: it only dials.
    addresses: tuple[Address, ...] = ()
    #: Where this round of attempts was: an address each.
    tried: set[Address] = field(default_factory=set)
    #: Its names were asked for in this round.
    asked: bool = False
    #: Since when no connection is open, in seconds of the monotonic clock.
    alone_since: float = 0.0
    #: What it last said of itself; None: nothing yet.
    introduction: Introduction | None = None
    #: The connection that is open and introduced; None: there is none.
    connection: Connection | None = None
    #: How it introduced its disk, until its messages count; None after that.
    met: Met | None = None
    #: It answered at an address that was dialled, or its certificate names it.
    trusted: bool = False
    #: The connections that are being made, at most one of which is open.
    dialling: dict[Connection, Target] = field(default_factory=dict)
    #: The earliest time of the next attempt, in seconds of the monotonic clock.
    next_dial: float = 0.0
    #: When the oldest message without an answer was sent; None: all are answered.
    unanswered_since: float | None = None
    #: The newest reasons why it was not reached, by address, so that each is logged once.
    complaints: dict[str, str] = field(default_factory=dict)
    #: The newest feature level that the connected peer said it knows.
    newest_level: int = FeatureLevel.FIRST
    #: When its connection is made anew, for new certificates, in seconds of the monotonic clock.
    renew_at: float = math.inf


@dataclass(slots=True)
class Stranger:
    """A connection whose other side has not introduced itself."""

    #: When it was opened, in seconds of the monotonic clock.
    since: float
    #: The other side's host.
    host: str
    #: The peer that was dialled; None: the other side dialled.
    dialled: Peer | None = None
    #: It was dialled at an address that its name has now, and not at one that was kept.
    is_fresh: bool = False

    def is_trusted(self, tls: Tls | None) -> bool:
        """Return whether it answers at the peer's own address, or its certificate names it."""
        return tls is not None or (self.dialled is not None and self.is_fresh)
