"""Where a task may run at all, and how many fit: each filter can say how many nodes it refused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gosched.scheduling.view import CPU, GPU, MEMORY, STORAGE, Ask, BoolArray, IntArray, NodeColumns

RESOURCE_NAMES = {CPU: "CPU", MEMORY: "memory", STORAGE: "storage", GPU: "GPUs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Nodes that a filter turned away, each counted once, at the first filter it failed."""

    not_ready: int
    selector: int
    gpu_model: int
    resources: tuple[tuple[int, int], ...]  # (resource, nodes)


def eligible(nodes: NodeColumns, ask: Ask) -> BoolArray:
    """Nodes that would take the task if they were empty enough."""
    mask = nodes.ready & nodes.having_labels(ask.selector)
    return mask & nodes.having_model(ask.gpu_model) if ask.gpu_model else mask


def fits(free: IntArray, allowed: BoolArray, ask: Ask) -> BoolArray:
    """Whether each node has room for one of the tasks: `slots` > 0, at a third of its cost."""
    mask = allowed
    for resource, amount in enumerate(ask.each):
        if amount:
            mask = mask & (free[:, resource] >= amount)
    return mask


def slots(free: IntArray, allowed: BoolArray, ask: Ask) -> IntArray:
    """For each node, how many of the group's tasks it has room for, at most all of them."""
    room = np.where(allowed, ask.count, 0)
    for resource, amount in enumerate(ask.each):
        if amount:
            np.minimum(room, free[:, resource] // amount, out=room)
    return np.maximum(room, 0, out=room)


def refused(nodes: NodeColumns, free: IntArray, ask: Ask) -> Refused:
    left = nodes.ready.copy()
    counts = []
    for mask in (nodes.having_labels(ask.selector), nodes.having_model(ask.gpu_model)):
        counts.append(int(np.count_nonzero(left & ~mask)))
        left &= mask
    resources = []
    for resource, amount in enumerate(ask.each):
        short = left & (free[:, resource] < amount) if amount else np.zeros_like(left)
        if count := int(np.count_nonzero(short)):
            resources.append((resource, count))
        left &= ~short
    return Refused(
        not_ready=int(np.count_nonzero(~nodes.ready)),
        selector=counts[0],
        gpu_model=counts[1],
        resources=tuple(resources),
    )
