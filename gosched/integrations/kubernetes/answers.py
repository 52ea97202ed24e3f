"""Answers of the API server that hold for a while, as what they tell of may be made anew under its name."""

from __future__ import annotations

import time
from typing import Generic, TypeVar

KNOWN_S = 10.0
MAX_KNOWN = 10_000

K = TypeVar("K")
V = TypeVar("V")


class Answers(Generic[K, V]):
    """What was answered a short while ago, by key."""

    def __init__(self) -> None:
        self._known: dict[K, tuple[float, V]] = {}  # until when it holds, and the answer

    def get(self, key: K) -> V | None:
        """Return the answer; None: there is none, or it is too old."""
        found = self._known.get(key)
        return found[1] if found is not None and time.monotonic() < found[0] else None

    def put(self, key: K, answer: V, known_s: float = KNOWN_S) -> None:
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[key] = (time.monotonic() + known_s, answer)
