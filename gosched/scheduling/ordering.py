"""Who is looked at first: higher priority, then earlier submission."""

from __future__ import annotations

from collections.abc import Iterable

from gosched.scheduling.view import PendingGang


def in_order(gangs: Iterable[PendingGang]) -> list[PendingGang]:
    """Sequences are unique, so the order is total whatever order the gangs came in."""
    return sorted(gangs, key=lambda gang: (-gang.priority, gang.sequence))
