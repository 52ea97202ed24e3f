"""Nodes: they join, come back, and die.

Invariant: a node never holds more than it has, so one that holds more than it now offers is refused until it has died.
What was ordered or reported under one registration never counts under the next: its number is the revision that made
it, so it grows for as long as the cluster lives, also over nodes that were removed.
"""

from __future__ import annotations

from collections.abc import Sequence

from gosched.core.commands.nodes import AwaitNode, MarkNodeDead, RegisterNode, TaskReport
from gosched.core.events import Event, NodeChanged
from gosched.core.features import FeatureLevel
from gosched.core.lifecycle import NODE_STEPS, advance
from gosched.core.limits import MAX_DETAIL_LENGTH, MAX_DURATION_MS, MAX_LOST_AT_ONCE, MAX_NODES
from gosched.core.matching import blocking_taint
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.reasons import Reason
from gosched.core.records.node import ClosedBy, Node, NodeState
from gosched.core.records.task import Task, TaskState
from gosched.core.replace import replace
from gosched.core.resources import MILLI, Resources
from gosched.core.rules.finding import text_of
from gosched.core.rules.placement import check_taints
from gosched.core.rules.values import check_capacity, check_id, check_line, check_map, check_name
from gosched.core.spec.placement_rules import Taint, TaintEffect
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.silent_members import may_live_on
from gosched.state_machine import fences
from gosched.state_machine.accounts import bring_up
from gosched.state_machine.evictions import evict_gang
from gosched.state_machine.gang_fit import HeldByEach
from gosched.state_machine.gangs import after_ends
from gosched.state_machine.hardware import cpu_mask, hardware_problem
from gosched.state_machine.node_control import away_reason
from gosched.state_machine.operator_labels import kept_from_operator
from gosched.state_machine.retention import forget_dead_nodes
from gosched.state_machine.size_limits import node_size_refusal
from gosched.state_machine.tasks import end_task


def register(state: ClusterState, command: RegisterNode, events: list[Event]) -> Outcome:
    """Add a new node, one that came back, or news of one that is there. A living node keeps its allocations."""
    problem = _problem(command)
    if problem:
        return Rejected(code=Code.INVALID, detail=problem)
    known = state.nodes.get(command.node_id)
    if known is None and len(state.nodes) >= MAX_NODES and state.feature_level >= FeatureLevel.BOUNDED:
        forget_dead_nodes(state, events)
    if known is None and len(state.nodes) >= MAX_NODES:
        return Rejected(code=Code.EXHAUSTED, detail=f"the cluster holds {MAX_NODES} nodes, its limit")
    if known is not None and known.away_ms and known.incarnation == command.incarnation:
        return Rejected(code=Code.CONFLICT, detail=f"node {known.id}: its agent was stopped, this came late")
    problem = "" if known is None else _shrink_problem(state, known, command)
    if problem:
        detail = f"{problem}: let its tasks end, or stop it until it is DEAD"
        return Rejected(code=Code.CONFLICT, detail=detail)
    node = _registered(state, known, command)
    if known is not None and node == replace(known, changed_at_ms=node.changed_at_ms):
        return Accepted(subject=node.id, unchanged=True)
    refused = node_size_refusal(state, node)
    if refused is not None:
        return refused
    state.put_node(node)
    before = NodeState.UNSPECIFIED if known is None else known.state
    events.append(NodeChanged(node_id=node.id, before=before, after=node.state, reason=node.reason, node=node))
    new_taints = [t for t in node.taints if known is None or t not in known.taints]
    evict_intolerant(state, events, node, new_taints)
    return Accepted(subject=node.id)


def evict_intolerant(state: ClusterState, events: list[Event], node: Node, taints: Sequence[Taint]) -> None:
    """Stop the gangs that have a task on the node which does not tolerate one of the taints that evict."""
    taints = [taint for taint in taints if taint.effect is TaintEffect.NO_EXECUTE]
    for allocation in sorted(state.node_allocations[node.id]) if taints else ():
        task = state.tasks[state.allocations[allocation].task_id]
        job = state.jobs[task.job_id]
        group = next(group for group in job.spec.groups if group.name == task.group)
        taint = blocking_taint(group.tolerations, taints)
        if taint is not None:
            detail = f"task {task.group}/{task.index} does not tolerate the taint {taint.key} of node {node.id}"
            evict_gang(state, events, job, Reason.TAINTED, detail)


def _problem(command: RegisterNode) -> str:
    if not command.incarnation or not command.address:
        return "a node needs an incarnation and an address"
    found = (
        check_name("node id", command.node_id)
        or check_id("node name", command.name)
        or check_id("node address", command.address)
        or check_id("incarnation", command.incarnation)
        or check_id("GPU model", command.gpu_model)
        or check_capacity("capacity", command.capacity)
        or check_map("label", command.labels)
        or check_taints(command.taints)
        or check_line("what it cannot enforce (isolation)", command.isolation)
    )
    return text_of(found) or hardware_problem(command.hardware, command.capacity)


def _shrink_problem(state: ClusterState, known: Node, command: RegisterNode) -> str:
    node = command.node_id
    gpus = state.node_gpus_held(node)
    if gpus and command.gpu_model != known.gpu_model:
        return f"tasks hold GPUs of node {node}, whose model cannot change meanwhile"
    enough_gpus = not gpus or max(gpus) < command.capacity.gpu_millis // MILLI
    cpus_are_there = not state.node_cpus_held(node) & ~cpu_mask(command.hardware.numa_cpus)
    if enough_gpus and cpus_are_there and all(held.fits_in(command.capacity) for held in _capacity_needed(state, node)):
        return ""
    return f"node {node} holds more than it now offers"


def _capacity_needed(state: ClusterState, node: str) -> tuple[Resources, ...]:
    """Return what is held there now, and what will be once all that stop have stopped, and all fences have become
    starts."""
    later = HeldByEach(state, lambda a: state.tasks[a.task_id].state is not TaskState.STOPPING, fences=True)
    return (state.usage[node], *later.held(node))


def _registered(state: ClusterState, known: Node | None, command: RegisterNode) -> Node:
    """Return the node as it is registered. What closed it, and what it failed at, is remembered; what its own agent
    said in an earlier life is not."""
    node_state, reason, closed_by = NodeState.READY, "", ClosedBy.UNSPECIFIED
    if known is not None and known.state is not NodeState.DEAD:
        node_state, reason, closed_by = known.state, known.reason, known.closed_by
        if known.away_ms and closed_by is ClosedBy.AGENT:  # the one that is back says anew if it is unfit
            node_state, reason, closed_by = advance(NODE_STEPS, known.state, NodeState.READY), "", ClosedBy.UNSPECIFIED
    elif known is not None:
        if known.closed_by in (ClosedBy.OPERATOR, ClosedBy.FAILURES):
            node_state, reason, closed_by = NodeState.CORDONED, known.reason, known.closed_by
        advance(NODE_STEPS, known.state, node_state)
    set_labels, set_taints = kept_from_operator(known, command.labels, command.taints)
    return Node(
        id=command.node_id,
        name=command.name or command.node_id,
        address=command.address,
        capacity=command.capacity,
        gpu_model=command.gpu_model,
        labels=tuple(sorted((*command.labels, *set_labels))),
        taints=(*command.taints, *set_taints),
        hardware=command.hardware,
        state=node_state,
        reason=reason,
        incarnation=command.incarnation,
        registered_at_ms=state.clock_ms if known is None else known.registered_at_ms,
        changed_at_ms=state.clock_ms,
        isolation=command.isolation,
        closed_by=closed_by,
        drain_by_ms=known.drain_by_ms if known is not None else 0,
        failing=known.failing if known is not None else (),
        set_labels=tuple([key for key, _ in set_labels]),
        set_taints=set_taints,
        registration=_registration(state, known, command),
    )


def _registration(state: ClusterState, known: Node | None, command: RegisterNode) -> int:
    if not command.numbered or state.feature_level < FeatureLevel.BOUNDED:
        return 0
    goes_on = known is not None and known.state is not NodeState.DEAD and known.incarnation == command.incarnation
    return (known.registration if known is not None and goes_on else 0) or state.revision


def await_node(state: ClusterState, command: AwaitNode, events: list[Event]) -> Outcome:
    """Close a node whose agent was stopped; what runs there goes on, and waits for the agent to come back."""
    if not 0 < command.for_ms <= MAX_DURATION_MS:
        return Rejected(code=Code.INVALID, detail=f"a node is awaited for 1 to {MAX_DURATION_MS} ms")
    node = state.nodes.get(command.node_id)
    if node is None or node.state is NodeState.DEAD or not _is_of(command, node):
        detail = f"node {command.node_id!a} is not alive under this registration"
        return Rejected(code=Code.STALE_INCARNATION, detail=detail)
    away = replace(node, away_ms=command.for_ms)
    state.put_node(away)
    if node.state is NodeState.READY:
        _cordon(state, events, away, away_reason(away))
    return Accepted(subject=node.id)


def _is_of(command: AwaitNode | MarkNodeDead, node: Node) -> bool:
    return (node.incarnation, node.registration) == (command.incarnation, command.registration or node.registration)


def mark_dead(state: ClusterState, command: MarkNodeDead, events: list[Event]) -> Outcome:
    """Let the tasks of a node be LOST, the started and the merely placed ones alike; their gangs follow their policies.
    The fences on it are dropped. A node that holds very many is closed, and loses them by several such commands; the
    last one makes it DEAD. So is one that is waited for, as long as there are tasks that may live on."""
    node = state.nodes.get(command.node_id)
    if node is None:
        return Rejected(code=Code.NOT_FOUND, detail=f"no node {command.node_id!a}")
    if not _is_of(command, node):
        return Rejected(code=Code.STALE_INCARNATION, detail=f"node {node.id} has registered anew meanwhile")
    if node.state is NodeState.DEAD:
        return Rejected(code=Code.CONFLICT, detail=f"node {node.id} is dead already")
    reason = command.reason[:MAX_DETAIL_LENGTH]
    waits = command.waited_ms > 0 and state.feature_level >= FeatureLevel.BOUNDED
    staying = dict.fromkeys(may_live_on(state, node.id, command.waited_ms)) if waits else {}
    some = _first_allocations(state, [a for a in state.node_allocations[node.id] if a not in staying])
    if len(some) < len(state.node_allocations[node.id]):
        _cordon(state, events, node, f"{reason}; {len(staying)} of its tasks may live on there" if staying else reason)
        _lose(state, events, node, some, command.heard_at_ms)
        return Accepted(subject=node.id)
    for allocation in state.node_allocations[node.id]:
        bring_up(state, state.jobs[state.allocations[allocation].job_id].spec)
    dead = advance(NODE_STEPS, node.state, NodeState.DEAD)
    awaited = node.away_ms and node.closed_by is ClosedBy.AGENT
    kept = node.reason if node.closed_by and not awaited else reason  # it comes back closed, and then says why
    state.put_node(replace(node, state=dead, reason=kept, changed_at_ms=state.clock_ms, drain_by_ms=0, away_ms=0))
    events.append(NodeChanged(node_id=node.id, before=node.state, after=dead, reason=reason, node=node))
    _lose(state, events, node, some, command.heard_at_ms)
    fences.drop_on(state, events, node.id, f"node {node.id} died")
    return Accepted(subject=node.id)


def _first_allocations(state: ClusterState, allocations: list[str]) -> list[str]:
    """Return allocations whose jobs have no more than MAX_LOST_AT_ONCE tasks together, but at least one."""
    held = sorted(allocations)
    if state.feature_level < FeatureLevel.BOUNDED:
        return held
    jobs: dict[str, None] = {}
    tasks = 0
    for count, allocation_id in enumerate(held):
        job = state.jobs[state.allocations[allocation_id].job_id]
        tasks += 0 if job.id in jobs else job.spec.task_count
        if count and tasks > MAX_LOST_AT_ONCE:
            return held[:count]
        jobs[job.id] = None
    return held


def _cordon(state: ClusterState, events: list[Event], node: Node, reason: str) -> None:
    """Close a node; if its agent comes back meanwhile, that may open it again."""
    if node.state is NodeState.READY:
        closed = advance(NODE_STEPS, node.state, NodeState.CORDONED)
        cordoned = replace(node, state=closed, closed_by=ClosedBy.AGENT, reason=reason, changed_at_ms=state.clock_ms)
        state.put_node(cordoned)
        events.append(NodeChanged(node_id=node.id, before=node.state, after=closed, reason=reason, node=cordoned))
        fences.drop_on(state, events, node.id, f"node {node.id} is {closed.name}")


def _lose(state: ClusterState, events: list[Event], node: Node, allocations: list[str], heard_at_ms: int) -> None:
    ended: dict[str, Task | None] = {}
    for allocation in allocations:
        task = state.tasks[state.allocations[allocation].task_id]
        detail = f"node {node.id} is dead"
        lost = TaskReport(allocation_id=allocation, state=TaskState.LOST, reason=Reason.NODE_LOST, detail=detail)
        end_task(state, events, task, lost, ended)
    after_ends(state, events, ended, heard_at_ms)
