"""How many tasks of jobs with certain labels are on each node, kept up to date by events.

Invariant: a task counts as long as it holds a place. Only labels that a plugin tracks cost anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gosched.core.events import TaskChanged
from gosched.core.primitives import StringMap
from gosched.core.state.cluster_state import ClusterState


class LabelCounts:
    """Counts of tasks by (label, value) and node id."""

    def __init__(self, tracked: Iterable[str]) -> None:
        self._tracked = frozenset(tracked)
        self._counts: dict[tuple[str, str], Counter[str]] = {}  # by node id; without zeros
        self._pairs: dict[str, StringMap] = {}  # tracked labels of jobs that hold a place; a job may be dropped
        self._held: Counter[str] = Counter()  # places, by job

    def reset(self, state: ClusterState) -> None:
        self._counts, self._pairs, self._held = {}, {}, Counter()
        if self._tracked:
            for task in state.tasks.values():
                if task.state.is_active:
                    self._add(state, task.job_id, task.node_id, 1)

    def apply(self, state: ClusterState, event: TaskChanged) -> None:
        """Count the event; `state` may be later than it."""
        if self._tracked and event.before.is_active != event.after.is_active:
            self._add(state, event.job_id, event.node_id, 1 if event.after.is_active else -1)

    def copy(self) -> dict[tuple[str, str], dict[str, int]]:
        return {pair: dict(counts) for pair, counts in self._counts.items()}

    def _add(self, state: ClusterState, job_id: str, node_id: str, step: int) -> None:
        pairs = self._pairs.get(job_id)
        if pairs is None:
            job = state.jobs.get(job_id)
            if job is None:
                return  # it came and went within one batch
            pairs = self._pairs[job_id] = tuple([pair for pair in job.spec.labels if pair[0] in self._tracked])
        for pair in pairs:
            counts = self._counts.setdefault(pair, Counter())
            counts[node_id] += step
            if not counts[node_id]:
                del counts[node_id]
            if not counts:
                del self._counts[pair]
        self._held[job_id] += step
        if not self._held[job_id]:
            del self._held[job_id], self._pairs[job_id]
