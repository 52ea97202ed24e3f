"""Nodes: their states, and what allocations hold of their resources and devices."""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.cpulist import parse_cpulist
from gosched.core.limits import MAX_FAILING_JOBS
from gosched.core.records.node import NodeState
from gosched.core.resources import MILLI, ZERO, Resources
from gosched.core.state.cluster_state import ClusterState


def node_problems(state: ClusterState) -> Iterator[str]:
    """Yield nodes that are closed by nothing, or open though closed, and drains without tasks or with an end of their
    own."""
    for node in state.nodes.values():
        drains = node.state is NodeState.DRAINING
        if node.state is not NodeState.DEAD and (node.state is NodeState.READY) != (not node.closed_by):
            yield f"node {node.id} is {node.state.name}, closed by {node.closed_by.name}"
        if drains and not state.node_allocations[node.id]:
            yield f"node {node.id} is DRAINING, and empty"
        if node.away_ms and node.state in (NodeState.READY, NodeState.DEAD):
            yield f"node {node.id} is {node.state.name}, and awaited"
        if node.drain_by_ms and not drains:
            yield f"node {node.id} is {node.state.name}, and is to be empty by {node.drain_by_ms}"
        if len(dict.fromkeys(node.failing)) != len(node.failing) or len(node.failing) > MAX_FAILING_JOBS:
            yield f"node {node.id} counts the jobs {node.failing} as failing"


def capacity_problems(state: ClusterState) -> Iterator[str]:
    held: dict[str, Resources] = {}
    for allocation in state.allocations.values():
        node = allocation.node_id
        held[node] = held.get(node, ZERO) + allocation.resources
    for node, resources in held.items():
        if node not in state.nodes:
            yield f"allocations on node {node}, which does not exist"
        elif (state.nodes[node].capacity - resources).is_negative():
            yield f"node {node} holds {resources}, more than it has"
    for node, resources in state.usage.items():
        if resources != held.get(node, ZERO):
            yield f"usage of node {node} is {resources}, its allocations hold {held.get(node, ZERO)}"


def device_problems(state: ClusterState) -> Iterator[str]:
    """Yield GPUs of which more than one is held, and CPUs that two tasks own."""
    gpus: dict[tuple[str, int], int] = {}
    cpus: dict[str, int] = {}
    for allocation in state.allocations.values():
        node = allocation.node_id
        for gpu in allocation.gpus:
            gpus[node, gpu] = gpus.get((node, gpu), 0) + min(allocation.resources.gpu_millis, MILLI)
        mask = parse_cpulist(allocation.cpus)
        if mask & cpus.get(node, 0):
            yield f"CPUs of {allocation.id} on node {node} have another owner too"
        cpus[node] = cpus.get(node, 0) | mask
    for (node, gpu), millis in gpus.items():
        if millis > MILLI:
            yield f"GPU {gpu} of node {node} is held {millis} thousandths"
    for node, mask in cpus.items():
        there = [parse_cpulist(text) for text in state.nodes[node].hardware.numa_cpus] if node in state.nodes else []
        if mask & ~sum(there):  # NUMA nodes share no CPU
            yield f"tasks own CPUs that node {node} lacks"
