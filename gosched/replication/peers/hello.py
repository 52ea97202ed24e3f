"""What members say of themselves when they connect, compared with what is known here. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gosched.core.records.master import Configuration
from gosched.replication.members.configuration import ids
from gosched.replication.members.identity import Identity, Met
from gosched.wire.v1 import raft_pb2


class MemberStatus(Enum):
    """What a member that connects is to this one."""

    #: By the newest members that the log here names.
    MEMBER = "member"
    #: By newer members than those, it may be; or until its removal is committed. It is heard like a member.
    GUEST = "guest"
    #: It may be added yet.
    UNKNOWN = "unknown"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """What a member's status depends on."""

    member: str
    #: Of the newest members that its log names; 0: none.
    version: int
    #: Its disk was empty, and it does not vote yet.
    catching_up: bool


def member_status(who: Introduction, newest: Configuration, applied: Configuration | None) -> MemberStatus:
    """Return what a member is to this one.

    `newest`: the members in force here; `applied`: those that are committed, None before the log names any.
    """
    if who.member in ids(newest):
        return MemberStatus.MEMBER
    if applied is None:
        return MemberStatus.GUEST if who.version else MemberStatus.UNKNOWN
    if who.member in ids(applied):
        return MemberStatus.GUEST
    if who.catching_up:
        return MemberStatus.UNKNOWN
    if who.version > applied.version:
        return MemberStatus.GUEST
    return MemberStatus.REMOVED


def disagreement(me: str, identity: Identity, protocol: int, hello: raft_pb2.PeerHello) -> str:
    """Return what the two members see differently, or nothing. Once a log names the members, the configs need not."""
    if hello.protocol != protocol:
        return f"{me} speaks protocol {protocol}, {hello.member} speaks {hello.protocol}: upgrade the older one"
    if hello.cluster != identity.cluster and not (identity.settled or hello.members_version):
        return (
            f"{me} is in a cluster of {identity.cluster}, {hello.member} in one of {hello.cluster}: correct raft.peers"
        )
    if hello.cluster_id and identity.cluster_id and hello.cluster_id != identity.cluster_id:
        return (
            f"{me} belongs to cluster {identity.cluster_id}, {hello.member} to {hello.cluster_id}, which was founded "
            "apart from it: find out which one holds your jobs, and keep both data directories until then"
        )
    return ""


def met_in(hello: raft_pb2.PeerHello) -> Met:
    return Met(disk=hello.disk, boot=hello.boot, run=hello.run, came_later=hello.joining or hello.empty)


def introduction_in(hello: raft_pb2.PeerHello) -> Introduction:
    return Introduction(
        member=hello.member, version=hello.members_version, catching_up=hello.catching_up or hello.empty
    )
