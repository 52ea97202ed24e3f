"""The written policy of sharing, by brute force: how many jobs of each queue run if all were submitted at once.

Progressive filling (Ghodsi et al., NSDI'11, Algorithm 1), level by level, with exact fractions. Jobs are started one by
one: of the siblings, the queue is next that would have the lowest dominant share beyond its guarantee, divided by its
weight, once its next job had started. So a queue within its guarantee comes before all others. Ties go to the lower
path. A job that does not fit, into the cluster or below a ceiling, is skipped.

The paper looks at shares before the job. As jobs become small beside the cluster, both come to the same shares.

It is slow and short, and shares no code with the planner. Amounts are vectors in the order of the cluster's totals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Vector = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ReferenceQueue:
    """A queue of the tree."""

    #: `x.a` is a child of `x`.
    path: str
    weight: int = 1
    #: In percent of what its parent is guaranteed; None: it has no guarantee.
    guarantee_pct: int | None = None
    #: In percent of what its parent may hold.
    ceiling_pct: int = 100


def running_jobs(
    totals: Vector, queues: Sequence[ReferenceQueue], jobs: Mapping[str, Sequence[Vector]]
) -> dict[str, int]:
    """Return how many jobs of each leaf run. `jobs`: by leaf, what each job asks for, in the leaf's order."""
    filling = _Filling(totals, queues, jobs)
    while filling.start_next():
        pass
    return {path: filling.started[path] for path in jobs}


class _Filling:
    def __init__(self, totals: Vector, queues: Sequence[ReferenceQueue], jobs: Mapping[str, Sequence[Vector]]) -> None:
        self.started: Counter[str] = Counter()
        self._totals = totals
        self._weights = {queue.path: queue.weight for queue in queues}
        self._children: dict[str, list[str]] = {}
        self._guarantees = {"": [Fraction(total) for total in totals]}
        self._ceilings = {"": [Fraction(total) for total in totals]}
        for queue in sorted(queues, key=lambda queue: queue.path):  # parents come before their children
            parent = queue.path.rpartition(".")[0]
            self._children.setdefault(parent, []).append(queue.path)
            guaranteed, most = Fraction(queue.guarantee_pct or 0, 100), Fraction(queue.ceiling_pct, 100)
            self._guarantees[queue.path] = [guaranteed * amount for amount in self._guarantees[parent]]
            self._ceilings[queue.path] = [most * amount for amount in self._ceilings[parent]]
        self._used = {path: [0] * len(totals) for path in self._ceilings}
        self._waiting = {path: list(found) for path, found in jobs.items()}

    def start_next(self) -> bool:
        """Start one job; return whether there was one."""
        for leaf in self._waiting:
            self._skip_what_does_not_fit(leaf)
        if not self._has_jobs(""):
            return False
        path = ""
        while path in self._children:
            path = min(filter(self._has_jobs, self._children[path]), key=self._turn)
        job = self._waiting[path].pop(0)
        self.started[path] += 1
        for level in ("", *_levels(path)):
            self._used[level] = [used + more for used, more in zip(self._used[level], job, strict=True)]
        return True

    def _skip_what_does_not_fit(self, leaf: str) -> None:
        waiting = self._waiting[leaf]
        while waiting and not all(self._fits(level, waiting[0]) for level in ("", *_levels(leaf))):
            waiting.pop(0)

    def _fits(self, path: str, job: Vector) -> bool:
        sides = zip(self._used[path], job, self._ceilings[path], strict=True)
        return all(used + more <= most for used, more, most in sides)

    def _has_jobs(self, path: str) -> bool:
        if path in self._children:
            return any(map(self._has_jobs, self._children[path]))
        return bool(self._waiting.get(path))

    def _turn(self, path: str) -> tuple[Fraction, str]:
        """Return the key of a queue among its siblings; the lowest is next."""
        sides = zip(self._used[path], self._head(path), self._guarantees[path], self._totals, strict=True)
        dominant = max((used + more - guaranteed) / total for used, more, guaranteed, total in sides)
        return max(dominant, Fraction(0)) / self._weights[path], path

    def _head(self, path: str) -> Vector:
        """Return the job below the queue that would be next."""
        while path in self._children:
            path = min(filter(self._has_jobs, self._children[path]), key=self._turn)
        return self._waiting[path][0]


def _levels(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]
