"""What members say of themselves when they connect, compared with what is known here. Pure."""

from __future__ import annotations

from gosched.replication.identity import Identity, Met
from gosched.wire.v1 import raft_pb2


def disagreement(me: str, identity: Identity, protocol: int, hello: raft_pb2.PeerHello) -> str:
    """Return what the two members see differently, or nothing."""
    if hello.protocol != protocol:
        return f"{me} speaks protocol {protocol}, {hello.member} speaks {hello.protocol}: upgrade the older one"
    if hello.cluster != identity.cluster:
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
