"""Capacity of a few nodes: what is free on some rows, and what comes free on some.

Invariant: amounts only; which job holds them is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gosched.scheduling.snapshot.columns import DEVICES
from gosched.scheduling.snapshot.view import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class Freed:
    """Capacity that comes free, in no particular order; a row may be named several times."""

    rows: IntArray
    #: By column, for each of `rows`; the columns that are derived from devices are 0.
    amounts: IntArray
    #: Row and number of each device, and the milli-GPUs that come free on it.
    gpu_rows: IntArray
    gpus: IntArray
    gpu_millis: IntArray
    #: (row, mask) of CPUs that were owned.
    cpus: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Rows:
    """What is free on some rows."""

    #: Distinct and ascending.
    rows: IntArray
    #: Amounts, [rows x columns].
    free: IntArray
    #: Milli-GPUs, [rows x devices].
    gpu_free: IntArray
    #: For each row the mask of the CPUs that tasks own.
    owned: list[int]

    @property
    def is_short(self) -> bool:
        """Return whether more was taken than there was."""
        return bool((self.free < 0).any() or (self.gpu_free < 0).any())

    def limit_to(self, other: Rows) -> None:
        """Lower what is free to what is free in `other`, on the rows that both have."""
        rows, here, there = np.intersect1d(self.rows, other.rows, assume_unique=True, return_indices=True)
        if rows.size:
            self.free[here] = np.minimum(self.free[here], other.free[there])
            self.gpu_free[here] = np.minimum(self.gpu_free[here], other.gpu_free[there])
            for i, j in zip(here.tolist(), there.tolist(), strict=True):
                self.owned[i] |= other.owned[j]

    def beyond(self, other: Rows) -> Freed:
        """Return what is free here beyond `other`, which has the same rows. Owned CPUs are left out."""
        more = np.maximum(self.free - other.free, 0)
        more[:, DEVICES] = 0
        devices = np.maximum(self.gpu_free - other.gpu_free, 0)
        places, gpus = np.nonzero(devices)
        return Freed(self.rows, more, self.rows[places], gpus, devices[places, gpus], ())

    def add(self, freed: Freed) -> None:
        """Add what comes free on the rows. Owned CPUs are left out."""
        places, known = self._places(freed.rows)
        np.add.at(self.free, places[known], freed.amounts[known])
        places, known = self._places(freed.gpu_rows)
        np.add.at(self.gpu_free, (places[known], freed.gpus[known]), freed.gpu_millis[known])

    def _places(self, rows: IntArray) -> tuple[IntArray, BoolArray]:
        places = np.minimum(np.searchsorted(self.rows, rows), max(len(self.rows) - 1, 0))
        known: BoolArray = self.rows[places] == rows if len(self.rows) else np.zeros(len(rows), dtype=np.bool_)
        return places, known

    def close(self, rows: IntArray) -> None:
        """Set what is free on these rows to nothing; rows that are not here are left out."""
        here = np.flatnonzero(np.isin(self.rows, rows))
        self.free[here] = 0
        self.gpu_free[here] = 0
