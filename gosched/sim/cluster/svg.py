"""Plots as SVG, from a few rectangles and lines.

Invariant: they need nothing from outside; each axis says what it shows, and in what unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 920, 240
COLOURS = ("#3b6ea8", "#d08a3c", "#5a9a68", "#a8557a", "#7a6fb0", "#8c8c4a", "#4a9aa0", "#b0603c")
GREY = "#c9ced6"

_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 12, 44
_UNITS = (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000), ("seconds", 1000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar of a Gantt: its row, from, to, its colour and what it says under the pointer."""

    row: int
    begin: float
    end: float
    colour: str
    title: str


def time_unit(span_ms: float) -> tuple[str, int]:
    """Return the name of a unit that gives handy numbers, and its milliseconds."""
    return next(((name, size) for name, size in _UNITS if span_ms >= 3 * size), _UNITS[-1])


def lines(columns: Sequence[Sequence[float]], width_ms: int, y_title: str, top: float | None = None) -> str:
    """Draw each column over time; a value holds for `width_ms`."""
    frame = _Frame(max(len(c) for c in columns) * width_ms, top or 1.08 * _largest(columns), y_title)
    drawn = []
    for i, column in enumerate(columns):
        points = []
        for place, value in enumerate(column):
            points.append(f"{frame.x(place * width_ms):.1f},{frame.y(value):.1f}")
            points.append(f"{frame.x((place + 1) * width_ms):.1f},{frame.y(value):.1f}")
        colour = COLOURS[i % len(COLOURS)]
        drawn.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return frame.svg(drawn)


def stacked(columns: Sequence[Sequence[float]], width_ms: int, y_title: str, top: float) -> str:
    """Draw areas upon each other."""
    count = max(len(c) for c in columns)
    frame = _Frame(count * width_ms, top, y_title)
    below = [0.0] * count
    drawn = []
    for i, column in enumerate(columns):
        above = [low + value for low, value in zip(below, column, strict=True)]
        there = [(place + half, above[place]) for place in range(count) for half in (0, 1)]
        back = [(place + half, below[place]) for place in reversed(range(count)) for half in (1, 0)]
        points = " ".join(f"{frame.x(place * width_ms):.1f},{frame.y(value):.1f}" for place, value in there + back)
        drawn.append(f'<polygon points="{points}" fill="{COLOURS[i % len(COLOURS)]}" fill-opacity="0.85"/>')
        below = above
    return frame.svg(drawn)


def bars(counts: Sequence[int], labels: Sequence[str], x_title: str, y_title: str) -> str:
    """Draw a histogram."""
    frame = _Frame(len(counts), 1.1 * max([*counts, 1]), y_title, x_ticks=[], x_title=x_title)
    drawn = []
    for i, count in enumerate(counts):
        left, right, up = frame.x(i + 0.08), frame.x(i + 0.92), frame.y(count)
        drawn.append(_rect(left, up, right - left, frame.y(0) - up, COLOURS[0], f"{labels[i]}: {count}"))
        drawn.append(_text((left + right) / 2, HEIGHT - _BOTTOM + 16, labels[i], "middle"))
        if count:
            drawn.append(_text((left + right) / 2, up - 3, f"{count:,}", "middle"))
    return frame.svg(drawn)


def gantt(found: Sequence[Bar], rows: int, span_ms: float) -> str:
    """Draw rows from above, each a few pixels high."""
    each = max(3, min(14, 480 // max(rows, 1)))
    height = rows * each + _TOP + _BOTTOM
    frame = _Frame(span_ms, rows, "jobs, by submission", height=height, y_ticks=False)
    drawn = []
    for bar in found:
        left = frame.x(bar.begin)
        width = max(frame.x(bar.end) - left, 0.6)
        thick = max(each - 1, 2)
        drawn.append(_rect(left, _TOP + bar.row * each, width, thick, bar.colour, bar.title))
    return frame.svg(drawn)


def legend(names: Sequence[str], colours: Sequence[str] = COLOURS) -> str:
    """Return the legend as HTML."""
    keys = [
        f'<span><i style="background:{colours[i % len(colours)]}"></i>{escape(name)}</span>'
        for i, name in enumerate(names)
    ]
    return f'<p class="legend">{"".join(keys)}</p>'


class _Frame:
    """The axes, and where a value is. The x axis shows times unless it is said otherwise."""

    def __init__(
        self,
        span: float,
        top: float,
        y_title: str,
        *,
        height: int = HEIGHT,
        x_ticks: list[float] | None = None,
        x_title: str = "",
        y_ticks: bool = True,
    ) -> None:
        self._span, self._top, self._height = span or 1, top or 1, height
        self._y_title = y_title
        unit, size = time_unit(span)
        self._x_unit = size
        self._x_title = x_title or f"time, {unit}"
        self._x_ticks = [tick * size for tick in ticks(span / size)] if x_ticks is None else x_ticks
        self._y_ticks = ticks(self._top, 5) if y_ticks else []

    def x(self, value: float) -> float:
        return _LEFT + value / self._span * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return self._height - _BOTTOM - value / self._top * (self._height - _TOP - _BOTTOM)

    def svg(self, drawn: Sequence[str]) -> str:
        floor, middle = self._height - _BOTTOM, (self._height - _BOTTOM + _TOP) / 2
        parts = [
            *[_line(_LEFT, self.y(tick), WIDTH - _RIGHT, self.y(tick)) for tick in self._y_ticks],
            *[_text(_LEFT - 6, self.y(tick) + 4, _number(tick), "end") for tick in self._y_ticks],
            *[_line(self.x(tick), floor, self.x(tick), floor + 4) for tick in self._x_ticks],
            *[_text(self.x(tick), floor + 16, _number(tick / self._x_unit), "middle") for tick in self._x_ticks],
            *drawn,
            _line(_LEFT, floor, WIDTH - _RIGHT, floor),
            _text((WIDTH + _LEFT) / 2, self._height - 8, self._x_title, "middle"),
            f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">'
            f"{escape(self._y_title)}</text>",
        ]
        return f'<svg viewBox="0 0 {WIDTH} {self._height}" role="img">{"".join(parts)}</svg>'


def ticks(top: float, count: int = 8) -> list[float]:
    """Return round numbers from 0 up to `top`, about `count` of them."""
    rough = top / count
    if rough <= 0:
        return [0]
    power = 1.0
    while power * 10 <= rough:
        power *= 10
    while power > rough:
        power /= 10
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [i * step for i in range(int(top / step + 1e-9) + 1)]


def _largest(columns: Sequence[Sequence[float]]) -> float:
    return max([max(column, default=0) for column in columns], default=0)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dde1e7"/>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _rect(x: float, y: float, width: float, height: float, colour: str, title: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}">'
        f"<title>{escape(title)}</title></rect>"
    )
