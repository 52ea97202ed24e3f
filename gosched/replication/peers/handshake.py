"""What a member says when a connection opens, and how it judges what the other side says.

Invariant: nothing here changes who is connected; a judgement is returned, in words or as a `MemberStatus`.
"""

from __future__ import annotations

import hmac
from typing import Any

from gosched.core.features import NEWEST_LEVEL, FeatureLevel
from gosched.replication.disk.journal import Journal
from gosched.replication.members.identity import KnownDisks, Met
from gosched.replication.members.membership import Membership
from gosched.replication.peers.connection import Connection
from gosched.replication.peers.hello import MemberStatus, disagreement, introduction_in, member_status, met_in
from gosched.replication.peers.peers import Revoked, TlsNow
from gosched.replication.raft.member_node import member_node
from gosched.wire.roles import BadCertificate, CertificateHolder, Role
from gosched.wire.shared_token import SharedToken
from gosched.wire.v1 import raft_pb2

PROTOCOL = 1


class Handshake:
    """The hello of this member, and the checks of a peer's."""

    def __init__(
        self,
        raft: Any,
        *,
        me: str,
        journal: Journal,
        membership: Membership,
        known: KnownDisks,
        seeds: frozenset[str],
        joins_at: str,
        tls: TlsNow,
        revoked: Revoked,
        shared: SharedToken | None = None,
    ) -> None:
        """`seeds`: members of the config; `joins_at`: the address at which this member asks to be added, or empty.
        `shared`: the token of a cluster without TLS; None: there is none."""
        self._raft = raft
        self._me = me
        self._journal = journal
        self._membership = membership
        self._known = known
        self._seeds = seeds
        self._joins_at = joins_at
        self._tls = tls
        self._revoked = revoked
        self._shared = shared

    def hello(self, refusal: str = "", *, removed: bool = False, unknown: bool = False, dials: bool = False) -> bytes:
        """Return the frame that introduces this member, or that refuses the peer for a reason. `dials`: this member
        opened the connection."""
        identity = self._membership.identity
        return raft_pb2.PeerFrame(
            hello=raft_pb2.PeerHello(
                cluster=identity.cluster,
                member=self._me,
                protocol=PROTOCOL,
                disk=identity.disk,
                joining=identity.came_later,
                refusal=refusal,
                cluster_id=identity.cluster_id,
                newest_level=NEWEST_LEVEL,
                empty=self._membership.is_empty(self._journal.last_index),
                boot=identity.boot,
                run=identity.run,
                term=self._journal.getCurrentTerm(),
                last_index=self._journal.last_index,
                members_version=self._raft.members.newest().configuration.version,
                catching_up=identity.joining,
                joins_at=self._joins_at,
                removed=removed,
                unknown=unknown,
                proof=self._proof(self._me, dials=dials),
            )
        ).SerializeToString()

    def bare_refusal(self, problem: str) -> bytes:
        """Return the frame that refuses a stranger and says nothing else of this member."""
        hello = raft_pb2.PeerHello(member=self._me, protocol=PROTOCOL, refusal=problem)
        return raft_pb2.PeerFrame(hello=hello).SerializeToString()

    def is_unproven(self, hello: raft_pb2.PeerHello, *, dials: bool) -> bool:
        """Return whether the peer has not the token that all members of this cluster have. `dials`: it opened the
        connection."""
        return not hmac.compare_digest(hello.proof.encode(), self._proof(hello.member, dials=dials).encode())

    def _proof(self, member: str, *, dials: bool) -> str:
        """Return what shows that a member has the token. Whoever dials a member is shown that of the other side, with
        which nobody can dial."""
        return self._shared.proof("raft", "dials" if dials else "answers", member) if self._shared is not None else ""

    def certificate_problem(self, connection: Connection, member: str) -> str:
        """Return why the certificate is not this member's of this cluster; empty: it is, or there is no TLS."""
        if (tls := self._tls()) is None:
            return ""
        ours = tls.cluster
        try:
            holder = connection.holder(tls.roles)
        except BadCertificate as error:
            return f"{member}: {error}"
        if (holder.role, holder.name) == (Role.MASTER, member) and holder.is_of(ours):
            return ""
        wanted = CertificateHolder(cluster=ours or holder.cluster, role=Role.MASTER, name=member).uri()
        return f"the certificate that came for {member} is {holder.uri()}: {wanted} must be among its alternative names"

    def is_revoked(self, connection: Connection) -> bool:
        """Return whether the peer's certificate is revoked, as far as this member has applied the log."""
        return self._revoked(connection.certificate_serial())

    def disagreement(self, hello: raft_pb2.PeerHello, *, dialled: str, expected: bool) -> str:
        """Return what the two sides see differently: either may be wrong, so each logs it and neither stops.

        `dialled`: the member that should be at this address, empty where the other side dialled; `expected`: the
        member that answers is known here.
        """
        if problem := disagreement(self._me, self._membership.identity, PROTOCOL, hello):
            return problem
        settled = self._raft.members.newest().configuration.version or hello.members_version
        if (dialled and dialled != hello.member) or not (expected or settled):
            return f"{self._me} does not expect {hello.member} at this address: correct raft.peers"
        return ""

    def status_of(self, hello: raft_pb2.PeerHello) -> MemberStatus:
        """Return what the peer is to this cluster, by its hello and the members that the log here names."""
        members = self._raft.members
        place = member_status(introduction_in(hello), members.newest().configuration, members.applied())
        is_seed = place is MemberStatus.UNKNOWN and hello.member in self._seeds and not members.is_one
        return MemberStatus.GUEST if is_seed else place  # a seed may know the way into the cluster, so it is heard

    def refusal(self, hello: raft_pb2.PeerHello) -> str:
        """Return why the peer is certainly wrong: it is told, and stops; empty: it may speak."""
        met, level = met_in(hello), self._raft.members.feature_level
        if (known := hello.newest_level or FeatureLevel.FIRST) < level:
            return f"the cluster is at feature level {level}, {hello.member} knows {known:d} only: upgrade it"
        return self._known.refusal(hello.member, met) or self._lost_entries(hello, met)

    def _lost_entries(self, hello: raft_pb2.PeerHello, met: Met) -> str:
        """Return what a peer has lost of what it acknowledged to this leader in this term.

        In one term no other leader can have told it to cut that off.
        """
        if not (self._raft._isLeader() and met.boot) or hello.term > self._raft.raftCurrentTerm:
            return ""
        acknowledged = self._raft.match_index.get(member_node(hello.member), 0)
        if self._known.is_new(hello.member, met) or hello.last_index >= acknowledged:
            return ""
        return (
            f"{hello.member} acknowledged entries up to {acknowledged} and comes back with {hello.last_index}: its "
            "disk was rolled back or lost writes. Start it with an empty data directory: it joins without a vote until "
            "it has caught up. Never restore the copy of one master (docs/operations/masters.md)"
        )
