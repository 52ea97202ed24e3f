"""What follows from the task groups of a job alone, made once for all jobs with the same ones.

A state keeps equal groups once, and messages are decoded to records that are shared, so groups are told apart by their
identity: to compare them by their thirty fields would cost more than to make most of what is asked for.

Invariant: what is made is never changed; its groups are kept beside it, so their identities stay theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from gosched.core.spec.task_group import TaskGroup

MAX_REMEMBERED = 1024

T = TypeVar("T")
Groups = tuple[TaskGroup, ...]


class ByGroups(Generic[T]):
    """A function of task groups and a number, with a memory."""

    def __init__(self, make: Callable[[Groups, int], T]) -> None:
        self._make = make
        self._known: dict[tuple[int, ...], tuple[Groups, T]] = {}

    def __call__(self, groups: Groups, number: int = 0) -> T:
        key = (number, *map(id, groups))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            known = self._known[key] = groups, self._make(groups, number)
        return known[1]
