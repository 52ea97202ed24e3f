"""ClusterService: what masters tell each other; and the follower's side of it, which announces its own addresses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import grpc
import structlog

from gosched import __version__
from gosched.core.commands.cluster import AnnounceMaster
from gosched.core.outcome import Accepted
from gosched.core.records.master import Master
from gosched.master.backups.backup_source import BackupSource
from gosched.master.base.channels import Channels
from gosched.master.base.clock import StateClock
from gosched.master.base.errors import accepted, invalid, parsed, unavailable, unmet
from gosched.master.base.leadership import Leadership
from gosched.master.base.proposals import Proposals
from gosched.master.cluster.digest_comparison import StateDigests
from gosched.master.cluster.feature_levels import FeatureLevels
from gosched.master.cluster.log_level import MasterLogLevel
from gosched.master.cluster.master_health import master_health
from gosched.master.cluster.members import MemberControl
from gosched.replication.interface import Replication
from gosched.wire.codec import to_message
from gosched.wire.v1 import cluster_pb2, cluster_pb2_grpc, types_pb2

CALL_TIMEOUT_S = 3.0
RETRY_S = 0.5
TRANSFER_S = 5.0
LOOK_AGAIN_S = 5.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterService(cluster_pb2_grpc.ClusterServiceServicer):
    replication: Replication
    leadership: Leadership
    proposals: Proposals
    clock: StateClock
    levels: FeatureLevels
    digests: StateDigests
    members: MemberControl
    backups: BackupSource
    data_dir: str
    log_level: MasterLogLevel

    async def AnnounceMaster(
        self, request: cluster_pb2.AnnounceMasterRequest, context: Any
    ) -> cluster_pb2.AnnounceMasterResponse:
        if not self.leadership.epoch:
            raise unavailable("this master does not lead")
        accepted(await self.proposals.propose(AnnounceMaster(master=parsed(request.master, Master))))
        return cluster_pb2.AnnounceMasterResponse()

    async def ReadClock(self, request: cluster_pb2.ReadClockRequest, context: Any) -> cluster_pb2.ReadClockResponse:
        return cluster_pb2.ReadClockResponse(clock_ms=self.clock.wall_ms(), version=__version__)

    async def FinalizeUpgrade(
        self, request: cluster_pb2.FinalizeUpgradeRequest, context: Any
    ) -> cluster_pb2.FinalizeUpgradeResponse:
        async def change() -> Accepted:
            return await self.levels.raise_all(
                self.proposals, client_id=request.client_id, request_id=request.request_id
            )

        taken = await self.proposals.once(request, change)
        state = self.replication.state
        return cluster_pb2.FinalizeUpgradeResponse(
            feature_level=state.feature_level, unchanged=taken.unchanged, revision=state.revision
        )

    async def AddMaster(self, request: cluster_pb2.AddMasterRequest, context: Any) -> cluster_pb2.AddMasterResponse:
        member = await self.members.add(request.id, request.address)
        return cluster_pb2.AddMasterResponse(member=to_message(member, cluster_pb2.MemberStatus))

    async def RemoveMaster(
        self, request: cluster_pb2.RemoveMasterRequest, context: Any
    ) -> cluster_pb2.RemoveMasterResponse:
        return cluster_pb2.RemoveMasterResponse(unchanged=not await self.members.remove(request.id))

    async def ListMembers(
        self, request: cluster_pb2.ListMembersRequest, context: Any
    ) -> cluster_pb2.ListMembersResponse:
        configuration = self.replication.state.configuration
        version = configuration.version if configuration is not None else 0
        members = [to_message(member, cluster_pb2.MemberStatus) for member in self.members.list()]
        return cluster_pb2.ListMembersResponse(members=members, version=version)

    async def TransferLeadership(
        self, request: cluster_pb2.TransferLeadershipRequest, context: Any
    ) -> cluster_pb2.TransferLeadershipResponse:
        if not self.replication.role.connected:
            raise unmet("no other master is connected: none can lead instead")
        await self.replication.transfer_leadership()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TRANSFER_S):
                while self.replication.role.leader in ("", self.replication.member_id):
                    await self.leadership.change()
                return cluster_pb2.TransferLeadershipResponse(leader=self.replication.role.leader)
        raise unavailable(f"no other master has taken over within {TRANSFER_S:.0f} s: look at the members")

    async def TakeSnapshot(
        self, request: cluster_pb2.TakeSnapshotRequest, context: Any
    ) -> cluster_pb2.TakeSnapshotResponse:
        revision = self.replication.state.revision
        await self.replication.take_snapshot()
        return cluster_pb2.TakeSnapshotResponse(master=self.replication.member_id, revision=revision)

    async def GetStateDigests(
        self, request: cluster_pb2.GetStateDigestsRequest, context: Any
    ) -> cluster_pb2.GetStateDigestsResponse:
        kept = self.digests.kept()
        return cluster_pb2.GetStateDigestsResponse(
            digests=[cluster_pb2.StateDigest(revision=one.revision, part=one.part, digest=one.digest) for one in kept]
        )

    async def TakeBackup(
        self, request: cluster_pb2.TakeBackupRequest, context: Any
    ) -> AsyncIterator[cluster_pb2.BackupPart]:
        async for part in self.backups.parts(request.min_revision):
            yield part

    async def GetMasterHealth(
        self, request: cluster_pb2.GetMasterHealthRequest, context: Any
    ) -> cluster_pb2.MasterHealth:
        health = master_health(self.replication, self.clock, self.data_dir)
        return to_message(health, cluster_pb2.MasterHealth)

    async def SetLogLevel(
        self, request: cluster_pb2.SetLogLevelRequest, context: Any
    ) -> cluster_pb2.SetLogLevelResponse:
        before = self.log_level.level
        try:
            self.log_level.set(request.level)
        except ValueError as error:
            raise invalid(str(error)) from error
        return cluster_pb2.SetLogLevelResponse(id=self.replication.member_id, before=before)


async def keep_announced(replication: Replication, leadership: Leadership, masters: Channels, me: Master) -> None:
    """Keep the state up to date about where this master listens, whichever master leads, until it is cancelled."""
    request = cluster_pb2.AnnounceMasterRequest(master=to_message(me, types_pb2.Master))
    while True:
        leader = leadership.leader()
        if leader is None or replication.state.masters.get(me.id) == me:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await leadership.change()
            continue
        stub = cluster_pb2_grpc.ClusterServiceStub(masters.to(leader.grpc_address))
        try:
            await stub.AnnounceMaster(request, timeout=CALL_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            log.info("not announced yet", leader=leader.id, why=error.details())
        await asyncio.sleep(RETRY_S)
