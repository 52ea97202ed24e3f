"""NodeService: agents join, report and are told. Served by the leader.

Rule: a heartbeat itself never enters the log, only what changed; and an agent may forget a result only once it is
committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from gosched.config import MasterSettings
from gosched.core.cluster import Hardware, Node, NodeState
from gosched.core.command import RegisterNode, ReportTasks, TaskReport
from gosched.core.job import Taint, TaskState
from gosched.core.limits import MAX_DETAIL_LENGTH, MAX_NAME_LENGTH
from gosched.core.outcome import Rejected
from gosched.core.resources import ZERO, Resources
from gosched.master.channels import Channels
from gosched.master.clock import Clock
from gosched.master.errors import ApiError, accepted, invalid, parsed
from gosched.master.leadership import Leadership
from gosched.master.leases import Leases
from gosched.master.orders import Orders, stop_order
from gosched.master.proposals import Proposals
from gosched.master.reconcile import Verdict, compare
from gosched.replication.interface import Replication
from gosched.wire.codec import fill, map_pairs
from gosched.wire.v1 import node_pb2, node_pb2_grpc, worker_pb2, worker_pb2_grpc

PROBE_TIMEOUT_S = 1.0
MAX_TASKS_OBSERVED = 100_000
MAX_REPORTS = 256  # in one command: each may carry a long detail
MAX_START_BYTES = 1024 * 1024  # of start orders in one heartbeat; the others follow with the next one

_REPORTED = frozenset(
    {TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING}
    | {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED, TaskState.LOST}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeService(node_pb2_grpc.NodeServiceServicer):
    replication: Replication
    leadership: Leadership
    proposals: Proposals
    leases: Leases
    agents: Channels
    clock: Clock
    settings: MasterSettings
    orders: Orders = field(default_factory=Orders)
    # Node -> the epoch of its last heartbeat, and what that one should have named and did not.
    missing: dict[str, tuple[int, Sequence[str]]] = field(default_factory=dict)

    async def RegisterNode(self, request: node_pb2.RegisterNodeRequest, context: Any) -> node_pb2.RegisterNodeResponse:
        observed = _observations(request.tasks)
        self._check_clock(request.clock_ms)
        await self._check_not_in_use(request)
        leftovers = compare(self.replication.state, request.node_id, observed).leftovers
        answer = node_pb2.RegisterNodeResponse(
            stop_first=leftovers, heartbeat_ms=self.settings.lease.heartbeat_ms, epoch=self.leadership.epoch
        )
        if leftovers:
            return answer
        accepted(await self.proposals.propose(_command(request), epoch=self.leadership.epoch))
        self.leases.renew(request.node_id)
        return answer

    async def Heartbeat(self, request: node_pb2.HeartbeatRequest, context: Any) -> node_pb2.HeartbeatResponse:
        epoch, state = self.leadership.epoch, self.replication.state
        node = state.nodes.get(request.node_id)
        if not _is_alive(node, request.incarnation):
            return node_pb2.HeartbeatResponse(epoch=epoch, register_again=True)
        self.leases.renew(request.node_id)
        observed = _observations(request.tasks)
        missed_in, missing = self.missing.pop(request.node_id, (0, ()))
        verdict = compare(state, request.node_id, observed, missing if missed_in == epoch else ())
        if verdict.missing:
            self.missing[request.node_id] = (epoch, verdict.missing)
        if verdict.reports:
            if not await self._commit(request, verdict.reports, epoch):
                return node_pb2.HeartbeatResponse(epoch=epoch, register_again=True)
            verdict = compare(self.replication.state, request.node_id, observed)
        return self._answer(verdict, epoch)

    async def ListNodes(self, request: node_pb2.ListNodesRequest, context: Any) -> node_pb2.ListNodesResponse:
        wanted = map_pairs(request.labels)
        state = self.replication.state
        answer = node_pb2.ListNodesResponse(revision=state.revision)
        for node in state.nodes.values():
            if all(pair in node.labels for pair in wanted):
                view = answer.nodes.add(
                    tasks=len(state.node_allocations[node.id]), heartbeat_age_ms=self.leases.age_ms(node.id)
                )
                fill(node, view.node)
                fill(state.usage.get(node.id, ZERO), view.used)
        return answer

    def _check_clock(self, clock_ms: int) -> None:
        skew_ms = clock_ms - self.clock.now_ms()
        if abs(skew_ms) > self.settings.limits.max_clock_skew_ms:
            side = "ahead of" if skew_ms > 0 else "behind"
            raise ApiError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"the node's clock is {abs(skew_ms) // 1000} s {side} the masters': set the clock (for example with "
                "NTP), then start the agent again",
            )

    async def _check_not_in_use(self, request: node_pb2.RegisterNodeRequest) -> None:
        """Two agents with one data directory (or a copy of it) would fight over the node."""
        node = self.replication.state.nodes.get(request.node_id)
        if node is None or node.state is NodeState.DEAD or node.incarnation == request.incarnation:
            return
        if node.address == request.address:
            return  # it was started anew on the same port, so the agent before it is gone
        stub = worker_pb2_grpc.WorkerServiceStub(self.agents.to(node.address))
        try:
            found = await stub.GetIdentity(worker_pb2.GetIdentityRequest(), timeout=PROBE_TIMEOUT_S)
        except grpc.aio.AioRpcError:
            return  # nobody is there any more
        if (found.node_id, found.incarnation) == (node.id, node.incarnation):
            raise ApiError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"node id {node.id} is in use by the agent at {node.address}: give this agent its own data directory",
            )

    async def _commit(self, request: node_pb2.HeartbeatRequest, reports: Sequence[TaskReport], epoch: int) -> bool:
        """False when the node is not counted as alive under this incarnation any more."""
        for start in range(0, len(reports), MAX_REPORTS):
            command = ReportTasks(
                node_id=request.node_id,
                incarnation=request.incarnation,
                reports=tuple(reports[start : start + MAX_REPORTS]),
            )
            if isinstance(await self.proposals.propose(command, epoch=epoch), Rejected):
                return False
        return True

    def _answer(self, verdict: Verdict, epoch: int) -> node_pb2.HeartbeatResponse:
        state = self.replication.state
        answer = node_pb2.HeartbeatResponse(epoch=epoch, forget=verdict.forget)
        size = 0
        for allocation_id in verdict.start:
            if size > MAX_START_BYTES:
                break
            order = self.orders.start(state, state.allocations[allocation_id])
            size += order.ByteSize()
            answer.start.append(order)
        answer.stop.extend(stop_order(state, state.allocations[i]) for i in verdict.stop)
        answer.stop.extend(
            worker_pb2.StopOrder(allocation_id=i, grace_ms=0, reason="NOT_EXPECTED") for i in verdict.leftovers
        )
        return answer


def _is_alive(node: Node | None, incarnation: str) -> bool:
    return node is not None and node.state is not NodeState.DEAD and node.incarnation == incarnation


def _observations(messages: Iterable[node_pb2.TaskObservation]) -> list[TaskReport]:
    observed = [_observation(message) for message in messages]
    if len(observed) > MAX_TASKS_OBSERVED:
        raise invalid(f"{len(observed)} tasks on one node; at most {MAX_TASKS_OBSERVED} can be reported")
    return observed


def _observation(message: node_pb2.TaskObservation) -> TaskReport:
    state = int(message.state)
    if state not in _REPORTED:
        raise invalid(f"task {message.allocation_id!a} is reported in a state that no agent can see")
    return TaskReport(
        allocation_id=message.allocation_id,
        state=TaskState(state),
        exit_code=message.exit_code if message.HasField("exit_code") else None,
        reason=message.reason[:MAX_NAME_LENGTH],
        detail=message.detail[:MAX_DETAIL_LENGTH],
        started_at_ms=message.started_at_ms,
        ended_at_ms=message.ended_at_ms,
        checkpoint_at_ms=message.checkpoint_at_ms,
    )


def _command(request: node_pb2.RegisterNodeRequest) -> RegisterNode:
    return RegisterNode(
        node_id=request.node_id,
        name=request.name,
        address=request.address,
        incarnation=request.incarnation,
        capacity=parsed(request.capacity, Resources),
        gpu_model=request.gpu_model,
        labels=map_pairs(request.labels),
        taints=tuple([parsed(taint, Taint) for taint in request.taints]),
        hardware=parsed(request.hardware, Hardware),
    )
