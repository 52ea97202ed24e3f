"""The picture of many nodes over time: how much of their capacity is held, how that is known, and what is promised.

Layers stand on each other: held until unknown moments, until limits, until estimates, and promised. Time is cut into
STEPS, so that a picture has a bounded size however many jobs there are.

Invariant: a layer never goes below the one under it, and none leaves the box of WIDTH and HEIGHT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gosched.core.records.node import NodeState
from gosched.master.web.holdings import NodeHoldings
from gosched.master.web.timeline import Axis

WIDTH, HEIGHT = 1000, 100
STEPS = 200
KINDS = ("unknown", "limit", "estimate", "promised")


@dataclass(slots=True)
class Layers:
    """Amounts over time, while they are added up."""

    capacity: int = 0
    closed: int = 0
    #: Kind -> change of the amount at each step.
    changes: dict[str, list[int]] = field(default_factory=lambda: {kind: [0] * (STEPS + 1) for kind in KINDS})

    def levels(self, kind: str) -> list[int]:
        """Return the amount at each step."""
        level, found = 0, []
        for change in self.changes[kind][:STEPS]:
            level += change
            found.append(level)
        return found


def add_up(nodes: Sequence[NodeHoldings], axis: Axis, *, gpus: bool) -> Layers:
    """Return the layers of nodes, in milli-GPUs or milli-CPUs."""
    layers = Layers()
    for held in nodes:
        capacity = held.node.capacity
        amount = capacity.gpu_millis if gpus else capacity.cpu_millis
        layers.capacity += amount
        layers.closed += amount if held.node.state is not NodeState.READY else 0
        for holding in held.holdings:
            millis = holding.gpu_millis if gpus else holding.cpu_millis
            end_ms = holding.end.expected_ms or holding.end.limit_ms
            _add(layers.changes[holding.kind], axis, millis, axis.now_ms, end_ms)
        for promise in held.promises:
            millis = promise.gpu_millis if gpus else promise.cpu_millis
            _add(layers.changes["promised"], axis, millis, max(promise.start_ms, axis.now_ms), promise.end_ms)
    return layers


def _add(changes: list[int], axis: Axis, amount: int, start_ms: int, end_ms: int) -> None:
    """Add an amount that is held from one moment to another; 0: beyond the axis."""
    if not amount or start_ms >= axis.end_ms:
        return
    changes[_step(axis, start_ms)] += amount
    if 0 < end_ms < axis.end_ms:
        changes[max(_step(axis, end_ms), _step(axis, start_ms))] -= amount


def _step(axis: Axis, at_ms: int) -> int:
    return min(STEPS - 1, max(0, (at_ms - axis.start_ms) * STEPS // (axis.end_ms - axis.start_ms)))


def paths(layers: Layers) -> tuple[tuple[str, str], ...]:
    """Return the outline of each layer that is not empty, by its kind."""
    if not layers.capacity:
        return ()
    below, found = [0] * STEPS, []
    for kind in KINDS:
        above = [low + level for low, level in zip(below, layers.levels(kind), strict=True)]
        if above != below:
            found.append((kind, _outline(below, above, layers.capacity)))
        below = above
    return tuple(found)


def _outline(below: Sequence[int], above: Sequence[int], capacity: int) -> str:
    top = [_y(level, capacity) for level in above]
    floor = [_y(level, capacity) for level in below]
    parts = [f"M0 {top[0]}"]
    parts += [f"H{_x(i)}V{top[i]}" for i in range(1, STEPS) if top[i] != top[i - 1]]
    parts.append(f"H{WIDTH}V{floor[-1]}")
    parts += [f"H{_x(i)}V{floor[i - 1]}" for i in range(STEPS - 1, 0, -1) if floor[i] != floor[i - 1]]
    return "".join(parts) + "H0Z"


def _x(step: int) -> int:
    return step * WIDTH // STEPS


def _y(level: int, capacity: int) -> int:
    return HEIGHT - round(HEIGHT * min(1.0, max(0, level) / capacity))
