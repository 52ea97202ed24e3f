"""ClusterService: what masters tell each other; and the follower's side of it, which announces its own addresses."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import grpc
import structlog

from gosched.core.cluster import Master
from gosched.core.command import AnnounceMaster
from gosched.master.channels import Channels
from gosched.master.clock import StateClock
from gosched.master.errors import accepted, parsed, unavailable
from gosched.master.leadership import Leadership
from gosched.master.proposals import Proposals
from gosched.replication.interface import Replication
from gosched.wire.codec import to_message
from gosched.wire.v1 import cluster_pb2, cluster_pb2_grpc, types_pb2

CALL_TIMEOUT_S = 3.0
RETRY_S = 0.5
LOOK_AGAIN_S = 5.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterService(cluster_pb2_grpc.ClusterServiceServicer):
    leadership: Leadership
    proposals: Proposals
    clock: StateClock

    async def AnnounceMaster(
        self, request: cluster_pb2.AnnounceMasterRequest, context: Any
    ) -> cluster_pb2.AnnounceMasterResponse:
        if not self.leadership.epoch:
            raise unavailable("this master does not lead")
        accepted(await self.proposals.propose(AnnounceMaster(master=parsed(request.master, Master))))
        return cluster_pb2.AnnounceMasterResponse()

    async def ReadClock(self, request: cluster_pb2.ReadClockRequest, context: Any) -> cluster_pb2.ReadClockResponse:
        return cluster_pb2.ReadClockResponse(clock_ms=self.clock.wall_ms())


async def keep_announced(replication: Replication, leadership: Leadership, masters: Channels, me: Master) -> None:
    """Sees to it that the state says where this master listens, whoever leads. Until it is cancelled."""
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
