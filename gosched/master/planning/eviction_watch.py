"""Watches evictions for jobs that evict each other in turn, and logs them: a bug, or settings at odds with each other.

Invariant: it only looks; what it finds is in the log and in a counter.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from gosched.core.events import Event, JobChanged, JobEvicted
from gosched.observe.metrics import MasterMetrics
from gosched.observe.pingpong import EvictionGraph

log = structlog.get_logger()


class EvictionWatch:
    def __init__(self, metrics: MasterMetrics) -> None:
        self._metrics = metrics
        self._graph = EvictionGraph()

    def take(self, events: Iterable[Event], *, at_ms: int, revision: int) -> None:
        """Take the events of one command, at its time."""
        victims: dict[str, list[str]] = {}
        for event in events:
            if isinstance(event, JobEvicted) and event.for_job:
                victims.setdefault(event.for_job, []).append(event.job_id)
            elif isinstance(event, JobChanged) and event.after.is_final:
                self._graph.ended(event.job_id)
        for job_id, evicted in victims.items():
            cycle = self._graph.add(job_id, evicted, at_ms)
            if cycle is not None:
                turns = " -> ".join([*cycle, cycle[0]])
                log.warning("jobs evict each other in turn", each_evicted_for_the_next=turns, revision=revision)
                self._metrics.preemption_cycle()
