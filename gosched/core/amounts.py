"""Amounts of resources, spans and moments as people write them."""

from __future__ import annotations

from collections.abc import Mapping

from gosched.core.resources import MILLI
from gosched.core.sharing import IN_BYTES, MODEL_PREFIX, is_in_millis


def amount_text(name: str, amount: int, *, bare: bool = False) -> str:
    """Return a text such as "8 GPUs", "1 CPU" or "512Gi of memory"; the number alone if it is `bare`.

    `name` is one of those in `core.sharing`.
    """
    if name in IN_BYTES:
        return bytes_text(amount) if bare else f"{bytes_text(amount)} of {name}"
    number = _decimal(amount) if is_in_millis(name) else str(amount)
    if bare:
        return number
    one = number == "1"
    if name == "cpu":
        return f"{number} {'CPU' if one else 'CPUs'}"
    if name == "gpu" or name.startswith(MODEL_PREFIX):
        model = name.removeprefix(MODEL_PREFIX) + " " if name != "gpu" else ""
        return f"{number} {model}{'GPU' if one else 'GPUs'}"
    return f"{number} of {name}"


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Return a text such as "8 CPUs, 1.5Ti of memory"."""
    return ", ".join([amount_text(name, amount) for name, amount in amounts.items()])


def duration_text(duration_ms: int) -> str:
    """Return a text such as "1h30m" or "2.5s", as job files write it."""
    left, parts = duration_ms, []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)):
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return "".join([*parts, *([f"{_decimal(left)}s"] if left or not parts else [])])


def moment_text(at_ms: int) -> str:
    """Return a text such as "2026-12-01T06:00:00Z". By the days of 400 years, which all have as many: no clock or
    calendar of the machine is asked."""
    days, second = divmod(at_ms // 1000, 86_400)
    era, day = divmod(days + 719_468, 146_097)  # eras begin on a first of March, so that the leap day is a last one
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    date = f"{era * 400 + year + (month >= 10):04}-{month + 3 - 12 * (month >= 10):02}-{day + 1:02}"
    return f"{date}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


def short_of(name: str) -> str:
    """Return how the resource is called after "short of"."""
    return {"cpu": "CPU", "gpu": "GPUs"}.get(name, name)


def bytes_text(amount: int) -> str:
    """Return a text such as "1.5Ti"."""
    for unit, size in (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if amount >= size:
            return _decimal(amount * 1000 // size) + unit
    return f"{amount}B"


def _decimal(thousandths: int) -> str:
    """Return the number without needless zeros."""
    whole, rest = divmod(thousandths, MILLI)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)
