"""Arrays of jobs, numbered or by a matrix of variables."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from gosched.core.primitives import StringMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One variable of a matrix and its values."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """Elements `first`, `first + step`, ... up to `last`, or one for each combination of the matrix, numbered from 0,
    the last axis running fastest. `parallelism`: elements that may live at once; `max_failures`: that many may fail,
    one more ends the array; -1: any number. `step` 0 and no matrix: the job is no array."""

    first: int = 0
    last: int = 0
    step: int = 0
    matrix: tuple[Axis, ...] = ()
    parallelism: int = 0
    max_failures: int = -1

    @property
    def size(self) -> int:
        if self.matrix:
            return prod(len(axis.values) for axis in self.matrix)
        return (self.last - self.first) // self.step + 1 if self.step else 0

    def index(self, position: int) -> int:
        """Of the element at a position, 0 <= position < size."""
        return position if self.matrix else self.first + position * self.step

    def values(self, index: int) -> StringMap:
        """The matrix' variables of an element, in the order of the axes."""
        found: list[tuple[str, str]] = []
        for axis in reversed(self.matrix):
            index, value = divmod(index, len(axis.values))
            found.append((axis.name, axis.values[value]))
        return tuple(reversed(found))


NO_ARRAY = Array()
