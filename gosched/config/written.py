"""Amounts and durations as a file says them: the inverse of `quantity`. Exact, in the largest unit that is."""

from __future__ import annotations

from typing import Any

from gosched.core.resources import MILLI

_BYTE_UNITS = (("Pi", 1 << 50), ("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
_DURATION_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))


def differing(**pairs: tuple[Any, Any]) -> dict[str, Any]:
    """Return the values that are not their defaults; each is given with its own."""
    return {key: value for key, (value, default) in pairs.items() if value != default}


def memory(amount: int) -> str:
    unit, size = next(((unit, size) for unit, size in _BYTE_UNITS if amount and not amount % size), ("B", 1))
    return f"{amount // size}{unit}"


def duration(span_ms: int) -> str:
    if span_ms % 1000:
        return f"{span_ms}ms"
    unit, size = next(((unit, size) for unit, size in _DURATION_UNITS if span_ms and not span_ms % size), ("s", 1000))
    return f"{span_ms // size}{unit}"


def cpus(millis: int) -> int | str:
    return f"{millis}m" if millis % MILLI else millis // MILLI


def gpus(millis: int) -> int | str:
    return f"{millis // MILLI}.{millis % MILLI:03}" if millis % MILLI else millis // MILLI
