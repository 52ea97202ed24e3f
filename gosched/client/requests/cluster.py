"""The cluster as a whole and its masters: status, members, upgrades, clock, and the health of each master."""

from __future__ import annotations

from gosched.client import records
from gosched.client.answers import ClockReset, Upgraded
from gosched.client.calls import CLUSTER, SCHEDULER, Call, names, rpc
from gosched.wire.codec import to_record
from gosched.wire.v1 import cluster_pb2, scheduler_pb2


def get_status(*, digest: bool = False) -> Call[records.Status]:
    """Return the cluster in numbers. `digest`: of the whole state, too, at the cost of a look at every record."""
    return Call(
        rpc=rpc(SCHEDULER, "GetClusterStatus"),
        request=scheduler_pb2.GetClusterStatusRequest(digest=digest),
        read=lambda answer: to_record(answer, records.Status),
    )


def set_clock(*, request_id: str | None = None) -> Call[ClockReset]:
    """Set the state's clock back to the masters', and with it what it has stamped since."""
    return Call(
        rpc=rpc(SCHEDULER, "SetClock"),
        request=scheduler_pb2.SetClockRequest(**names(request_id)),
        read=lambda answer: ClockReset(from_ms=answer.from_ms, to_ms=answer.to_ms, unchanged=answer.unchanged),
        is_change=True,
    )


def master_health(address: str) -> Call[records.MasterHealth]:
    """Return what the master at this address, `host:port` of gRPC, says of itself. Raises Unavailable where none
    answers, Refused for one of the release before."""
    return Call(
        rpc=rpc(CLUSTER, "GetMasterHealth"),
        request=cluster_pb2.GetMasterHealthRequest(),
        read=lambda answer: to_record(answer, records.MasterHealth),
        address=address,
    )


def set_log_level(address: str, level: str) -> Call[str]:
    """Change which lines the master at this address, `host:port` of gRPC, logs; return the level before."""
    return Call(
        rpc=rpc(CLUSTER, "SetLogLevel"),
        request=cluster_pb2.SetLogLevelRequest(level=level),
        read=lambda answer: str(answer.before),
        address=address,
    )


def add_master(member: str, address: str) -> Call[records.MasterMember]:
    """Add a master whose replica listens at `address`, or return how far it is: it votes once it has caught up."""
    return Call(
        rpc=rpc(CLUSTER, "AddMaster"),
        request=cluster_pb2.AddMasterRequest(id=member, address=address),
        read=lambda answer: to_record(answer.member, records.MasterMember),
    )


def remove_master(member: str) -> Call[bool]:
    """Remove a master, which then stops by itself; return whether it was a member."""
    return Call(
        rpc=rpc(CLUSTER, "RemoveMaster"),
        request=cluster_pb2.RemoveMasterRequest(id=member),
        read=lambda answer: not answer.unchanged,
    )


def members() -> Call[tuple[records.MasterMember, ...]]:
    """Return the masters by the replicated log; none where it does not name them yet."""
    return Call(
        rpc=rpc(CLUSTER, "ListMembers"),
        request=cluster_pb2.ListMembersRequest(),
        read=lambda answer: tuple(to_record(message, records.MasterMember) for message in answer.members),
    )


def transfer_leadership() -> Call[str]:
    """Let another master lead; return which one leads now. Raises Refused where no other is connected."""
    return Call(
        rpc=rpc(CLUSTER, "TransferLeadership"),
        request=cluster_pb2.TransferLeadershipRequest(),
        read=lambda answer: str(answer.leader),
    )


def take_snapshot(address: str) -> Call[int]:
    """Let the master at this address, `host:port` of gRPC, store its state and shorten its log; return a revision
    that the snapshot goes up to at least."""
    return Call(
        rpc=rpc(CLUSTER, "TakeSnapshot"),
        request=cluster_pb2.TakeSnapshotRequest(),
        read=lambda answer: int(answer.revision),
        address=address,
    )


def finalize_upgrade(*, request_id: str | None = None) -> Call[Upgraded]:
    """Raise the cluster's feature level to the newest that all masters know."""
    return Call(
        rpc=rpc(CLUSTER, "FinalizeUpgrade"),
        request=cluster_pb2.FinalizeUpgradeRequest(**names(request_id)),
        read=lambda answer: Upgraded(feature_level=answer.feature_level, unchanged=answer.unchanged),
        is_change=True,
    )
