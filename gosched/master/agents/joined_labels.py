"""The labels of nodes whose agents joined with a token."""

from __future__ import annotations

from dataclasses import replace

from gosched.core.commands.nodes import RegisterNode
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.callers import Caller
from gosched.state_machine.joining import joined_node
from gosched.wire.roles import Role


def bound_labels(command: RegisterNode, caller: Caller, state: ClusterState) -> RegisterNode:
    """Return the registration with the labels that the agent's token bound to its node, whatever it says itself."""
    joined = joined_node(state, caller.name) if caller.role is Role.AGENT else None
    if joined is None or not joined.labels:
        return command
    return replace(command, labels=tuple(sorted({**dict(command.labels), **dict(joined.labels)}.items())))
