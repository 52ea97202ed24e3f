"""The fair shares of queues as a fluid: what each would hold if jobs could be divided at will.

It judges the planner, so it shares no code with it. Level by level, all siblings are filled at the same time: each to
its guarantee, then so that dominant shares beyond the guarantees grow in proportion to the weights (Ghodsi et al.,
NSDI'11), until the demand is met, the ceiling is reached, or a resource that the queue needs is used up. A queue is
given resources in the proportion in which its jobs ask for them; what one sibling cannot use goes to the others.

Amounts are vectors in the order of the cluster's totals, none of which is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Vector = tuple[float, ...]

_STEPS = 30  # of a bisection: dominant shares are exact to one in 10^9


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareNode:
    """A queue of the tree."""

    #: As in the config: `research.llm`. Empty for the root.
    path: str
    weight: float = 1.0
    #: As a part of the cluster, of each resource.
    guarantee: float = 0.0
    #: The same, at most 1.
    ceiling: float = 1.0
    #: Empty for a leaf.
    children: tuple[ShareNode, ...] = field(default=())


def max_min_shares(root: ShareNode, totals: Vector, demand: Mapping[str, Vector]) -> dict[str, Vector]:
    """Return what each leaf would hold; `demand` is what the jobs of a leaf hold and wait for, by its path."""
    return _below(root, totals, totals, demand)


def dominant_share(amounts: Vector, totals: Vector) -> float:
    return max(amount / total for amount, total in zip(amounts, totals, strict=True))


def _below(node: ShareNode, allotted: Vector, totals: Vector, demand: Mapping[str, Vector]) -> dict[str, Vector]:
    """Return the shares of the leaves below the node, which itself is allotted so much."""
    if not node.children:
        return {node.path: allotted}
    wanted = [_wanted(child, totals, demand) for child in node.children]
    found: dict[str, Vector] = {}
    for child, part in zip(node.children, _divide(allotted, node.children, wanted, totals), strict=True):
        found |= _below(child, part, totals, demand)
    return found


def _wanted(node: ShareNode, totals: Vector, demand: Mapping[str, Vector]) -> Vector:
    """Return the demand of all leaves below the node, scaled down to fit below its ceiling."""
    below = [_wanted(child, totals, demand) for child in node.children]
    wanted = tuple(map(sum, zip(*below, strict=True))) if below else demand[node.path]
    over = dominant_share(wanted, totals) / node.ceiling
    return tuple(amount / over for amount in wanted) if over > 1 else wanted


def _divide(allotted: Vector, siblings: Sequence[ShareNode], wanted: Sequence[Vector], totals: Vector) -> list[Vector]:
    """Fill siblings until nothing more can be given to any of them."""
    parts: list[Vector] = [tuple(0.0 for _ in totals)] * len(siblings)
    growing = [i for i, amounts in enumerate(wanted) if any(amounts)]
    while growing:
        level = _highest_level(allotted, siblings, wanted, totals, parts, growing)
        for i in growing:
            parts[i] = _filled(siblings[i], wanted[i], totals, level)
        left = [amount - sum(column) for amount, column in zip(allotted, zip(*parts, strict=True), strict=True)]
        used_up = [rest <= 1e-6 * total for rest, total in zip(left, totals, strict=True)]
        growing = [
            i
            for i in growing
            if dominant_share(wanted[i], totals) - dominant_share(parts[i], totals) > 1e-6
            and not any(amount and gone for amount, gone in zip(wanted[i], used_up, strict=True))
        ]
    return parts


def _highest_level(
    allotted: Vector,
    siblings: Sequence[ShareNode],
    wanted: Sequence[Vector],
    totals: Vector,
    parts: Sequence[Vector],
    growing: Sequence[int],
) -> float:
    """Return the highest share beyond the guarantee, per weight, at which all siblings fit; the others do not grow."""
    fixed = [part for i, part in enumerate(parts) if i not in growing]
    low, high = 0.0, 1.0 / min(siblings[i].weight for i in growing)
    for _ in range(_STEPS):
        level = (low + high) / 2
        grown = [_filled(siblings[i], wanted[i], totals, level) for i in growing]
        held = map(sum, zip(*fixed, *grown, strict=True))
        if all(amount <= most for amount, most in zip(held, allotted, strict=True)):
            low = level
        else:
            high = level
    return low


def _filled(node: ShareNode, wanted: Vector, totals: Vector, level: float) -> Vector:
    """Return what a queue holds whose dominant share beyond its guarantee is the level times its weight."""
    most = node.guarantee + node.weight * level
    part = min(1.0, *[most * total / amount for amount, total in zip(wanted, totals, strict=True) if amount])
    return tuple(part * amount for amount in wanted)
