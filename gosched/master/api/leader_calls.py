"""What this master itself asks of SchedulerService: here while it leads, of the leader otherwise.

Invariant: the answer and the errors are the same, whichever master leads.
"""

from __future__ import annotations

from typing import Any

import grpc

from gosched.master.api.leader_routing import FIND_LEADER_S
from gosched.master.api.scheduler_service import SchedulerService
from gosched.master.base.callers import FORWARDED, UNNAMED
from gosched.master.base.channels import Channels
from gosched.master.base.errors import ApiError
from gosched.master.base.leadership import Leadership
from gosched.wire.v1 import scheduler_pb2_grpc

CALL_TIMEOUT_S = 5.0


class LeaderCalls:
    def __init__(self, leadership: Leadership, masters: Channels, service: SchedulerService) -> None:
        self._leadership = leadership
        self._masters = masters
        self._service = service

    async def call(self, method: str, request: Any) -> Any:
        """Make a call that has one answer. Raises ApiError."""
        leader = await self._leadership.find(FIND_LEADER_S)
        if leader is None:
            return await getattr(self._service, method)(request, None)
        stub = scheduler_pb2_grpc.SchedulerServiceStub(self._masters.to(leader.grpc_address))
        try:
            return await getattr(stub, method)(request, timeout=CALL_TIMEOUT_S, metadata=((FORWARDED, UNNAMED),))
        except grpc.aio.AioRpcError as error:
            raise ApiError(error.code(), error.details() or error.code().name) from error
