"""Nodes are closed and opened: by people, by their own agents, and after task upon task failed there.

Invariant: what closed a node says what may open it, and the fences on a node that closes are dropped at once.
"""

from __future__ import annotations

from typing import assert_never

from gosched.core.amounts import duration_text
from gosched.core.commands.nodes import ControlNode, NodeAction, RemoveNode, TaskReport
from gosched.core.events import Event, NodeChanged
from gosched.core.features import FeatureLevel
from gosched.core.lifecycle import NODE_STEPS, advance
from gosched.core.limits import MAX_FAILING_JOBS, MAX_LOST_AT_ONCE, MAX_NAME_LENGTH
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.preemption_rules import may_restart
from gosched.core.reasons import Reason
from gosched.core.records.job import Job
from gosched.core.records.node import ClosedBy, Node, NodeState
from gosched.core.records.task import Task, TaskState
from gosched.core.replace import replace
from gosched.core.rules.finding import text_of
from gosched.core.rules.values import check_line, check_moment
from gosched.core.spec.policies import RetryCause
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import fences
from gosched.state_machine.evictions import can_spare, evict_gang, evict_tasks
from gosched.state_machine.retention import forget_node

EMPTY = "drained"
_SHOWN = 5  # nodes of one name


def control(state: ClusterState, command: ControlNode, events: list[Event]) -> Outcome:
    """Close a node, or open it. One that is DEAD stays so, and is what it was made once it is back."""
    problem = _command_problem(command)
    if problem:
        return Rejected(code=Code.INVALID, detail=problem)
    node = find_node(state, command.node_id)
    if isinstance(node, Rejected):
        return node
    if _is_closed_by_another(node, command.by):
        if command.action is NodeAction.CORDON:
            return Accepted(subject=node.id, unchanged=True)
        detail = f"node {node.id} was closed by {_closer(node)}, not by its agent: only an operator may change that"
        return Rejected(code=Code.CONFLICT, detail=detail)
    before = len(events)
    match command.action:
        case NodeAction.CORDON:
            if command.by is ClosedBy.OPERATOR or node.state is not NodeState.DRAINING:
                _close(state, events, node, command.by, _reason(node, command))
        case NodeAction.UNCORDON:
            _open(state, events, node)
        case NodeAction.DRAIN:
            _drain(state, events, node, command)
        case NodeAction.UNSPECIFIED:
            return Rejected(code=Code.INVALID, detail="the action must be cordon, uncordon or drain")
        case _:
            assert_never(command.action)
    return Accepted(subject=node.id, unchanged=len(events) == before)


def remove(state: ClusterState, command: RemoveNode, events: list[Event]) -> Outcome:
    """Forget a dead node, by id or name."""
    node = find_node(state, command.node_id)
    if isinstance(node, Rejected):
        return node
    if node.state is not NodeState.DEAD:
        detail = f"node {node.id} is {node.state.name}: stop its agent, and wait until it is DEAD"
        return Rejected(code=Code.CONFLICT, detail=detail)
    window = min([window.name for window in state.windows.values() if node.id in window.nodes], default="")
    if window:
        detail = f"node {node.id} is in the window {window}: delete it first, or make it without the node"
        return Rejected(code=Code.CONFLICT, detail=detail)
    forget_node(state, events, node)
    return Accepted(subject=node.id)


def drain_over(state: ClusterState, events: list[Event], node_id: str) -> int:
    """End a drain: what is still there is stopped, and stays due where that is very much. Return how many tasks are
    there."""
    node = replace(state.nodes[node_id], drain_by_ms=0)
    state.put_node(node)
    if not _evict_from(state, events, node, "was to be empty by now", all_jobs=True):
        state.put_node(replace(node, drain_by_ms=state.clock_ms))
    return len(state.node_allocations[node.id])


def count_end(state: ClusterState, node_id: str, job: Job, seen: TaskReport) -> str:
    """Remember for which jobs the node has failed since a task last succeeded there. Return why it failed now, or an
    empty string."""
    node = state.nodes[node_id]
    failing = node.failing
    counts_lost = state.feature_level >= FeatureLevel.BOUNDED and seen.state is TaskState.LOST
    blames = (seen.state is TaskState.FAILED or counts_lost) and seen.blames_node
    if seen.state is TaskState.SUCCEEDED:
        failing = ()
    elif blames and len(failing) < MAX_FAILING_JOBS:
        while job.parent:
            job = state.jobs[job.parent]
        failing = tuple(dict.fromkeys([*failing, job.id]))
    if failing != node.failing:
        state.put_node(replace(node, failing=failing))
    return (seen.reason[:MAX_NAME_LENGTH] or "FAILED") if blames else ""


def after_ends(state: ClusterState, events: list[Event], node_id: str, reason: str) -> None:
    """Close a node that has failed for too many jobs, and one that drains and is empty. `reason`: of its last failure,
    if it failed now."""
    node = state.nodes[node_id]
    if reason and node.state is NodeState.READY and len(node.failing) >= MAX_FAILING_JOBS:
        why = f"tasks of {len(node.failing)} jobs failed here in a row, the last one with {reason}"
        _close(state, events, node, ClosedBy.FAILURES, why)
    elif node.state is NodeState.DRAINING and not state.node_allocations[node_id]:
        _change(state, events, _emptied(node))


def _command_problem(command: ControlNode) -> str:
    if command.by not in (ClosedBy.OPERATOR, ClosedBy.AGENT):
        return "a node is closed and opened by an operator or by its agent: say which"
    if command.drain_by_ms and command.action is not NodeAction.DRAIN:
        return "only a drain has an end: leave it out"
    return text_of(
        check_line("the reason", command.reason) or check_moment("the end of the drain at", command.drain_by_ms)
    )


def away_reason(node: Node) -> str:
    """Return why a node whose agent was stopped takes no work."""
    return f"its agent was stopped, and is awaited for {duration_text(node.away_ms)}"


def find_node(state: ClusterState, id_or_name: str) -> Node | Rejected:
    """Return the node of the id, else of a name that one node alone has."""
    if id_or_name in state.nodes:
        return state.nodes[id_or_name]
    shown = f"{id_or_name[:MAX_NAME_LENGTH]!a}"
    named = sorted([node.id for node in state.nodes.values() if node.name == id_or_name])
    if len(named) > 1:
        some = ", ".join(named[:_SHOWN]) + (", ..." if len(named) > _SHOWN else "")
        return Rejected(code=Code.CONFLICT, detail=f"{len(named)} nodes are named {shown}: give an id, such as {some}")
    if not named:
        return Rejected(code=Code.NOT_FOUND, detail=f"no node {shown}")
    return state.nodes[named[0]]


def _is_closed_by_another(node: Node, by: ClosedBy) -> bool:
    """Return whether something else has closed the node, so that this one may not open it."""
    return by is ClosedBy.AGENT and node.closed_by not in (ClosedBy.UNSPECIFIED, ClosedBy.AGENT)


def _closer(node: Node) -> str:
    return "an operator" if node.closed_by is ClosedBy.OPERATOR else "its failures"


def _close(state: ClusterState, events: list[Event], node: Node, by: ClosedBy, reason: str) -> None:
    """Close a node; what runs there goes on."""
    closed = replace(node, closed_by=by, reason=reason, drain_by_ms=0)
    _change(state, events, replace(closed, state=_unless_dead(node, NodeState.CORDONED)))


def _open(state: ClusterState, events: list[Event], node: Node) -> None:
    """Open a node; one whose agent is away is opened by that agent's return."""
    if node.away_ms:
        _close(state, events, replace(node, failing=()), ClosedBy.AGENT, away_reason(node))
        return
    opened = replace(node, closed_by=ClosedBy.UNSPECIFIED, failing=(), drain_by_ms=0)
    if node.closed_by:
        opened = replace(opened, state=_unless_dead(node, NodeState.READY), reason="")
    _change(state, events, opened)


def _drain(state: ClusterState, events: list[Event], node: Node, command: ControlNode) -> None:
    """Drain a node: what can start again elsewhere is evicted at once, the rest by the end of the drain."""
    draining = replace(
        node,
        state=_unless_dead(node, NodeState.DRAINING),
        closed_by=command.by,
        reason=_reason(node, command),
        drain_by_ms=command.drain_by_ms,
    )
    if not state.node_allocations[node.id]:
        _change(state, events, _emptied(draining))
        return
    _change(state, events, draining)
    _evict_from(state, events, draining, "is drained", all_jobs=False)


def _evict_from(state: ClusterState, events: list[Event], node: Node, why: str, *, all_jobs: bool) -> bool:
    """Stop the tasks there: alone where their gang can spare them, else with all of it. Return whether that were all;
    one command stops no more than MAX_LOST_AT_ONCE tasks, but at least one job."""
    is_bounded = state.feature_level >= FeatureLevel.BOUNDED
    tasks = 0
    there: dict[str, list[Task]] = {}
    for allocation in state.node_allocations[node.id]:
        task = state.tasks[state.allocations[allocation].task_id]
        if task.state is not TaskState.STOPPING:
            there.setdefault(task.job_id, []).append(task)
    for job in sorted([state.jobs[job_id] for job_id in there], key=lambda job: job.sequence):
        evicted = sorted(there[job.id], key=lambda task: task.rank)
        alone = can_spare(state, job, evicted)
        if not (alone or all_jobs or may_restart(job, RetryCause.PREEMPTED)):
            continue
        count = len(evicted) if alone else job.spec.task_count
        if is_bounded and tasks and tasks + count > MAX_LOST_AT_ONCE:
            return False
        tasks += count
        if alone:
            evict_tasks(state, events, job, evicted, Reason.DRAINED)
        else:
            evict_gang(state, events, job, Reason.DRAINED, f"node {node.id} {why}")
    return True


def _reason(node: Node, command: ControlNode) -> str:
    """Return the reason of the command, or the old one where the same closer says nothing new."""
    if command.reason or command.by is not node.closed_by or node.reason == EMPTY:
        return command.reason
    return node.reason.removeprefix(f"{EMPTY}: ")


def _emptied(node: Node) -> Node:
    reason = f"{EMPTY}: {node.reason}" if node.reason else EMPTY
    return replace(node, state=_unless_dead(node, NodeState.CORDONED), reason=reason, drain_by_ms=0)


def _unless_dead(node: Node, wanted: NodeState) -> NodeState:
    return node.state if node.state is NodeState.DEAD else wanted


def _change(state: ClusterState, events: list[Event], after: Node) -> None:
    before = state.nodes[after.id]
    if after == before:
        return
    if after.state is not before.state:
        advance(NODE_STEPS, before.state, after.state)
        after = replace(after, changed_at_ms=state.clock_ms)
    state.put_node(after)
    events.append(
        NodeChanged(node_id=after.id, before=before.state, after=after.state, reason=after.reason, node=after)
    )
    if after.state is not NodeState.READY:
        fences.drop_on(state, events, after.id, f"node {after.id} is {after.state.name}")
