"""Amounts and moments as the page shows them.

Invariant: moments are UTC, as in the command line's output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from gosched.core.sharing import BUILT_IN, IN_BYTES, MODEL_PREFIX, is_in_millis

_LABELS = {"cpu": "CPUs", "gpu": "GPUs", "memory": "Memory", "storage": "Storage"}
_ORDER = ("gpu", "cpu", "memory", "storage")
_UNITS = (("PiB", 1 << 50), ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def label(name: str) -> str:
    """Return what a resource is called, such as GPUs or "h100 GPUs"."""
    if name.startswith(MODEL_PREFIX):
        return f"{name.removeprefix(MODEL_PREFIX)} GPUs"
    return _LABELS.get(name, name)


def resource_order(amounts: Mapping[str, int]) -> list[str]:
    """Return the names of what is there, the scarcest kinds first; single GPU models where there are several."""
    models = sorted(name for name in amounts if name.startswith(MODEL_PREFIX))
    custom = sorted(name for name in amounts if name not in BUILT_IN and name not in models)
    first, *rest = [name for name in _ORDER if amounts.get(name)] or [""]
    names = [first, *(models if first == "gpu" and len(models) > 1 else ()), *rest, *custom]
    return [name for name in names if amounts.get(name)]


def amounts(held: Mapping[str, int]) -> str:
    """Return amounts of several resources, such as "8 GPUs, 64 CPUs, 2 TiB"."""
    parts = []
    for name in resource_order(held):
        number = quantity(held[name], name)
        unit = "" if name in IN_BYTES else f" {label(name)}"
        parts.append(number + (unit[:-1] if number == "1" and unit.endswith("s") and name in ("cpu", "gpu") else unit))
    return ", ".join(parts)


def quantity(amount: float, name: str) -> str:
    """Return an amount of a resource in people's units: 6.5, 12,400 or 1.5 TiB."""
    if name in IN_BYTES:
        return byte_count(amount)
    return _number(amount / 1000 if is_in_millis(name) else amount)


def byte_count(amount: float) -> str:
    for unit, size in _UNITS:
        if amount >= size:
            return f"{_number(amount / size)} {unit}"
    return f"{amount:.0f} B"


def _number(value: float) -> str:
    """Return three digits that matter, without needless zeros."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".")


def count(value: int) -> str:
    return f"{value:,}"


def percent(part: float, whole: float) -> str:
    """Return a share, such as 67%; a dash of nothing."""
    return f"{100 * part / whole:.0f}%" if whole else "–"


def clock(at_ms: int) -> str:
    """Return the time of day, such as 14:03:09."""
    return f"{_moment(at_ms):%H:%M:%S}" if at_ms else "–"


def moment(at_ms: int) -> str:
    """Return day and time, such as 2026-12-01 06:00:00."""
    return f"{_moment(at_ms):%Y-%m-%d %H:%M:%S}" if at_ms else "–"


def day(at_ms: int) -> str:
    """Return the day, such as "Dec 1"."""
    at = _moment(at_ms)
    return f"{at:%b} {at.day}"


def iso(at_ms: int) -> str:
    """Return a moment for programs."""
    return f"{_moment(at_ms):%Y-%m-%dT%H:%M:%SZ}"


def span(duration_ms: float) -> str:
    """Return a duration in its two largest units, such as "3 h 20 min"."""
    left = max(0, int(duration_ms // 1000))
    for place, (seconds, unit) in enumerate(_SPANS[:-1]):
        if left >= seconds:
            size, below = _SPANS[place + 1]
            rest = left % seconds // size
            return f"{left // seconds} {unit} {rest} {below}" if rest else f"{left // seconds} {unit}"
    return f"{left} s"


def plural(number: int, noun: str) -> str:
    """Return such as "1 node" or "2,300 nodes"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _moment(at_ms: int) -> datetime:
    try:
        return datetime.fromtimestamp(at_ms // 1000, UTC)
    except (OverflowError, OSError, ValueError):  # a clock that is far off must not cost the page
        return datetime.fromtimestamp(0, UTC)


FILTERS: dict[str, Callable[..., Any]] = {
    "label": label,
    "amounts": amounts,
    "quantity": quantity,
    "byte_count": byte_count,
    "count": count,
    "clock": clock,
    "moment": moment,
    "iso": iso,
    "span": span,
    "plural": plural,
}
