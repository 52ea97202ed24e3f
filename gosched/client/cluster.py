"""The client's calls about the masters: members, upgrades, backups, and the health of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc

from gosched.api.status import MasterHealth, MasterMember
from gosched.client.answers import Upgraded
from gosched.client.calls import Calls
from gosched.client.errors import Unavailable, from_rpc
from gosched.client.masters import TRY_S, Masters
from gosched.wire.backup_file import BackupInfo
from gosched.wire.codec import to_record
from gosched.wire.v1 import cluster_pb2, scheduler_pb2
from gosched.wire.v1.cluster_pb2_grpc import ClusterServiceStub
from gosched.wire.v1.scheduler_pb2_grpc import SchedulerServiceStub

BACKUP_S = 3600.0  # for all of one


class ClusterCalls(Calls):
    """What the ClusterService answers to operators."""

    def master_health(self, address: str) -> MasterHealth:
        """Return what the master at this address, `host:port` of gRPC, says of itself."""
        return master_health(self._masters, address)

    def add_master(self, member: str, address: str) -> MasterMember:
        """Add a master whose replica listens at `address`, or return how far it is: it votes once it has caught up."""
        request = cluster_pb2.AddMasterRequest(id=member, address=address)
        return to_record(self._call(ClusterServiceStub, "AddMaster", request).member, MasterMember)

    def remove_master(self, member: str) -> bool:
        """Remove a master, which then stops by itself; return whether it was a member."""
        return not self._call(ClusterServiceStub, "RemoveMaster", cluster_pb2.RemoveMasterRequest(id=member)).unchanged

    def members(self) -> tuple[MasterMember, ...]:
        """Return the masters by the replicated log; none where it does not name them yet."""
        answer = self._call(ClusterServiceStub, "ListMembers", cluster_pb2.ListMembersRequest())
        return tuple(to_record(message, MasterMember) for message in answer.members)

    def finalize_upgrade(self, *, request_id: str | None = None) -> Upgraded:
        """Raise the cluster's feature level to the newest that all masters know."""
        request = cluster_pb2.FinalizeUpgradeRequest(**self._identity(request_id))
        answer = self._change(ClusterServiceStub, "FinalizeUpgrade", request)
        return Upgraded(feature_level=answer.feature_level, unchanged=answer.unchanged)

    def take_backup(self) -> tuple[BackupInfo, Iterator[bytes]]:
        """Return what the backup is of, and its content, to read once: for `gosched.wire.backup_file`. It has all that
        was acknowledged before, whichever master it comes from."""
        request = scheduler_pb2.GetClusterStatusRequest()
        revision = self._call(SchedulerServiceStub, "GetClusterStatus", request).revision
        return take_backup(self._masters, min_revision=revision, timeout_s=self._timeout_s)


def take_backup(masters: Masters, *, min_revision: int, timeout_s: float) -> tuple[BackupInfo, Iterator[bytes]]:
    """Return what the backup is of, and its content, to read once. Both raise GoSchedError."""
    request = cluster_pb2.TakeBackupRequest(min_revision=min_revision)
    for channel, _ in masters.tries(timeout_s):
        stream = ClusterServiceStub(channel).TakeBackup(request, timeout=BACKUP_S)
        try:
            first = next(stream)
        except grpc.RpcError as error:
            masters.failed(error)
            continue
        return to_record(first.info, BackupInfo), _data(stream)
    raise AssertionError("tries() ends by raising")


def master_health(masters: Masters, address: str) -> MasterHealth:
    """Return what one master says of itself. Raises Unavailable where none answers, Refused for one of the release
    before."""
    request = cluster_pb2.GetMasterHealthRequest()
    try:
        answer = ClusterServiceStub(masters.at(address)).GetMasterHealth(request, timeout=TRY_S)
    except grpc.RpcError as error:
        if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            raise Unavailable(f"{address} does not answer") from error
        raise from_rpc(error) from error
    return to_record(answer, MasterHealth)


def _data(stream: Any) -> Iterator[bytes]:
    try:
        for part in stream:
            yield part.data
    except grpc.RpcError as error:
        raise Unavailable(
            f"the master was lost in the middle of the backup ({error.details()}): take it anew"
        ) from error
    finally:
        with suppress(grpc.RpcError):
            stream.cancel()
