"""Amounts of resources as people write them."""

from __future__ import annotations

from gosched.core.resources import MILLI
from gosched.core.sharing import IN_BYTES, MODEL_PREFIX, is_in_millis


def amount_text(name: str, amount: int, *, bare: bool = False) -> str:
    """Return a text such as "8 GPUs", "1 CPU" or "512Gi of memory"; the number alone if it is `bare`.

    `name` is one of those in `core.sharing`.
    """
    if name in IN_BYTES:
        return _bytes(amount) if bare else f"{_bytes(amount)} of {name}"
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


def short_of(name: str) -> str:
    """Return how the resource is called after "short of"."""
    return {"cpu": "CPU", "gpu": "GPUs"}.get(name, name)


def _bytes(amount: int) -> str:
    for unit, size in (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if amount >= size:
            return _decimal(amount * 1000 // size) + unit
    return f"{amount}B"


def _decimal(thousandths: int) -> str:
    """Return the number without needless zeros."""
    whole, rest = divmod(thousandths, MILLI)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)
