"""Lists of CPUs as the kernel writes them ("0-3,8"), and as bit masks to calculate with."""

from __future__ import annotations

from functools import lru_cache

from gosched.core.limits import MAX_CPUS


@lru_cache(maxsize=65_536)
def parse_cpulist(text: str) -> int:
    """Return the mask of a list; an empty text is an empty list. Raises ValueError for anything that is no list."""
    mask = 0
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            raise ValueError(f"{text[:64]!a} is not a list of CPUs such as 0-3,8")
        low, high = int(first), int(last or first)
        if high < low or high >= MAX_CPUS:
            raise ValueError(f"{text[:64]!a}: CPUs are numbered upwards, and below {MAX_CPUS}")
        mask |= ((1 << (high - low + 1)) - 1) << low
    return mask


def format_cpulist(mask: int) -> str:
    """Return the one shortest list of a mask: ascending, in ranges."""
    parts = []
    while mask:
        low = (mask & -mask).bit_length() - 1
        run = ~(mask >> low)
        length = (run & -run).bit_length() - 1
        parts.append(str(low) if length == 1 else f"{low}-{low + length - 1}")
        mask &= ~(((1 << length) - 1) << low)
    return ",".join(parts)


def _is_number(text: str) -> bool:
    return 0 < len(text) <= 5 and text.isascii() and text.isdigit()
