"""What operators ask of single masters: a backup from any of them, and the health of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc

from gosched.api.status import MasterHealth, MasterMember
from gosched.client.errors import Unavailable, from_rpc
from gosched.client.masters import TRY_S, Masters
from gosched.wire.backup_file import BackupInfo
from gosched.wire.codec import to_record
from gosched.wire.v1 import cluster_pb2
from gosched.wire.v1.cluster_pb2_grpc import ClusterServiceStub

BACKUP_S = 3600.0  # for all of one


class ClusterCalls:
    """What a client of the whole cluster has for the masters themselves."""

    _masters: Masters
    _timeout_s: float

    def master_health(self, address: str) -> MasterHealth:
        """Of the master at this address, `host:port` of gRPC, by its own word."""
        return master_health(self._masters, address)

    def add_master(self, member: str, address: str) -> MasterMember:
        """Adds a master whose replica listens at `address`, or says how far it is: it votes once it has caught up."""
        request = cluster_pb2.AddMasterRequest(id=member, address=address)
        return to_record(self._cluster("AddMaster", request).member, MasterMember)

    def remove_master(self, member: str) -> bool:
        """Removes a master, which then stops by itself; says whether it was one."""
        return not self._cluster("RemoveMaster", cluster_pb2.RemoveMasterRequest(id=member)).unchanged

    def members(self) -> tuple[MasterMember, ...]:
        """By the replicated log; none where it does not name them yet."""
        answer = self._cluster("ListMembers", cluster_pb2.ListMembersRequest())
        return tuple(to_record(message, MasterMember) for message in answer.members)

    def _cluster(self, method: str, request: Any) -> Any:
        return self._masters.call(
            lambda channel, timeout: getattr(ClusterServiceStub(channel), method)(request, timeout=timeout),
            timeout_s=self._timeout_s,
        )


def take_backup(masters: Masters, *, min_revision: int, timeout_s: float) -> tuple[BackupInfo, Iterator[bytes]]:
    """What the backup is of, and its content, which can be read once. Both raise GoSchedError."""
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
    """Raises GoSchedError: Unavailable where nobody answers, Refused for a master of the release before."""
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
