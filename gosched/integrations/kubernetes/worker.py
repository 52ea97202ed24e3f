"""The gRPC server that the leader pushes orders to: one for all Kubernetes' nodes.

Invariant: an order counts only for a node that has a session here, its incarnation and registration, and an epoch not
below the highest seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import grpc

from gosched.agent.logic.fence import Made
from gosched.agent.logic.reconcile import Desired
from gosched.agent.orders import MAX_EPOCH_JUMP, BadOrder, parse_order, parse_stop
from gosched.integrations.kubernetes.sessions import Masters, NodeSession, Obeys
from gosched.wire.v1 import worker_pb2, worker_pb2_grpc

_Addressed = worker_pb2.StartTasksRequest | worker_pb2.StopTasksRequest | worker_pb2.FreezeTasksRequest


class KubeWorker(worker_pb2_grpc.WorkerServiceServicer):
    """`sessions`: by node id."""

    def __init__(self, sessions: Mapping[str, NodeSession], masters: Masters, obeys: Obeys) -> None:
        self._sessions = sessions
        self._masters = masters
        self._obeys = obeys

    async def StartTasks(self, request: worker_pb2.StartTasksRequest, context: Any) -> worker_pb2.StartTasksResponse:
        session = await self._addressee(request, context)
        try:
            orders = [parse_order(order) for order in request.orders]
        except BadOrder as error:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        desired = Desired(start=tuple([order.allocation_id for order in orders]))
        made = await self._take(session, desired, request, context)
        self._obeys.start(session.name, orders)
        session.fence.note(desired, made)
        return worker_pb2.StartTasksResponse()

    async def StopTasks(self, request: worker_pb2.StopTasksRequest, context: Any) -> worker_pb2.StopTasksResponse:
        session = await self._addressee(request, context)
        try:
            orders = [parse_stop(order) for order in request.orders]
        except BadOrder as error:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await self._take(session, Desired(stop=tuple(orders)), request, context)
        self._obeys.stop(session.name, orders)
        return worker_pb2.StopTasksResponse()

    async def FreezeTasks(self, request: worker_pb2.FreezeTasksRequest, context: Any) -> worker_pb2.FreezeTasksResponse:
        await self._addressee(request, context)
        await _refuse(context, grpc.StatusCode.UNIMPLEMENTED, "a pod cannot stand still: suspend its job instead")

    async def GetIdentity(self, request: worker_pb2.GetIdentityRequest, context: Any) -> worker_pb2.GetIdentityResponse:
        return worker_pb2.GetIdentityResponse()

    async def _addressee(self, request: _Addressed, context: Any) -> NodeSession:
        session = self._sessions.get(request.node_id)
        if session is None or session.incarnation != request.incarnation:
            detail = f"node {request.node_id!a} has no session here under that incarnation"
            await _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, detail)
        if self._masters.cluster_id and request.cluster_id != self._masters.cluster_id:
            detail = f"this bridge belongs to cluster {self._masters.cluster_id}, not {request.cluster_id!a}"
            await _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, detail)
        if not self._masters.epoch <= request.epoch <= self._masters.epoch + MAX_EPOCH_JUMP:
            session.changed.set()
            detail = f"this bridge has seen epoch {self._masters.epoch}, not {request.epoch}: the next heartbeat tells"
            await _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, detail)
        self._masters.epoch = request.epoch
        return session

    async def _take(self, session: NodeSession, desired: Desired, request: _Addressed, context: Any) -> Made:
        made = Made(registration=request.registration, revision=request.revision)
        if problem := session.fence.take_push(desired, made):
            session.changed.set()
            await _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, f"node {session.name}: {problem}")
        return made


async def _refuse(context: Any, code: grpc.StatusCode, detail: str) -> NoReturn:
    await context.abort(code, detail)
    raise AssertionError("abort raises")
