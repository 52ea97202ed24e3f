"""Nodes: they join, come back, and die.

Rule: a node never holds more than it has, so one that holds more than it now offers is refused until it has died.
"""

from __future__ import annotations

from dataclasses import replace

from gosched.core.cluster import Node, NodeState
from gosched.core.command import MarkNodeDead, RegisterNode, TaskReport
from gosched.core.job import Task, TaskState
from gosched.core.lifecycle import NODE_STEPS, advance
from gosched.core.limits import MAX_DETAIL_LENGTH, MAX_NODES
from gosched.core.outcome import Accepted, Code, Event, NodeChanged, Outcome, Rejected
from gosched.core.resources import GPU
from gosched.core.state import ClusterState
from gosched.machine.gangs import after_ends
from gosched.machine.names import amount_problem, id_problem, map_problem, name_problem
from gosched.machine.tasks import end


def register(state: ClusterState, command: RegisterNode, events: list[Event]) -> Outcome:
    """A new node, one that came back, or news of one that is there. A living node keeps its allocations."""
    problem = _problem(command)
    if problem:
        return Rejected(code=Code.INVALID, detail=problem)
    known = state.nodes.get(command.node_id)
    if known is None and len(state.nodes) >= MAX_NODES:
        return Rejected(code=Code.EXHAUSTED, detail=f"the cluster holds {MAX_NODES} nodes, its limit")
    if known is not None and not _holds_within(state, command):
        detail = f"node {command.node_id} holds more than it now offers: let its tasks end, or stop it until it is DEAD"
        return Rejected(code=Code.CONFLICT, detail=detail)
    node = _registered(state, known, command)
    if known is not None and node == replace(known, changed_at_ms=node.changed_at_ms):
        return Accepted(subject=node.id, unchanged=True)
    state.put_node(node)
    before = NodeState.UNSPECIFIED if known is None else known.state
    events.append(NodeChanged(node_id=node.id, before=before, after=node.state, reason=node.reason))
    return Accepted(subject=node.id)


def _problem(command: RegisterNode) -> str:
    if not command.incarnation or not command.address:
        return "a node needs an incarnation and an address"
    return (
        name_problem("node id", command.node_id)
        or id_problem("node name", command.name)
        or id_problem("node address", command.address)
        or id_problem("incarnation", command.incarnation)
        or id_problem("GPU model", command.gpu_model)
        or amount_problem("capacity", command.capacity)
        or map_problem("label", command.labels)
    )


def _holds_within(state: ClusterState, command: RegisterNode) -> bool:
    gpus = state.node_gpus_held(command.node_id)
    enough_gpus = not gpus or gpus[-1] < command.capacity.gpu_millis // GPU
    return enough_gpus and state.usage[command.node_id].fits_in(command.capacity)


def _registered(state: ClusterState, known: Node | None, command: RegisterNode) -> Node:
    node_state, reason = NodeState.READY, ""
    if known is not None and known.state is not NodeState.DEAD:
        node_state, reason = known.state, known.reason
    elif known is not None:
        node_state = advance(NODE_STEPS, known.state, NodeState.READY)
    return Node(
        id=command.node_id,
        name=command.name or command.node_id,
        address=command.address,
        capacity=command.capacity,
        gpu_model=command.gpu_model,
        labels=command.labels,
        state=node_state,
        reason=reason,
        incarnation=command.incarnation,
        registered_at_ms=state.clock_ms if known is None else known.registered_at_ms,
        changed_at_ms=state.clock_ms,
    )


def mark_dead(state: ClusterState, command: MarkNodeDead, events: list[Event]) -> Outcome:
    """Its tasks are LOST, the started and the merely placed ones alike, and their gangs follow their policies."""
    node = state.nodes.get(command.node_id)
    if node is None:
        return Rejected(code=Code.NOT_FOUND, detail=f"no node {command.node_id!a}")
    if node.incarnation != command.incarnation:
        return Rejected(code=Code.STALE_INCARNATION, detail=f"node {node.id} has registered anew meanwhile")
    if node.state is NodeState.DEAD:
        return Rejected(code=Code.CONFLICT, detail=f"node {node.id} is dead already")
    reason = command.reason[:MAX_DETAIL_LENGTH]
    dead = advance(NODE_STEPS, node.state, NodeState.DEAD)
    state.put_node(replace(node, state=dead, reason=reason, changed_at_ms=state.clock_ms))
    events.append(NodeChanged(node_id=node.id, before=node.state, after=dead, reason=reason))
    ended: dict[str, Task | None] = {}
    for allocation in sorted(state.node_allocations[node.id]):
        task = state.tasks[state.allocations[allocation].task_id]
        lost = TaskReport(
            allocation_id=allocation, state=TaskState.LOST, reason="NODE_LOST", detail=f"node {node.name} is dead"
        )
        end(state, events, task, lost, ended)
    after_ends(state, events, ended)
    return Accepted(subject=node.id)
