"""The peers of a simulated member: which of them are connected, and which of these it lets in.

Invariant: as in a replica, a peer that was not let in sends nothing to the log and hears nothing from it. It is
checked that a leader counts no copy on a disk that is gone.
"""

from __future__ import annotations

from typing import Protocol, cast

from gosched.core.records.master import Configuration
from gosched.core.state.cluster_state import ClusterState
from gosched.replication.disk.journal import Journal
from gosched.replication.members.identity import KnownDisks, Met
from gosched.replication.members.membership import Membership
from gosched.replication.peers.hello import Introduction, MemberStatus, member_status
from gosched.replication.raft.member_node import member_node
from gosched.replication.raft.raft_node import RaftNode
from gosched.sim.raft.clock import Clock
from gosched.sim.raft.history import Violation
from gosched.sim.raft.network import Network

_AGAIN_S = 0.5  # between two looks at who is let in


class Introduced(Protocol):
    """A member, as far as introductions go."""

    name: str
    node: RaftNode | None
    known: KnownDisks
    membership: Membership

    @property
    def is_empty(self) -> bool: ...

    @property
    def newest(self) -> Configuration: ...

    @property
    def state(self) -> ClusterState: ...

    @property
    def durable(self) -> Journal | None: ...

    def introduction(self) -> Introduction: ...

    def as_met(self) -> Met: ...

    def hear_removal(self) -> None: ...

    def enter(self) -> None: ...


class Peers:
    def __init__(self, me: Introduced, clock: Clock, network: Network) -> None:
        self._me = me
        self._clock = clock
        self._network = network
        self._connected: set[str] = set()
        self._let_in: set[str] = set()
        self._again_at = 0.0

    def __contains__(self, peer: str) -> bool:
        """Return whether the peer was let in."""
        return peer in self._let_in

    def reset(self) -> None:
        """Forget the connections: the member starts."""
        self._connected.clear()
        self._let_in.clear()

    def connected(self, peer: str) -> None:
        self._connected.add(peer)
        self._introduce(peer)

    def disconnected(self, peer: str) -> None:
        self._connected.discard(peer)
        if self._me.node is not None and peer in self._let_in:
            self._me.enter()
            self._shut_out(peer)

    def turn(self) -> None:
        """Try again those that were not let in, and shut out those that are no members any more."""
        if self._clock.now < self._again_at:
            return
        self._again_at = self._clock.now + _AGAIN_S
        for peer in sorted(self._connected - self._let_in):
            self._introduce(peer)
        for peer in sorted(self._let_in):
            if self._status_of(peer) in (MemberStatus.UNKNOWN, MemberStatus.REMOVED):
                self._shut_out(peer)

    def check_counted(self) -> None:
        """Check that a leader counts no entry of a peer that is not in that peer's log. In one term nothing that was
        told to its leader is cut off.
        """
        leader = self._me.node
        assert leader is not None
        for peer in sorted(self._let_in):
            other, counted = self._member(peer), leader.match_index.get(member_node(peer), 0)
            same_disk = not self._me.known.is_new(peer, other.as_met())
            if other.node is None or not same_disk or other.node.raftCurrentTerm != leader.raftCurrentTerm:
                continue
            has = other.durable.last_index if other.durable is not None else 0
            if counted > has:
                raise Violation(f"{self._me.name} counts {peer}'s copies up to entry {counted}, which has {has}")

    def _shut_out(self, peer: str) -> None:
        self._let_in.discard(peer)
        if self._me.node is not None:
            self._me.node.transport._onNodeDisconnected(member_node(peer))

    def _introduce(self, peer: str) -> None:
        me, other = self._me, self._member(peer)
        if me.node is None or other.node is None:
            return
        place = self._status_of(peer)
        if place is MemberStatus.REMOVED and not self._network.is_cut(me.name, peer):
            self._clock.after(0.01, other.hear_removal)
        if place is MemberStatus.UNKNOWN:
            me.membership.heard(peer, empty=other.is_empty)
        if place in (MemberStatus.REMOVED, MemberStatus.UNKNOWN):
            return
        met = other.as_met()
        if refusal := me.known.refusal(peer, met):
            raise Violation(f"{me.name} refuses {peer}: {refusal}")
        if me.known.is_new(peer, met):
            me.node.forget_match(member_node(peer))
        me.known.note(peer, met)
        me.membership.heard(peer, empty=other.is_empty)
        self._let_in.add(peer)
        me.node.transport._onNodeConnected(member_node(peer))

    def _status_of(self, peer: str) -> MemberStatus:
        other = self._member(peer)
        if other.node is None:
            return MemberStatus.GUEST
        return member_status(other.introduction(), self._me.newest, self._me.state.configuration)

    def _member(self, peer: str) -> Introduced:
        return cast("Introduced", self._network.members[peer])
