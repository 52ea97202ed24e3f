"""Parts of a room: how some rows stand, and what comes free on some.

Rule: amounts only; who holds them is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gosched.scheduling.snapshot.columns import DEVICES
from gosched.scheduling.snapshot.view import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class Freed:
    """Capacity that comes free: amounts by column (the derived ones 0), milli-GPUs by device, masks of owned CPUs."""

    rows: IntArray
    amounts: IntArray
    gpu_rows: IntArray
    gpus: IntArray
    gpu_millis: IntArray
    cpus: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a room, distinct and ascending. `owned`: for each the mask of its owned CPUs."""

    rows: IntArray
    free: IntArray
    gpu_free: IntArray
    owned: list[int]

    @property
    def is_short(self) -> bool:
        """More was taken of it than there was."""
        return bool((self.free < 0).any() or (self.gpu_free < 0).any())

    def limit_to(self, other: Rows) -> None:
        """Where both have a row it is no better than in the other."""
        rows, here, there = np.intersect1d(self.rows, other.rows, assume_unique=True, return_indices=True)
        if rows.size:
            self.free[here] = np.minimum(self.free[here], other.free[there])
            self.gpu_free[here] = np.minimum(self.gpu_free[here], other.gpu_free[there])
            for i, j in zip(here.tolist(), there.tolist(), strict=True):
                self.owned[i] |= other.owned[j]

    def beyond(self, other: Rows) -> Freed:
        """What it has more than the other one, which is about the same rows. Owned CPUs are left out."""
        more = np.maximum(self.free - other.free, 0)
        more[:, DEVICES] = 0
        devices = np.maximum(self.gpu_free - other.gpu_free, 0)
        places, gpus = np.nonzero(devices)
        return Freed(self.rows, more, self.rows[places], gpus, devices[places, gpus], ())

    def add(self, freed: Freed) -> None:
        """What comes free on them. Owned CPUs are left out."""
        places, known = self._places(freed.rows)
        np.add.at(self.free, places[known], freed.amounts[known])
        places, known = self._places(freed.gpu_rows)
        np.add.at(self.gpu_free, (places[known], freed.gpus[known]), freed.gpu_millis[known])

    def _places(self, rows: IntArray) -> tuple[IntArray, BoolArray]:
        places = np.minimum(np.searchsorted(self.rows, rows), max(len(self.rows) - 1, 0))
        known: BoolArray = self.rows[places] == rows if len(self.rows) else np.zeros(len(rows), dtype=np.bool_)
        return places, known

    def close(self, rows: IntArray) -> None:
        """Nothing is free on these rows, where it has them."""
        here = np.flatnonzero(np.isin(self.rows, rows))
        self.free[here] = 0
        self.gpu_free[here] = 0
