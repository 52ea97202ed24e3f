"""Seeds that hypothesis draws, the same ones whatever else changes.

It would draw the numbers that stand in our sources now and then, so any new constant would change which lives are
lived; not so with single bits.
"""

from __future__ import annotations

from hypothesis import strategies as st

_BITS = 24


def _number(bits: list[bool]) -> int:
    return sum(1 << place for place, bit in enumerate(bits) if bit)


SEEDS = st.lists(st.booleans(), min_size=_BITS, max_size=_BITS).map(_number)
