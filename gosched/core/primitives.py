"""Types that records of every noun are made of."""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum
from typing import TypeVar

V = TypeVar("V")

ADDED = "added"

# A map in a record: pairs sorted by key, so that equal maps are equal records.
StringMap = tuple[tuple[str, str], ...]


def added(default: V, round: int = 1) -> V:
    """Return a field that came with a later feature level. It stands last in its record, has its default below that
    level, and a digest leaves it out while it has, and those of its `round` and of later ones, too: so a record has the
    digest that masters compute which know no such field."""
    return field(default=default, metadata={ADDED: round})


class Named(IntEnum):
    """An enum that prints as its name, since people read it."""

    def __str__(self) -> str:
        return self.name
