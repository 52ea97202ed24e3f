"""Moments, numbers and amounts in JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gosched.core.resources import AmountMap, Resources
from gosched.core.sharing import BUILT_IN, IN_BYTES, is_in_millis

Json = dict[str, Any]

#: A built-in resource in amounts by name, and its key in JSON, where bytes are named as such.
AMOUNT_KEYS = {name: f"{name}_bytes" if name in IN_BYTES else name for name in BUILT_IN}


def amounts_json(amounts: AmountMap, *, all_names: bool = True) -> Json:
    """Return amounts under the keys of `resources_json`, then `gpu:MODEL` and custom ones; `all_names`: the built-in
    ones always."""
    shape: Json = dict.fromkeys(AMOUNT_KEYS.values(), 0) if all_names else {}
    for name, amount in amounts:
        in_millis = is_in_millis(name)
        shape[AMOUNT_KEYS.get(name, name)] = plain_number(amount) if in_millis else amount
    return shape


def resources_json(resources: Resources) -> Json:
    return {
        "cpu": plain_number(resources.cpu_millis),
        "memory_bytes": resources.memory_bytes,
        "storage_bytes": resources.storage_bytes,
        "gpu": plain_number(resources.gpu_millis),
        **dict(resources.custom),
    }


def plain_number(thousandths: int) -> int | float:
    """Return a whole number where it is one: 3 rather than 3.0."""
    return thousandths // 1000 if thousandths % 1000 == 0 else thousandths / 1000


def time_json(at_ms: int) -> str | None:
    """Return a moment as ISO 8601 in UTC; None for 0."""
    if not at_ms:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
