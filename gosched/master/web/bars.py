"""Bars: amounts against a whole, as rectangles 0..WIDTH wide, since the policy of pages allows no style in HTML.

Invariant: no rectangle is wider than the bar or starts outside of it, whatever the amounts are.
"""

from __future__ import annotations

from dataclasses import dataclass

WIDTH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a bar."""

    #: Class of the style sheet.
    kind: str
    x: int
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Segments, the rearmost first, and marks across the bar."""

    segments: tuple[Segment, ...]
    marks: tuple[Segment, ...] = ()


def bar(whole: float, *parts: tuple[str, float], marks: tuple[tuple[str, float], ...] = ()) -> Bar:
    """Return a bar of parts that all begin at its left end: (class, amount)."""
    segments = [Segment(kind=kind, x=0, width=_scaled(amount, whole)) for kind, amount in parts]
    at = [Segment(kind=kind, x=min(_scaled(amount, whole), WIDTH - 1), width=0) for kind, amount in marks]
    return Bar(segments=tuple([s for s in segments if s.width]), marks=tuple(at))


def stacked(whole: float, *parts: tuple[str, float]) -> Bar:
    """Return a bar of parts that follow each other."""
    segments, end = [], 0.0
    for kind, amount in parts:
        x = _scaled(end, whole)
        end += max(0.0, amount)
        segments.append(Segment(kind=kind, x=x, width=_scaled(end, whole) - x))
    return Bar(segments=tuple([s for s in segments if s.width]))


def _scaled(amount: float, whole: float) -> int:
    return round(WIDTH * min(1.0, max(0.0, amount / whole))) if whole > 0 else 0
