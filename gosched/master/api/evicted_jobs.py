"""Evictions as users see them: of which job, how much of it, why, and the work that it costs."""

from __future__ import annotations

from collections.abc import Iterable

from gosched.api.explanation import Victim
from gosched.core.commands.plans import Eviction
from gosched.core.state.cluster_state import ClusterState


def victims_of(state: ClusterState, evictions: Iterable[Eviction], now_ms: int) -> tuple[Victim, ...]:
    """Return the evicted jobs; one that is gone meanwhile is left out."""
    victims = []
    for eviction in evictions:
        job = state.jobs.get(eviction.job_id)
        if job is None:
            continue
        tasks = len(eviction.ranks) or job.active
        saved_ms = max(job.placed_at_ms or job.started_at_ms, job.checkpoint_at_ms)
        victims.append(
            Victim(
                job_id=job.id,
                name=job.spec.name,
                tasks=tasks,
                whole=not eviction.ranks,
                cause=eviction.cause.name.lower(),
                lost_ms=max(now_ms - saved_ms, 0) * tasks,
            )
        )
    return tuple(victims)
