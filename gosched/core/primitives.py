"""Types that records of every noun are made of."""

from __future__ import annotations

from enum import IntEnum

# A map in a record: pairs sorted by key, so that equal maps are equal records.
StringMap = tuple[tuple[str, str], ...]


class Named(IntEnum):
    """Prints as its name: people read it."""

    def __str__(self) -> str:
        return self.name
