"""Small lines of a series, for pages without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 360, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """A line in a box of WIDTH and HEIGHT."""

    #: Of an SVG polyline; empty: there are less than two values.
    points: str
    newest: int
    highest: int


def sparkline(values: Sequence[int], highest: int) -> Sparkline:
    """Return the line of a series, whose highest possible value is at the top of the box."""
    top = max(highest, 1)
    step = WIDTH / max(1, len(values) - 1)
    points = [f"{i * step:.1f},{HEIGHT - HEIGHT * min(value, top) / top:.1f}" for i, value in enumerate(values)]
    return Sparkline(
        points=" ".join(points) if len(points) > 1 else "", newest=values[-1] if values else 0, highest=highest
    )
