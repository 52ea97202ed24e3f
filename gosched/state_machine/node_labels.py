"""Operators set and drop labels and taints of nodes."""

from __future__ import annotations

from gosched.core.commands.nodes import LabelNode
from gosched.core.events import Event, NodeChanged
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.records.node import Node
from gosched.core.replace import replace
from gosched.core.rules.placement import check_taints
from gosched.core.rules.values import check_map
from gosched.core.spec.placement_rules import Taint
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine.node_control import find_node
from gosched.state_machine.nodes import evict_intolerant
from gosched.state_machine.operator_labels import place_of
from gosched.state_machine.size_limits import node_size_refusal


def label(state: ClusterState, command: LabelNode, events: list[Event]) -> Outcome:
    """Change labels and taints; tasks that do not tolerate a new taint that evicts are stopped."""
    node = find_node(state, command.node_id)
    if isinstance(node, Rejected):
        return node
    labels = _labels(node, command)
    if isinstance(labels, Rejected):
        return labels
    taints = _taints(node, command)
    if isinstance(taints, Rejected):
        return taints
    own = tuple([taint for taint in node.taints if taint not in node.set_taints])
    own_keys = [key for key, _ in node.labels if key not in node.set_labels]
    after = replace(
        node,
        labels=tuple(sorted(labels.items())),
        taints=(*own, *taints),
        set_labels=tuple(sorted([key for key in labels if key not in own_keys])),
        set_taints=taints,
    )
    found = check_map("label", after.labels) or check_taints(after.taints)
    if found:
        return Rejected(code=Code.INVALID, detail=str(found))
    if after == node:
        return Accepted(subject=node.id, unchanged=True)
    after = replace(after, changed_at_ms=state.clock_ms)
    refused = node_size_refusal(state, after)
    if refused is not None:
        return refused
    state.put_node(after)
    events.append(NodeChanged(node_id=node.id, before=node.state, after=node.state, reason=node.reason))
    evict_intolerant(state, events, after, [taint for taint in taints if taint not in node.taints])
    return Accepted(subject=node.id)


def _labels(node: Node, command: LabelNode) -> dict[str, str] | Rejected:
    """Return all labels of the node after the command."""
    labels = dict(node.labels)
    for key in command.drop_labels:
        if key not in labels:
            return Rejected(code=Code.NOT_FOUND, detail=f"node {node.id} has no label {key[:MAX_NAME_LENGTH]!a}")
    for key in (*command.drop_labels, *dict(command.labels)):
        if key in labels and key not in node.set_labels:
            return _of_agent(node, f"label {key}")
    dropped = {key: value for key, value in labels.items() if key not in command.drop_labels}
    return {**dropped, **dict(command.labels)}


def _taints(node: Node, command: LabelNode) -> tuple[Taint, ...] | Rejected:
    """Return the operators' taints of the node after the command."""
    own = [place_of(taint) for taint in node.taints if taint not in node.set_taints]
    kept = list(node.set_taints)
    for name in command.drop_taints:
        left = [taint for taint in kept if name not in _names(taint)]
        if len(left) == len(kept):
            if any(name in _names(taint) for taint in node.taints):
                return _of_agent(node, f"taint {name}")
            return Rejected(code=Code.NOT_FOUND, detail=f"node {node.id} has no taint {name[:MAX_NAME_LENGTH]!a}")
        kept = left
    for taint in command.taints:
        if place_of(taint) in own:
            return _of_agent(node, f"taint {_names(taint)[1]}")
        kept = [*[other for other in kept if place_of(other) != place_of(taint)], taint]
    return tuple(sorted(kept, key=place_of))


def _names(taint: Taint) -> tuple[str, str]:
    return taint.key, f"{taint.key}:{taint.effect.name.lower()}"


def _of_agent(node: Node, what: str) -> Rejected:
    shown = what[: 2 * MAX_NAME_LENGTH]
    detail = f"the {shown} of node {node.id} is of its agent's config: change it there"
    return Rejected(code=Code.CONFLICT, detail=detail)
