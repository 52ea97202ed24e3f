"""Tells agents at once what was just committed: start these tasks, stop those.

Rule: only committed facts are told, and a message that gets lost is left to the next heartbeat, which compares
everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

import grpc
import structlog

from gosched.core.cluster import NodeState
from gosched.core.job import TaskState
from gosched.core.outcome import Event, NodeChanged, TaskChanged
from gosched.core.state import ClusterState
from gosched.master.channels import Channels
from gosched.master.orders import Orders, stop_order
from gosched.replication.interface import Replication
from gosched.wire.v1 import worker_pb2, worker_pb2_grpc

MAX_CALLS = 64  # to agents, at the same time
MAX_ORDERS = 64  # in one call: each may be as large as its job's spec
CALL_TIMEOUT_S = 5.0

log = structlog.get_logger()


@dataclass(slots=True)
class _Due:
    """Allocation ids, in order of commit."""

    start: dict[str, None] = field(default_factory=dict)
    stop: dict[str, None] = field(default_factory=dict)


class Dispatcher:
    def __init__(self, replication: Replication, channels: Channels) -> None:
        self._replication = replication
        self._channels = channels
        self._orders = Orders()
        self._epoch = 0
        self._due: dict[str, _Due] = {}
        self._senders: dict[str, asyncio.Task[None]] = {}
        self._calls = asyncio.Semaphore(MAX_CALLS)

    def begin(self, epoch: int) -> None:
        """A new leader tells again what the one before it may have been about to tell."""
        self._epoch = epoch
        state = self._state
        for allocation in state.allocations.values():
            self._note(allocation.node_id, allocation.id, state.tasks[allocation.task_id].state)

    def end(self) -> None:
        self._epoch = 0
        self._due.clear()
        for sender in self._senders.values():
            sender.cancel()

    def take(self, events: Iterable[Event]) -> None:
        if not self._epoch:
            return
        for event in events:
            if isinstance(event, TaskChanged):
                self._note(event.node_id, event.allocation_id, event.after)
            elif isinstance(event, NodeChanged) and event.after is NodeState.DEAD:
                self._channels.drop(self._state.nodes[event.node_id].address)

    @property
    def _state(self) -> ClusterState:
        return self._replication.state

    def _note(self, node_id: str, allocation_id: str, state: TaskState) -> None:
        if state is TaskState.PLACED:
            self._due.setdefault(node_id, _Due()).start[allocation_id] = None
        elif state is TaskState.STOPPING:
            self._due.setdefault(node_id, _Due()).stop[allocation_id] = None
        else:
            return
        if node_id not in self._senders:
            task = asyncio.get_running_loop().create_task(self._send_all(node_id))
            self._senders[node_id] = task
            task.add_done_callback(lambda _: self._senders.pop(node_id, None))

    async def _send_all(self, node_id: str) -> None:
        """One call after the other to a node; different nodes are called at the same time."""
        while (due := self._due.pop(node_id, None)) is not None:
            async with self._calls:
                try:
                    await self._send(node_id, due)
                except grpc.aio.AioRpcError as error:
                    log.info("orders not delivered; the next heartbeat brings them", node=node_id, why=error.details())

    async def _send(self, node_id: str, due: _Due) -> None:
        node = self._state.nodes[node_id]
        if node.state is NodeState.DEAD:
            return
        stub = worker_pb2_grpc.WorkerServiceStub(self._channels.to(node.address))
        header = {"epoch": self._epoch, "node_id": node_id, "incarnation": node.incarnation}
        for ids in _chunks(self._still(due.stop, TaskState.STOPPING)):
            stops = [stop_order(self._state, self._state.allocations[i]) for i in ids]
            request = worker_pb2.StopTasksRequest(orders=stops, **header)  # type: ignore[arg-type]
            await stub.StopTasks(request, timeout=CALL_TIMEOUT_S)
        for ids in _chunks(self._still(due.start, TaskState.PLACED)):
            starts = [self._orders.start(self._state, self._state.allocations[i]) for i in ids if self._is(i)]
            if starts:
                start = worker_pb2.StartTasksRequest(orders=starts, **header)  # type: ignore[arg-type]
                await stub.StartTasks(start, timeout=CALL_TIMEOUT_S)

    def _still(self, ids: Iterable[str], wanted: TaskState) -> list[str]:
        """Those whose task is in that state now; the world moved on while the order waited."""
        return [i for i in ids if self._is(i, wanted)]

    def _is(self, allocation_id: str, wanted: TaskState = TaskState.PLACED) -> bool:
        allocation = self._state.allocations.get(allocation_id)
        return allocation is not None and self._state.tasks[allocation.task_id].state is wanted


def _chunks(ids: list[str]) -> list[list[str]]:
    return [ids[i : i + MAX_ORDERS] for i in range(0, len(ids), MAX_ORDERS)]
