"""Arrays of jobs, numbered or by a matrix of variables."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from gosched.core.primitives import StringMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One variable of a matrix."""

    #: Name of an environment variable.
    name: str
    #: Never empty.
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """The elements of an array: a range of numbers, or one element for each combination of a matrix, numbered from 0,
    the last axis running fastest. Without either the job is no array."""

    #: Number of the first element of a range.
    first: int = 0
    #: The last element has this number at most.
    last: int = 0
    #: Between two elements; 0: no range.
    step: int = 0
    #: Empty: no matrix.
    matrix: tuple[Axis, ...] = ()
    #: Elements that may live at once; 0: the default.
    parallelism: int = 0
    #: So many elements may fail, one more ends the array; -1: any number.
    max_failures: int = -1

    @property
    def size(self) -> int:
        if self.matrix:
            return prod(len(axis.values) for axis in self.matrix)
        return (self.last - self.first) // self.step + 1 if self.step else 0

    def index(self, position: int) -> int:
        """Return the number of the element at a position, 0 <= position < size."""
        return position if self.matrix else self.first + position * self.step

    def values(self, index: int) -> StringMap:
        """Return the variables that the matrix gives an element, in the order of the axes."""
        found: list[tuple[str, str]] = []
        for axis in reversed(self.matrix):
            index, value = divmod(index, len(axis.values))
            found.append((axis.name, axis.values[value]))
        return tuple(reversed(found))


NO_ARRAY = Array()
