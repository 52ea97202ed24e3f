"""The axis of time: a part of it, its marks, and where a moment is on it.

Invariant: a place on the axis is between 0 and 100, in percent of its width.
"""

from __future__ import annotations

from dataclasses import dataclass

from gosched.master.web.text import clock, day

HOUR_MS = 3_600_000
#: What can be chosen: text and length.
SPANS = {
    "1h": HOUR_MS,
    "3h": 3 * HOUR_MS,
    "6h": 6 * HOUR_MS,
    "12h": 12 * HOUR_MS,
    "1d": 24 * HOUR_MS,
    "3d": 72 * HOUR_MS,
    "7d": 168 * HOUR_MS,
}
_STEPS_MIN = (5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880)
MOST_TICKS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A mark of the axis."""

    x: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A part of time."""

    start_ms: int
    now_ms: int
    end_ms: int

    def x(self, at_ms: int) -> float:
        """Return where a moment is; one that is outside is at the end that it is nearer to."""
        part = (at_ms - self.start_ms) / (self.end_ms - self.start_ms)
        return round(100 * min(1.0, max(0.0, part)), 2)

    @property
    def now_x(self) -> float:
        return self.x(self.now_ms)

    def ticks(self) -> list[Tick]:
        """Return at most MOST_TICKS marks at round times of UTC."""
        length_min = (self.end_ms - self.start_ms) / 60_000
        step_ms = 60_000 * next((step for step in _STEPS_MIN if length_min / step <= MOST_TICKS), _STEPS_MIN[-1])
        first = -(-self.start_ms // step_ms) * step_ms
        return [
            Tick(x=self.x(at_ms), text=day(at_ms) if at_ms % (24 * HOUR_MS) == 0 else clock(at_ms)[:5])
            for at_ms in range(first, self.end_ms + 1, step_ms)
        ]


def axis(now_ms: int, span: str, *, past: float) -> Axis:
    """Return the axis from a little before now; `past`: how much, as a part of the span."""
    length_ms = SPANS[span]
    return Axis(start_ms=now_ms - int(past * length_ms), now_ms=now_ms, end_ms=now_ms + length_ms)
