"""Amounts over time, as means over buckets of equal width.

Invariant: there are no more than MOST_BUCKETS, however long the run: when there would be more, each two become one.
"""

from __future__ import annotations

from collections.abc import Sequence

MOST_BUCKETS = 512
FIRST_WIDTH_MS = 1000


class Series:
    """Columns of amounts over time, by their names."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.width_ms = FIRST_WIDTH_MS
        self._held_ms = 0
        self._sums: list[list[int]] = []  # of each bucket: amounts times milliseconds

    def hold(self, until_ms: int, amounts: Sequence[int]) -> None:
        """Record amounts that have held since the last call, at first since 0."""
        while until_ms > MOST_BUCKETS * self.width_ms:
            self._halve()
        at = self._held_ms
        while at < until_ms:
            place = at // self.width_ms
            end = min(until_ms, (place + 1) * self.width_ms)
            if place == len(self._sums):
                self._sums.append([0] * len(self.names))
            row = self._sums[place]
            for i, amount in enumerate(amounts):
                row[i] += amount * (end - at)
            at = end
        self._held_ms = max(self._held_ms, until_ms)

    def column(self, name: str) -> list[float]:
        """Return the mean of each bucket, the last one's up to now."""
        place = self.names.index(name)
        widths = [min(self.width_ms, self._held_ms - i * self.width_ms) for i in range(len(self._sums))]
        return [row[place] / width for row, width in zip(self._sums, widths, strict=True)]

    def total(self, name: str) -> int:
        """Return the sum of amount times milliseconds over the whole run."""
        place = self.names.index(name)
        return sum(row[place] for row in self._sums)

    def _halve(self) -> None:
        pairs = [self._sums[i : i + 2] for i in range(0, len(self._sums), 2)]
        self._sums = [[sum(column) for column in zip(*pair, strict=True)] for pair in pairs]
        self.width_ms *= 2
