"""Sockets between replicas: one connection per pair of members, dialled by the member with the greater id.

The members and their addresses are those that the log names; the config's are where to begin, while no leader is known.
The other of a pair dials too when it has waited for a while: the one that should may not know its address yet.

Invariant: a connection speaks only after both sides have said who they are, and with TLS their certificates say so
too. What a stranger could have forged has no effect that lasts: a peer's disk is kept in mind once its messages count,
and a refusal ends this master only where it comes from an address that was dialled, or with a certificate.
"""

from __future__ import annotations

import math
import random
import socket
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import structlog

from gosched.core.features import FeatureLevel
from gosched.replication.disk.journal import Journal
from gosched.replication.members.configuration import ids
from gosched.replication.members.identity import KnownDisks, removal_of
from gosched.replication.members.membership import Membership
from gosched.replication.peer_messages import BadFrame, Message, decode, encode
from gosched.replication.peers.connection import Connection
from gosched.replication.peers.handshake import Handshake
from gosched.replication.peers.hello import MemberStatus, introduction_in, member_status, met_in
from gosched.replication.peers.peer_sockets import Dialler, Listener, new_round, send_last
from gosched.replication.peers.peers import Peer, Revoked, Stranger, Target, TlsNow
from gosched.replication.raft.member_node import MemberNode, member_node
from gosched.replication.raft.raft_rules import RuledTransport
from gosched.replication.raft.timing import Slowest, Timing
from gosched.replication.replica_config import split_address
from gosched.wire.addresses import AddressBook
from gosched.wire.plain_text import refusal
from gosched.wire.shared_token import SharedToken
from gosched.wire.v1 import raft_pb2

MAX_STRANGERS = 128  # connections that have not said who they are
_LOOK_S = 0.02  # a loaded replica turns a thousand times a second
_MEASURE_S = 1.0
_OTHER_DIALS_S = 2.0  # the member with the smaller id waits for so long
_UNKNOWN_AGAIN_S = 1.0  # between two calls at a cluster that does not know this member yet
_SAY_AGAIN_S = 30.0
MAX_APPLICANTS = 8
MAX_GUESTS = 8
MAX_COMPLAINTS = 32  # that are remembered of a peer
_RENEW_AFTER_S = 10.0
_APPLICANT_S = 5.0  # how long a wish to be added counts

log = structlog.get_logger()

_OTHER_IS_OPEN = "another address answers"
_REVOKED = "its certificate is revoked"
_UNPROVEN = "it does not have the token of this cluster, or has another one: look at shared_token_file"


class PeerTransport(RuledTransport):
    """The connections of one member; `RuledTransport` says what happens to messages. `refused` is called when a peer
    refuses this member for good."""

    def __init__(
        self,
        raft: Any,
        self_node: MemberNode,
        others: list[MemberNode],
        *,
        journal: Journal,
        membership: Membership,
        known: KnownDisks,
        listener: socket.socket,
        seeds: dict[str, str],
        joins_at: str,
        tls: TlsNow,
        timing: Timing,
        book: AddressBook,
        refused: Callable[[str], None],
        revoked: Revoked = lambda serial: False,
        shared: SharedToken | None = None,
    ) -> None:
        super().__init__(raft, self_node, others, journal=journal, membership=membership)
        self._poller = raft._poller
        self._me = self_node.id
        self._known = known
        self._doubted: deque[str] = deque(maxlen=MAX_STRANGERS)  # refusals that were logged
        self._turned_away: deque[str] = deque(maxlen=MAX_STRANGERS)  # refusals that were logged
        self._tls = tls
        self._tls_seen = tls()
        self._timing = timing
        self._answers = Slowest()
        self._look_at = self._measure_at = 0.0
        self._refused = refused
        self._seeds = {member: split_address(address) for member, address in seeds.items()}
        self._joins_at = joins_at
        self._applicants: dict[str, tuple[str, float]] = {}
        self._say_at = 0.0
        self._peers: dict[str, Peer] = {}
        self._strangers: dict[Connection, Stranger] = {}
        self._handshake = Handshake(
            raft,
            me=self._me,
            journal=journal,
            membership=membership,
            known=known,
            seeds=frozenset(seeds),
            joins_at=joins_at,
            tls=tls,
            revoked=revoked,
            shared=shared,
        )
        self._listener = Listener(self._poller, listener, self._accept)
        self._book = book
        self._dialler = Dialler(book, self._on_dialled, self._complain)
        raft.addOnTickCallback(self._on_tick)

    def seen(self) -> tuple[dict[str, int], dict[str, str]]:
        """Return the newest feature level that each connected member knows, and the masters that ask to be added, with
        where they listen."""
        levels = {p.node.id: p.newest_level for p in self._peers.values() if p.connection is not None}
        if not self._applicants:
            return levels, {}
        now = time.monotonic()
        self._applicants = {m: wish for m, wish in self._applicants.items() if now - wish[1] < _APPLICANT_S}
        return levels, {member: address for member, (address, _) in self._applicants.items()}

    @property
    def ready(self) -> bool:
        return True

    def backlog(self, node: MemberNode) -> int:
        peer = self._peers.get(node.id)
        return peer.connection.unsent_bytes if peer and peer.connection else 0

    def knows_pre_votes(self, node: MemberNode) -> bool:
        peer = self._peers.get(node.id)
        return peer is not None and peer.newest_level >= FeatureLevel.BOUNDED

    def set_members(self) -> None:
        """Follow the newest members of the log; a removed one stays connected until `part` finds it committed."""
        super().set_members()
        now = time.monotonic()
        named = {m.id: m.address for m in self._raft.members.newest().configuration.members if m.id != self._me}
        for member in named.keys() & self._applicants.keys():
            del self._applicants[member]  # it was added: if it is removed next, its old wish must not bring it back
        for member in named.keys() | self._seeds.keys():
            peer = self._peers.setdefault(member, Peer(member_node(member), alone_since=now))
            known = [split_address(named[member])] if named.get(member) else []
            seed = [self._seeds[member]] if member in self._seeds else []
            peer.addresses = tuple(dict.fromkeys([*known, *seed]))
        for member, peer in list(self._peers.items()):
            if member not in named and member not in self._seeds and peer.connection is None and not peer.dialling:
                del self._peers[member]

    def part(self) -> None:
        """Tell members whose removal is committed, and close their connections. Call it now and then."""
        members = self._raft.members
        newest, applied = members.newest().configuration, members.applied()
        named = ids(newest)
        for member, peer in list(self._peers.items()):
            if member in named or peer.connection is None or peer.introduction is None:
                continue
            place = member_status(peer.introduction, newest, applied)
            if place in (MemberStatus.REMOVED, MemberStatus.UNKNOWN):
                self._part_with(peer.connection, member, place)

    def shut_out_revoked(self) -> None:
        """Close the connections of certificates that are revoked. Call it after a change of those."""
        for peer in self._peers.values():
            if peer.connection is not None and self._handshake.is_revoked(peer.connection):
                log.warning("peer refused", peer=peer.node.id, why=_REVOKED)
                peer.connection.close(_REVOKED)

    def destroy(self) -> None:
        self._listener.close()
        for peer in self._peers.values():
            if peer.connection is not None:
                peer.connection.close("this master ends")
        for connection in list(self._strangers):
            connection.close("this master ends")

    def _transmit(self, node: MemberNode, message: Message) -> bool:
        peer = self._peers.get(node.id)
        if peer is None or peer.connection is None:
            return False
        if message["type"] == "append_entries" and peer.unanswered_since is None:
            peer.unanswered_since = time.monotonic()
        return peer.connection.send(encode(message))

    # Each tick

    def _on_tick(self) -> None:
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_S
        if now >= self._measure_at:
            self._measure_at = now + _MEASURE_S
            self._measure()
        if self._tls() is not self._tls_seen:
            self._tls_seen = self._tls()
            self._renew_connections(now)
        least = self._timing.connection
        silence_s = min(max(least, 3 * self._answers.value), 4 * least)
        for peer in self._peers.values():
            if now >= peer.renew_at:
                peer.renew_at = math.inf
                if peer.connection:
                    peer.connection.close("it is made anew, with the new certificates")
            silent_since = peer.unanswered_since
            if peer.connection and silent_since is not None:
                limit_s = silence_s + (self.membership.quiet_s if self._is_quiet(peer) else 0.0)
                if now - silent_since > limit_s:
                    peer.connection.close("no answer")
            if peer.connection is None and now >= peer.next_dial and self._dials(peer, now):
                self._dialler.dial(peer, now)
        for connection, stranger in list(self._strangers.items()):
            if now - stranger.since > self._timing.handshake:
                connection.close("it did not introduce itself in time")

    def _renew_connections(self, now: float) -> None:
        """Make each connection anew in a while, one after the other, so that a majority stays connected and the peers
        have their new certificates."""
        for place, peer in enumerate(self._peers.values(), 1):
            peer.renew_at = now + _RENEW_AFTER_S * place + random.uniform(0, _RENEW_AFTER_S / 2)

    def _is_quiet(self, peer: Peer) -> bool:
        """Return whether the peer joins with an empty disk and has not answered yet: it is silent on purpose (R9)."""
        return peer.introduction is not None and peer.introduction.catching_up and peer.node not in self._heard

    def _dials(self, peer: Peer, now: float) -> bool:
        if not peer.addresses:
            return False
        members = self._raft.members
        if peer.node.id not in ids(members.newest().configuration) and members.is_one and self._raft._getLeader():
            return False  # of the config alone, and not needed
        return self._me > peer.node.id or now - peer.alone_since > _OTHER_DIALS_S

    def _measure(self) -> None:
        trips = [p.connection.round_trip_s() for p in self._peers.values() if p.connection is not None]
        self._elections.round_trip_s = max(trips, default=0.0)
        self._raft.expect_answers_within(self._answers.value)

    def _on_dialled(self, sock: socket.socket, target: Target, peer: Peer) -> None:
        tls = self._tls()
        stranger = Stranger(time.monotonic(), target.host, peer, target.is_fresh)
        peer.dialling[self._stranger(sock, tls.client if tls else None, stranger)] = target

    def _accept(self, sock: socket.socket, host: str) -> None:
        if self._tls() is None and (problem := refusal(host)):
            if problem not in self._turned_away:  # a peer would dial again at once
                self._turned_away.append(problem)
                log.warning("peer refused", why=problem)
            send_last(sock, self._handshake.bare_refusal(problem))
            return
        self._limit_strangers()
        self._stranger(sock, tls.server if (tls := self._tls()) else None, Stranger(time.monotonic(), host)).begin()

    def _limit_strangers(self) -> None:
        """Close the oldest one of the host with the most: idle connections, however many, keep no member out."""
        came = [(stranger, c) for c, stranger in self._strangers.items() if stranger.dialled is None]
        if len(came) >= MAX_STRANGERS:
            most = Counter(stranger.host for stranger, _ in came).most_common(1)[0][0]
            next(c for stranger, c in came if stranger.host == most).close("too many did not say who they are")

    def _stranger(self, sock: socket.socket, tls: ssl.SSLContext | None, stranger: Stranger) -> Connection:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(
            self._poller,
            sock,
            opened=self._on_open,
            frame=self._on_frame,
            closed=self._on_closed,
            tls=tls,
            dialled=stranger.dialled is not None,
        )
        self._strangers[connection] = stranger
        return connection

    # Introduction

    def _on_open(self, connection: Connection) -> None:
        stranger = self._strangers.get(connection)
        if stranger is not None and stranger.dialled is not None:
            # One alone speaks: of two, the peer would keep the one that this side gives up.
            for other in [each for each in stranger.dialled.dialling if each is not connection]:
                stranger.dialled.tried.discard(stranger.dialled.dialling[other].address)
                other.close(_OTHER_IS_OPEN)
        connection.send(self._handshake.hello(dials=stranger is not None and stranger.dialled is not None))

    def _on_frame(self, connection: Connection, data: bytes) -> None:
        try:
            message = decode(data)
        except BadFrame as error:
            connection.close(f"bad frame: {error}")
            return
        stranger = self._strangers.get(connection)
        if isinstance(message, raft_pb2.PeerHello):
            if stranger is None:
                self._on_second_hello(connection, message)
            else:
                self._introduce(connection, stranger, message)
            return
        if stranger is not None:
            connection.close("it spoke before it introduced itself")
            return
        for peer in self._peers.values():
            if peer.connection is connection:
                if peer.unanswered_since is not None:
                    self._answers.note(time.monotonic() - peer.unanswered_since)
                    peer.unanswered_since = None
                self.deliver(peer.node, message)
                if peer.met is not None and self._counts(peer, message):
                    self._known.note(peer.node.id, peer.met)
                    peer.met = None
                return

    def _on_second_hello(self, connection: Connection, hello: raft_pb2.PeerHello) -> None:
        peer = next((p for p in self._peers.values() if p.connection is connection), None)
        if hello.unknown and peer is not None:
            self._wait_to_be_added(peer)
            connection.close("its cluster does not know this master yet")
        elif hello.refusal and peer is not None:
            self._take_refusal(connection, hello, trusted=peer.trusted)
        else:
            connection.close("it introduced itself twice")

    def _counts(self, peer: Peer, message: Message) -> bool:
        """Return whether the peer leads us or follows us in this term: a hello alone proves neither."""
        if message["term"] != self._raft.raftCurrentTerm:
            return False
        if message["type"] == "append_entries":
            return bool(self._raft._getLeader() == peer.node)
        return message["type"] == "next_node_idx" and message["success"] and bool(self._raft._isLeader())

    def _introduce(self, connection: Connection, stranger: Stranger, hello: raft_pb2.PeerHello) -> None:
        # Before anything that it says is believed, a refusal too: it may be a user's.
        if self._handshake.is_unproven(hello, dials=stranger.dialled is None):
            if _UNPROVEN not in self._turned_away:
                self._turned_away.append(_UNPROVEN)
                log.warning("peer refused", peer=hello.member, why=_UNPROVEN)
            connection.close(_UNPROVEN)
            return
        if self._handshake.is_revoked(connection):
            log.warning("peer refused", peer=hello.member, why=_REVOKED)
            connection.close(_REVOKED)  # and it is told nothing: with new files it may come again
            return
        if problem := self._handshake.certificate_problem(connection, hello.member):
            log.warning("peer refused", peer=hello.member, why=problem)
            connection.send(self._handshake.hello(problem))
            connection.close(problem)
            return
        if hello.refusal:
            self._take_refusal(connection, hello, trusted=stranger.is_trusted(self._tls()))
            return
        dialled = stranger.dialled.node.id if stranger.dialled is not None else ""
        if problem := self._handshake.disagreement(hello, dialled=dialled, expected=hello.member in self._peers):
            log.warning("peer refused", peer=hello.member, why=problem)
            connection.close(problem)
            return
        place = self._handshake.status_of(hello)
        if place in (MemberStatus.REMOVED, MemberStatus.UNKNOWN):
            if place is MemberStatus.UNKNOWN:  # one that was removed says so too, until it has heard of it
                self._note_applicant(hello)
            self._part_with(connection, hello.member, place)
            return
        if hello.member not in self._peers and sum(not peer.addresses for peer in self._peers.values()) >= MAX_GUESTS:
            connection.close("too many that the log here does not name")
            return
        if problem := self._handshake.refusal(hello):
            log.warning("peer refused", peer=hello.member, why=problem)
            connection.send(self._handshake.hello(problem))
            connection.close(problem)
            return
        peer = self._peers.setdefault(hello.member, Peer(member_node(hello.member)))
        peer.introduction = introduction_in(hello)
        peer.met, peer.trusted = met_in(hello), stranger.is_trusted(self._tls())
        if self._known.is_new(hello.member, peer.met):
            self._raft.forget_match(peer.node)  # what another disk acknowledged
        elif peer.trusted:
            self._known.note(hello.member, peer.met)
        self.membership.heard(hello.member, empty=hello.empty)
        del self._strangers[connection]
        if target := peer.dialling.pop(connection, None):
            self._book.worked(target.host, [target.address[0]])
        new_round(peer)
        old, peer.connection = peer.connection, connection
        peer.unanswered_since = None
        peer.complaints.clear()
        peer.newest_level = hello.newest_level or FeatureLevel.FIRST  # a release that names none knows no more
        if old is not None:  # the peer came back before we noticed that it was gone
            old.close("replaced by a newer one")
            self._onNodeDisconnected(peer.node)
        log.info("peer connected", peer=peer.node.id)
        self._onNodeConnected(peer.node)

    def _part_with(self, connection: Connection, member: str, place: MemberStatus) -> None:
        if place is MemberStatus.REMOVED:
            log.info("peer turned away: it was removed from the cluster", peer=member)
            connection.send(self._handshake.hello(removal_of(member), removed=True))
        else:
            connection.send(self._handshake.hello(unknown=True))
        connection.close("it is no member")

    def _note_applicant(self, hello: raft_pb2.PeerHello) -> None:
        if hello.joins_at and (hello.member in self._applicants or len(self._applicants) < MAX_APPLICANTS):
            self._applicants[hello.member] = hello.joins_at, time.monotonic()

    def _wait_to_be_added(self, peer: Peer) -> None:
        now = time.monotonic()
        peer.next_dial = now + _UNKNOWN_AGAIN_S
        if now >= self._say_at and not self._raft.members.is_voter:
            self._say_at = now + _SAY_AGAIN_S
            how = "it asks to be added" if self._joins_at else f"goschedctl cluster add-master {self._me} HOST:PORT"
            log.warning(f"the cluster does not know this master yet: {how}")

    def _take_refusal(self, connection: Connection, hello: raft_pb2.PeerHello, *, trusted: bool) -> None:
        if trusted and hello.removed and not self.joining:
            self.membership.is_removed()
            self._refused(hello.refusal)
        elif trusted and hello.member in self._peers and not hello.removed:
            self._refused(hello.refusal)
        elif hello.refusal not in self._doubted:  # it may come twice a second
            self._doubted.append(hello.refusal)
            log.warning("a peer refuses us, but may not be who it says", peer=hello.member, why=hello.refusal)
        connection.close("it refuses us")

    def _on_closed(self, connection: Connection, reason: str) -> None:
        self._strangers.pop(connection, None)
        for peer in list(self._peers.values()):
            if target := peer.dialling.pop(connection, None):
                if reason != _OTHER_IS_OPEN:
                    peer.next_dial = time.monotonic()  # the next address need not wait
                    self._complain(peer, target.address[0], reason)
            elif peer.connection is connection:
                peer.connection = None
                peer.unanswered_since = None
                peer.alone_since = time.monotonic()
                log.info("peer lost", peer=peer.node.id, why=reason)
                self._onNodeDisconnected(peer.node)
                if not peer.addresses:
                    del self._peers[peer.node.id]

    def _complain(self, peer: Peer, at: str, reason: str) -> None:
        if peer.complaints.get(at) != reason:
            if len(peer.complaints) >= MAX_COMPLAINTS:
                peer.complaints.clear()
            peer.complaints[at] = reason
            log.info("peer not reached", peer=peer.node.id, at=at, why=reason)
