"""Cordons and uncordons nodes: at an operator's request, and by what a node reports of itself.

Invariant: a report that the state has already changes nothing, and no node changes its own state more than once in
PACE_S: heartbeats stay out of the log.
"""

from __future__ import annotations

import structlog

from gosched.core.commands.nodes import ControlNode, NodeAction
from gosched.core.limits import MAX_DETAIL_LENGTH, MAX_DURATION_MS
from gosched.core.outcome import Rejected
from gosched.core.records.node import ClosedBy, Node, NodeState
from gosched.core.records.task import TaskState
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.clock import Clock
from gosched.master.base.errors import invalid
from gosched.master.base.proposals import Proposals
from gosched.wire.v1 import node_pb2

PACE_S = 10.0

log = structlog.get_logger()


def control_command(request: node_pb2.ControlNodeRequest, action: NodeAction, now_ms: int) -> ControlNode:
    """Return an operator's command. Raises ApiError."""
    if not 0 <= request.drain_in_ms <= MAX_DURATION_MS:
        raise invalid(f"the deadline of a drain lies at most {MAX_DURATION_MS // 86_400_000} days ahead")
    return ControlNode(
        node_id=request.node,
        action=action,
        by=ClosedBy.OPERATOR,
        reason=request.reason,
        drain_by_ms=now_ms + request.drain_in_ms if request.drain_in_ms else 0,
    )


def staying_jobs(state: ClusterState, node_id: str) -> list[str]:
    """Return the ids of the jobs with tasks on the node that are not told to stop."""
    stay: dict[str, None] = {}
    for allocation_id in state.node_allocations.get(node_id, ()):
        allocation = state.allocations[allocation_id]
        if state.tasks[allocation.task_id].state is not TaskState.STOPPING:
            stay[allocation.job_id] = None
    return sorted(stay)


class UnfitNodes:
    """Takes over what agents report of their own fitness."""

    def __init__(self, proposals: Proposals, clock: Clock) -> None:
        self._proposals = proposals
        self._clock = clock
        self._changed: dict[str, float] = {}  # node -> when it was changed last

    def drop(self, node_id: str) -> None:
        self._changed.pop(node_id, None)

    async def take(self, node: Node, unfit: str, epoch: int) -> None:
        """Cordon or uncordon the node as it reports. Raises ApiError."""
        action = _wanted(node, unfit)
        now_s = self._clock.monotonic_s()
        if action is None or now_s - self._changed.get(node.id, -PACE_S) < PACE_S:
            return
        self._changed[node.id] = now_s
        reason = "".join([c if c.isprintable() else " " for c in unfit[:MAX_DETAIL_LENGTH]])
        command = ControlNode(node_id=node.id, action=action, by=ClosedBy.AGENT, reason=reason)
        outcome = await self._proposals.propose(command, epoch=epoch)
        if isinstance(outcome, Rejected):
            log.info("what a node says of its fitness is not taken over", node=node.id, why=outcome.detail)


def _wanted(node: Node, unfit: str) -> NodeAction | None:
    if unfit and node.state is NodeState.READY:
        return NodeAction.CORDON
    if not unfit and node.state is NodeState.CORDONED and node.closed_by is ClosedBy.AGENT:
        return NodeAction.UNCORDON
    return None
