"""Which nodes a task may use at all, and which it prefers: one column for each rule.

Invariant: each filter has a name, under which the nodes that it refuses are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gosched.core.matching import tolerates
from gosched.core.spec.placement_rules import LINK_LEVEL, NODE_LEVEL, NUMA_LEVEL, SELF, Mode, TaintEffect
from gosched.scheduling.snapshot.columns import Column
from gosched.scheduling.snapshot.task_requests import Constraints
from gosched.scheduling.snapshot.view import NO_VALUE, BoolArray, IntArray, NodeColumns

FIXED_LEVELS = (NODE_LEVEL, NUMA_LEVEL, LINK_LEVEL)
MAX_TIERS = 16  # distinct preferences; if there are more, nodes are not looked through tier by tier

CLOSED = "cordoned or draining"
NOT_READY = "not ready"
NO_AFFINITY = "against the affinity"

Filter = tuple[str, BoolArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """The nodes that a request may use and prefers, whatever is free on them."""

    #: Nodes that would take the task if they were empty enough.
    allowed: BoolArray
    #: For each node from 0 up, higher is better; None: all are alike.
    preference: IntArray | None
    #: The allowed nodes by falling preference, each tier as masks that must hold together; empty if there are more than
    #: MAX_TIERS.
    tiers: tuple[tuple[BoolArray, ...], ...]


def choice_of(
    nodes: NodeColumns, constraints: Constraints, more: Sequence[Filter] = (), scores: IntArray | None = None
) -> Choice:
    """Apply the constraints to all nodes; `more` filters and `scores` come from plugins."""
    allowed = np.ones(len(nodes), dtype=np.bool_)
    for _, mask in (*filters(nodes, constraints), *more):
        allowed &= mask
    preference = _preference(nodes, constraints, scores)
    if preference is not None:
        some = preference[allowed]
        values, ranks = np.unique(np.where(allowed, preference, some[0] if some.size else 0), return_inverse=True)
        preference = ranks if len(values) > 1 else None
    return Choice(allowed=allowed, preference=preference, tiers=_tiers(nodes, allowed, preference))


def filters(nodes: NodeColumns, constraints: Constraints) -> Iterator[Filter]:
    """Yield (name, mask) in the order in which refused nodes are counted: the first that refuses a node counts it."""
    yield CLOSED, ~nodes.closed
    yield NOT_READY, nodes.ready
    if constraints.selector:
        yield "without the labels", nodes.labels.having(constraints.selector, len(nodes))
    required = [term for term in constraints.affinity if not term.weight]
    if required:
        masks = [nodes.labels.meeting(term, len(nodes)) for term in required]
        yield NO_AFFINITY, np.logical_and.reduce(masks)
    if any(nodes.taint_sets):
        yield "tainted", ~_tainted(nodes, constraints, TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE).astype(np.bool_)
    if constraints.wants_gpu and constraints.gpu_model:
        yield "of another GPU model", nodes.with_model(constraints.gpu_model)
    if constraints.gpu_memory_bytes:
        yield "short of GPU memory", nodes.gpu_memory >= constraints.gpu_memory_bytes
    if constraints.needs_numa:
        yield "of unknown NUMA layout", np.array([bool(cpus) for cpus in nodes.cpus], dtype=np.bool_)
    for topology in constraints.topology:
        if topology.mode is Mode.REQUIRED and topology.level not in FIXED_LEVELS:
            yield f"without a {topology.level}", nodes.label(topology.level) != NO_VALUE
    for spread in constraints.spread:
        if spread.mode is Mode.REQUIRED and spread.level not in FIXED_LEVELS:
            yield f"without a {spread.level}", nodes.label(spread.level) != NO_VALUE
    for anti in constraints.anti_affinity:
        if anti.job == SELF and anti.level not in FIXED_LEVELS:
            yield f"without a {anti.level}", nodes.label(anti.level) != NO_VALUE


def _preference(nodes: NodeColumns, constraints: Constraints, scores: IntArray | None) -> IntArray | None:
    """Return the preference of each node; None if all are alike.

    Untolerated soft taints weigh most, then weighted affinity together with the plugins' scores. If all else is equal,
    tasks without GPUs leave nodes with GPUs to tasks that need them.
    """
    parts: list[IntArray] = []
    if any(nodes.taint_sets):
        parts.append(_tainted(nodes, constraints, TaintEffect.PREFER_NO_SCHEDULE) * -(1 << 40))
    weighted = [term for term in constraints.affinity if term.weight]
    parts += [nodes.labels.meeting(term, len(nodes)) * (term.weight << 8) for term in weighted]
    if scores is not None:
        parts.append(scores << 8)
    if not constraints.wants_gpu and nodes.capacity[:, Column.WHOLE].any():
        parts.append(-(nodes.capacity[:, Column.WHOLE] > 0).astype(np.int64))
    if not parts:
        return None
    total: IntArray = np.add.reduce(parts)
    return total


def _tainted(nodes: NodeColumns, constraints: Constraints, *effects: TaintEffect) -> IntArray:
    """Return, for each node, how many of its taints of these effects the task does not tolerate."""
    counts = [
        sum(1 for taint in taints if taint.effect in effects and not tolerates(constraints.tolerations, taint))
        for taints in nodes.taint_sets
    ]
    found: IntArray = np.array(counts, dtype=np.int64)[nodes.taints]
    return found


def _tiers(nodes: NodeColumns, allowed: BoolArray, preference: IntArray | None) -> tuple[tuple[BoolArray, ...], ...]:
    if not allowed.any():
        return ()
    if preference is None:
        return ((),) if (allowed == nodes.ready).all() else ((allowed,),)
    values = np.unique(preference[allowed])[::-1]
    return tuple([(allowed & (preference == value),) for value in values]) if len(values) <= MAX_TIERS else ()
