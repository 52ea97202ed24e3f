"""Finds jobs that evict each other in turn, as far as eviction after eviction tells.

Invariant: a report is a fact: each job of a cycle did evict the next one, within the window, and in the order of time;
how many evictions are remembered is bounded, the oldest are forgotten first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable

WINDOW_MS = 3600 * 1000
MAX_REMEMBERED = 10_000


class EvictionGraph:
    """Edges from a victim to the job it was evicted for, each with its newest moment."""

    def __init__(self, window_ms: int = WINDOW_MS, most: int = MAX_REMEMBERED) -> None:
        self._window_ms = window_ms
        self._most = most
        self._evicted_by: dict[str, dict[str, int]] = {}  # victim -> preemptor -> ms
        self._edges: deque[tuple[int, str, str]] = deque()  # oldest first: ms, victim, preemptor

    def add(self, preemptor: str, victims: Iterable[str], at_ms: int) -> tuple[str, ...] | None:
        """Add the victims that are evicted for a job now, at a moment not before the ones given earlier. Return a cycle
        if this closes one: jobs of which each was evicted for the next, and the last one for the first."""
        self._forget(at_ms)
        evicted = dict.fromkeys(victim for victim in victims if victim != preemptor)
        found = self._path(preemptor, evicted)
        for victim in evicted:
            self._remember(victim, preemptor, at_ms)
        return found

    def ended(self, job_id: str) -> None:
        """Forget a job that has ended: it evicts no other any more, and is not evicted again."""
        self._evicted_by.pop(job_id, None)

    def _path(self, start: str, ends: Container[str]) -> tuple[str, ...] | None:
        """Return the shortest way by which `start` was evicted, through others or not, for one of `ends`."""
        came_from = {start: ""}
        waiting = deque([start])
        while waiting:
            job = waiting.popleft()
            for preemptor in self._evicted_by.get(job, ()):
                if preemptor in came_from:
                    continue
                came_from[preemptor] = job
                if preemptor in ends:
                    return _walked(came_from, preemptor)
                waiting.append(preemptor)
        return None

    def _remember(self, victim: str, preemptor: str, at_ms: int) -> None:
        self._evicted_by.setdefault(victim, {})[preemptor] = at_ms
        self._edges.append((at_ms, victim, preemptor))
        if len(self._edges) > self._most:
            self._drop_oldest()

    def _forget(self, now_ms: int) -> None:
        while self._edges and self._edges[0][0] < now_ms - self._window_ms:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        at_ms, victim, preemptor = self._edges.popleft()
        preemptors = self._evicted_by.get(victim, {})
        if preemptors.get(preemptor) == at_ms:  # else seen again since
            del preemptors[preemptor]
            if not preemptors:
                del self._evicted_by[victim]


def _walked(came_from: dict[str, str], end: str) -> tuple[str, ...]:
    way = [end]
    while came_from[way[-1]]:
        way.append(came_from[way[-1]])
    return tuple(reversed(way))
