"""The agent's own gRPC server: orders of the leader, logs for their readers, commands beside tasks.

Invariant: an order counts only for this node, this boot of its agent, from its cluster, and of an epoch that is neither
below the highest seen nor far above what the masters answered last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

import grpc

from gosched.agent.datadir import DataDir
from gosched.agent.exec.streams import ExecRefused, Execs, ExecTarget
from gosched.agent.logic.fence import Made
from gosched.agent.logic.reconcile import Desired
from gosched.agent.orders import MAX_EPOCH_JUMP, BadOrder, parse_order, parse_secrets, parse_stop
from gosched.agent.tasks.logs import LogCut, LogMissing, Piece, Stream, read_logs
from gosched.agent.tasks.secrets import TaskSecrets
from gosched.agent.tasks.table import Tasks
from gosched.core.orders import TaskOrder
from gosched.core.records.task import TaskState
from gosched.wire.v1 import scheduler_pb2, worker_pb2, worker_pb2_grpc

MAX_LOG_READERS = 1000
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
MAX_ORDER_BYTES = 64 * 1024 * 1024  # of orders in hand

_STREAMS = {Stream.STDOUT: scheduler_pb2.LOG_STREAM_STDOUT, Stream.STDERR: scheduler_pb2.LOG_STREAM_STDERR}


Addressed = worker_pb2.StartTasksRequest | worker_pb2.StopTasksRequest | worker_pb2.FreezeTasksRequest


class WorkerService(worker_pb2_grpc.WorkerServiceServicer):
    def __init__(
        self, tasks: Tasks, execs: Execs, data_dir: DataDir, *, incarnation: str, ask: Callable[[], None]
    ) -> None:
        """Serve the tasks. `ask` makes the session send a heartbeat at once."""
        self._tasks = tasks
        self._execs = execs
        self._data_dir = data_dir
        self._node_id = data_dir.node_id
        self._incarnation = incarnation
        self._ask = ask
        self._readers = 0
        self._order_bytes = 0

    async def StartTasks(self, request: worker_pb2.StartTasksRequest, context: Any) -> worker_pb2.StartTasksResponse:
        await self._check_addressee(request, context)
        try:
            orders = [parse_order(order) for order in request.orders]
        except BadOrder as error:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        desired = Desired(start=tuple(order.allocation_id for order in orders))
        size = request.ByteSize()
        if self._order_bytes + size > MAX_ORDER_BYTES:
            detail = (
                f"node {self._node_id} has orders of {MAX_ORDER_BYTES} bytes in hand; a later heartbeat brings these"
            )
            await _refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, detail)
        self._order_bytes += size
        try:
            secrets = parse_secrets(request.secrets)
            await self._obey(desired, {order.allocation_id: order for order in orders}, request, context, secrets)
        finally:
            self._order_bytes -= size
        return worker_pb2.StartTasksResponse()

    async def StopTasks(self, request: worker_pb2.StopTasksRequest, context: Any) -> worker_pb2.StopTasksResponse:
        await self._check_addressee(request, context)
        try:
            desired = Desired(stop=tuple(parse_stop(order) for order in request.orders))
        except BadOrder as error:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await self._obey(desired, {}, request, context)
        return worker_pb2.StopTasksResponse()

    async def FreezeTasks(self, request: worker_pb2.FreezeTasksRequest, context: Any) -> worker_pb2.FreezeTasksResponse:
        await self._check_addressee(request, context)
        desired = Desired(freeze=tuple(request.freeze), thaw=tuple(request.thaw))
        await self._obey(desired, {}, request, context)
        return worker_pb2.FreezeTasksResponse()

    async def StreamLogs(
        self, request: worker_pb2.StreamLogsRequest, context: Any
    ) -> AsyncIterator[scheduler_pb2.LogChunk]:
        place = self._tasks.log_place(request.allocation_id)
        if why := place.why_missing():
            await _refuse(context, grpc.StatusCode.NOT_FOUND, why)
        if self._readers >= MAX_LOG_READERS:
            detail = f"{MAX_LOG_READERS} readers follow logs on this node already; try again later"
            await _refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, detail)
        numbers = {number: stream for stream, number in _STREAMS.items()}
        start = {numbers[p.stream]: p.offset for p in getattr(request, "from") if p.stream in numbers}
        self._readers += 1
        try:
            async for piece in read_logs(place, start, follow=request.follow, cut=_cut(request)):
                yield _chunk(place.task_id, request.allocation_id, piece)
        except LogMissing as error:  # it went while it was read
            await _refuse(context, grpc.StatusCode.NOT_FOUND, str(error))
        finally:
            self._readers -= 1

    async def Exec(
        self, requests: AsyncIterator[scheduler_pb2.ExecRequest], context: Any
    ) -> AsyncIterator[scheduler_pb2.ExecResponse]:
        try:
            async for response in self._execs.run(requests, self._exec_target):
                yield response
        except ExecRefused as error:
            await _refuse(context, error.code, error.detail)

    def _exec_target(self, start: scheduler_pb2.ExecStart) -> ExecTarget | None:
        task = self._tasks.find(start.allocation_id)
        if task is None:
            return None
        problem = "it is suspended" if task.frozen else ""
        if (stale := self._tasks.fence.problem(start.registration)) or start.epoch < self._data_dir.epoch:
            problem = f"node {self._node_id}: {stale or 'another master leads by now'}; run it again"
        if task.state is not TaskState.RUNNING:
            problem = f"it is {task.state.name}"
        return ExecTarget(path=task.spool.path, pid=task.pid, problem=problem)

    async def GetIdentity(self, request: worker_pb2.GetIdentityRequest, context: Any) -> worker_pb2.GetIdentityResponse:
        return worker_pb2.GetIdentityResponse(node_id=self._node_id, incarnation=self._incarnation)

    async def _check_addressee(self, request: Addressed, context: Any) -> None:
        node_id, incarnation = request.node_id, request.incarnation
        if node_id != self._node_id:
            detail = f"this is node {self._node_id}, not {node_id!a}"
            await _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, detail)
        if incarnation != self._incarnation:
            detail = f"node {node_id}: its agent was started anew since that order"
            await _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, detail)
        if not self._data_dir.belongs_to(request.cluster_id):
            detail = f"node {node_id} belongs to cluster {self._data_dir.cluster_id}, not {request.cluster_id!a}"
            await _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, detail)

    async def _obey(
        self,
        desired: Desired,
        orders: Mapping[str, TaskOrder],
        request: Addressed,
        context: Any,
        secrets: Mapping[str, TaskSecrets] = MappingProxyType({}),
    ) -> None:
        epoch, heard = request.epoch, self._data_dir.heard_epoch
        if epoch > heard + MAX_EPOCH_JUMP:
            self._ask()
            detail = (
                f"node {self._node_id} heard of epoch {heard} last, and asks its masters before it believes in {epoch}"
            )
            await _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, detail)
        try:
            made = Made(registration=request.registration, revision=request.revision)
            problem = await self._tasks.obey(desired, orders, epoch=epoch, made=made, secrets=secrets)
        except OSError as error:
            detail = f"node {self._node_id} cannot write to its data directory: {error}"
            await _refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, detail)
        if problem:
            self._ask()
            detail = f"node {self._node_id} does not obey: {problem}"
            await _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, detail)


def _cut(request: worker_pb2.StreamLogsRequest) -> LogCut:
    tail = max(0, request.tail) if request.HasField("tail") else None
    return LogCut(tail=tail, since_ms=max(0, request.since_ms), timestamps=request.timestamps)


def _chunk(task_id: str, allocation_id: str, piece: Piece) -> scheduler_pb2.LogChunk:
    return scheduler_pb2.LogChunk(
        task_id=task_id,
        allocation_id=allocation_id,
        stream=_STREAMS[piece.stream],
        offset=piece.offset,
        data=piece.data,
        times=[scheduler_pb2.LogTime(offset=time.offset, at_ms=time.at_ms) for time in piece.times],
        start=piece.start,
        end=piece.end,
        note=piece.note,
    )


async def _refuse(context: Any, code: grpc.StatusCode, detail: str) -> NoReturn:
    await context.abort(code, detail)
    raise AssertionError("abort raises")
