"""Tells agents at once what was just committed: start these tasks, stop those, freeze or thaw others.

Invariant: only committed facts are told, each message names the registration and the revision that it was made of, and
one that gets lost is left to the next heartbeat, which compares everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import structlog

from gosched.core.events import Event, JobFrozen, NodeChanged, TaskChanged
from gosched.core.records.node import Node, NodeState
from gosched.core.records.task import TaskState
from gosched.core.state.cluster_state import ClusterState
from gosched.master.agents.orders import Orders, stop_order
from gosched.master.agents.secret_opener import NotYet, SecretOpener
from gosched.master.agents.talks import Talks
from gosched.master.base.channels import Channels
from gosched.observe.faults import Faults
from gosched.observe.tracing import now_ns
from gosched.observe.tracing_leader import LeaderTraces
from gosched.replication.interface import Replication
from gosched.wire.codec import fill, to_message
from gosched.wire.v1 import worker_pb2, worker_pb2_grpc

MAX_ORDERS = 64  # in one call: each may be as large as its job's spec
MAX_SECRET_BYTES = 4 << 20  # of secrets, in one call
CALL_TIMEOUT_S = 5.0

log = structlog.get_logger()


@dataclass(slots=True)
class _Due:
    """Ids of allocations that an agent is to be told of, in order of commit."""

    start: dict[str, None] = field(default_factory=dict)
    stop: dict[str, None] = field(default_factory=dict)
    #: Those whose job was frozen or thawed.
    frozen: dict[str, None] = field(default_factory=dict)


class Dispatcher:
    def __init__(
        self,
        replication: Replication,
        channels: Channels,
        secrets: SecretOpener,
        traces: LeaderTraces | None,
        faults: Faults,
    ) -> None:
        self._replication = replication
        self._channels = channels
        self._traces = traces
        self._faults = faults
        self._secrets = secrets
        #: What agents have been told, and have said.
        self.talks = Talks()
        self._orders = Orders()
        self._epoch = 0
        self._due: dict[str, _Due] = {}
        self._senders: dict[str, asyncio.Task[None]] = {}

    def begin(self, epoch: int) -> None:
        """Tell again what the leader before may not have told."""
        self._epoch = epoch
        self.talks.begin()
        state = self._state
        for allocation in state.allocations.values():
            self._note(allocation.node_id, allocation.id, state.tasks[allocation.task_id].state)
            if state.jobs[allocation.job_id].frozen:
                self._note_freeze(allocation.node_id, allocation.id)

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
            elif isinstance(event, JobFrozen):
                job = self._state.jobs.get(event.job_id)
                for task in self._state.tasks_of(job) if job is not None else ():
                    if task.state.is_active:
                        self._note_freeze(task.node_id, task.allocation_id)
            elif isinstance(event, NodeChanged) and event.after is NodeState.DEAD:
                self._drop_channel(event.node_id)
                self.talks.drop(event.node_id)

    @property
    def _state(self) -> ClusterState:
        return self._replication.state

    def _drop_channel(self, node_id: str) -> None:
        node = self._state.nodes.get(node_id)
        if node is not None:  # else forgotten in the same batch; unused channels are given up in time
            self._channels.drop_agent(node)

    def _note(self, node_id: str, allocation_id: str, state: TaskState) -> None:
        if state is TaskState.PLACED:
            self._due.setdefault(node_id, _Due()).start[allocation_id] = None
        elif state is TaskState.STOPPING:
            self._due.setdefault(node_id, _Due()).stop[allocation_id] = None
        else:
            return
        self._send_soon(node_id)

    def _note_freeze(self, node_id: str, allocation_id: str) -> None:
        self._due.setdefault(node_id, _Due()).frozen[allocation_id] = None
        self._send_soon(node_id)

    def _send_soon(self, node_id: str) -> None:
        if node_id not in self._senders:
            task = asyncio.get_running_loop().create_task(self._send_all(node_id))
            self._senders[node_id] = task
            task.add_done_callback(lambda _: self._on_sent(node_id))

    def _on_sent(self, node_id: str) -> None:
        del self._senders[node_id]
        if node_id in self._due:  # since the sender's last look
            self._send_soon(node_id)

    async def _send_all(self, node_id: str) -> None:
        """Make one call after the other to a node; different nodes are called at the same time."""
        while (due := self._due.pop(node_id, None)) is not None:
            node = self._state.nodes.get(node_id)
            if node is None:
                continue
            try:
                async with self._channels.bounded(node) as channel:
                    await self._send(node_id, due, worker_pb2_grpc.WorkerServiceStub(channel))
            except grpc.aio.AioRpcError as error:
                log.info("orders not delivered; the next heartbeat brings them", node=node_id, why=error.details())
            except Exception as error:  # a bug that one order meets: the next heartbeat brings the others
                self._faults.caught("orders", error)

    async def _send(self, node_id: str, due: _Due, stub: Any) -> None:
        node = self._state.nodes.get(node_id)
        if node is None or node.state is NodeState.DEAD or node.away_ms:
            return
        for ids in _chunks(self._those_in(due.stop, TaskState.STOPPING)):
            stops = [to_message(stop_order(self._state, self._state.allocations[i]), worker_pb2.StopOrder) for i in ids]
            request = worker_pb2.StopTasksRequest(orders=stops, **self._header(node))
            await stub.StopTasks(request, timeout=CALL_TIMEOUT_S)
        for ids in _chunks(self._those_in(due.start, TaskState.PLACED)):
            for start in self._start_requests([i for i in ids if not self.talks.is_told(node, i)]):
                start.MergeFrom(worker_pb2.StartTasksRequest(**self._header(node)))
                pushed = [order.allocation_id for order in start.orders]
                with self._traced(node_id, pushed), self._told(node, pushed, start.revision):
                    await stub.StartTasks(start, timeout=CALL_TIMEOUT_S)
        freeze, thaw = self._freeze_and_thaw(due.frozen)
        if freeze or thaw:
            both = worker_pb2.FreezeTasksRequest(freeze=freeze, thaw=thaw, **self._header(node))
            await stub.FreezeTasks(both, timeout=CALL_TIMEOUT_S)

    def _header(self, node: Node) -> dict[str, Any]:
        """Return what every message says of itself. The node is as it was when this round of messages began, so that
        none counts under a later registration."""
        return {
            "epoch": self._epoch,
            "node_id": node.id,
            "incarnation": node.incarnation,
            "cluster_id": self._state.cluster_id,
            "registration": node.registration,
            "revision": self._state.revision,
        }

    @contextmanager
    def _told(self, node: Node, pushed: list[str], revision: int) -> Iterator[None]:
        self.talks.push(node, pushed)
        obeyed = False
        try:
            yield
            obeyed = True
        finally:
            self.talks.pushed(node, pushed, revision, obeyed=obeyed)

    def _start_requests(self, ids: Iterable[str]) -> Iterator[worker_pb2.StartTasksRequest]:
        """Yield requests to start those of the allocations that are still to be started, none with more values of
        secrets than an agent takes at once. Their header is empty."""
        request, held = worker_pb2.StartTasksRequest(), 0
        for allocation_id in ids:
            if not self._has_state(allocation_id):
                continue
            allocation = self._state.allocations[allocation_id]
            order = worker_pb2.TaskOrder()
            try:
                secrets = self._secrets.of(self._state, allocation)
                fill(self._orders.start(self._state, allocation), order)
            except NotYet:
                continue
            except Exception as error:  # a bug that one order meets
                self._faults.caught("orders", error)
                continue
            size = secrets.ByteSize() if secrets is not None else 0
            if held + size > MAX_SECRET_BYTES and request.orders:
                yield request
                request, held = worker_pb2.StartTasksRequest(), 0
            request.orders.append(order)
            if secrets is not None:
                request.secrets.append(secrets)
            held += size
        if request.orders:
            yield request

    @contextmanager
    def _traced(self, node_id: str, allocation_ids: list[str]) -> Iterator[None]:
        began_ns = now_ns()
        error: str | None = None
        try:
            yield
        except grpc.aio.AioRpcError as problem:
            error = problem.details() or problem.code().name
            raise
        finally:
            if self._traces:
                self._traces.dispatched(self._state, node_id, allocation_ids, began_ns, error)

    def _freeze_and_thaw(self, ids: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return those that are to be frozen now, and those that are to be thawed; one that is to stop is neither."""
        freeze: list[str] = []
        thaw: list[str] = []
        for allocation_id in ids:
            allocation = self._state.allocations.get(allocation_id)
            if allocation is None or self._state.tasks[allocation.task_id].state is TaskState.STOPPING:
                continue
            (freeze if self._state.jobs[allocation.job_id].frozen else thaw).append(allocation_id)
        return freeze, thaw

    def _those_in(self, ids: Iterable[str], wanted: TaskState) -> list[str]:
        """Return those whose task is in that state now: the state has changed since the order was noted."""
        return [i for i in ids if self._has_state(i, wanted)]

    def _has_state(self, allocation_id: str, wanted: TaskState = TaskState.PLACED) -> bool:
        allocation = self._state.allocations.get(allocation_id)
        return allocation is not None and self._state.tasks[allocation.task_id].state is wanted


def _chunks(ids: list[str]) -> list[list[str]]:
    return [ids[i : i + MAX_ORDERS] for i in range(0, len(ids), MAX_ORDERS)]
