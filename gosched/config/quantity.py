"""Amounts as people write them, into integers. Exact: no float is ever made, and what cannot be exact is refused."""

from __future__ import annotations

import re
from decimal import Decimal

from gosched.config.errors import shown

_NUMBER = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?)([A-Za-z]*)")
_MEMORY_UNITS = {
    **{unit: 1000**power for power, unit in enumerate(("B", "k", "M", "G", "T", "P"))},
    **{unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), start=1)},
    **{unit: 1000**power for power, unit in enumerate(("kB", "MB", "GB", "TB", "PB"), start=1)},
    **{unit: 1024**power for power, unit in enumerate(("KiB", "MiB", "GiB", "TiB", "PiB"), start=1)},
}
_DURATION_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(?:[0-9]{1,12}(?:\.[0-9]{1,9})?(?:ms|s|m|h|d))+")
_LARGEST = 2**62  # the records are 64-bit integers, and sums of them must be too


def cpu_millis(value: object) -> int:
    """Read `2`, `0.5`, `500m` as thousandths of a CPU."""
    number, unit = _split(value, 'a number of CPUs such as 2, 0.5 or "500m"')
    if unit == "":
        return _whole(number * 1000, value, "CPUs come in thousandths")
    if unit == "m":
        return _whole(number, value, "CPUs come in thousandths")
    raise ValueError(f'expected a number of CPUs such as 2, 0.5 or "500m", got {shown(value)}')


def memory_bytes(value: object) -> int:
    """Read `512Mi`, `1.5Ti`, `2GB` as bytes. A unit is required, but for 0."""
    number, unit = _split(value, "an amount with a unit such as 512Mi or 1.5Gi")
    if unit == "" and number == 0:
        return 0
    if unit == "":
        raise ValueError(f"needs a unit such as {number}Mi or {number}Gi")
    if unit not in _MEMORY_UNITS:
        raise ValueError(f"unknown unit {unit!r} in {shown(value)}: use Ki, Mi, Gi, Ti, or k, M, G, T")
    return _whole(number * _MEMORY_UNITS[unit], value, "that is not a whole number of bytes")


def duration_ms(value: object) -> int:
    """Read `500ms`, `30s`, `5m`, `1h30m`, `7d` as milliseconds. A unit is required, but for 0."""
    if isinstance(value, int) and not isinstance(value, bool) and value == 0:
        return 0
    text = value.strip() if isinstance(value, str) else ""
    if text != "0" and not _DURATION.fullmatch(text):
        raise ValueError(f'expected a duration with a unit such as "30s", "5m" or "1h30m", got {shown(value)}')
    parts = re.findall(r"([0-9.]+)(ms|s|m|h|d)", text)
    total = sum((Decimal(number) * _DURATION_UNITS_MS[unit] for number, unit in parts), Decimal(0))
    return _whole(total, value, "durations come in milliseconds")


def gpu_count(value: object) -> int:
    """Read a number of whole GPUs."""
    millis = gpu_millis(value)
    if millis % 1000:
        raise ValueError(f"expected a whole number of GPUs such as 2, got {shown(value)}")
    return millis // 1000


def gpu_millis(value: object) -> int:
    """Read `2`, `0.5` as thousandths of a GPU."""
    number, unit = _split(value, "a number of GPUs such as 2 or 0.5")
    if unit:
        raise ValueError(f"expected a number of GPUs such as 2 or 0.5, got {shown(value)}")
    return _whole(number * 1000, value, "GPUs come in thousandths")


def whole_amount(value: object) -> int:
    """Read an amount of a resource that the cluster counts in units of its own."""
    number, unit = _split(value, "a whole number")
    if unit or number != int(number):
        raise ValueError(f"expected a whole number, got {shown(value)}")
    return _whole(number, value, "it comes in whole units")


def _split(value: object, expected: str) -> tuple[Decimal, str]:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str):
        if value.strip().startswith("-"):
            raise ValueError(f"cannot be negative, got {value.strip()}")
        found = _NUMBER.fullmatch(value.strip())
        if found:
            return Decimal(found[1]), found[2]
    raise ValueError(f"expected {expected}, got {shown(value)}")


def _whole(amount: Decimal, value: object, why: str) -> int:
    if amount != int(amount):
        raise ValueError(f"{shown(value)} is too fine: {why}")
    if amount > _LARGEST:
        raise ValueError(f"{shown(value)} is more than can be counted")
    return int(amount)
