"""The list of jobs as people read it: what waits first, then what runs, then what has ended.

Invariant: the orders of one filter take a bounded part of the time, however many pages show it and however many jobs
there are: an order is used again for REST times as long as it took to make, and for FRESH_S at least.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gosched.core.records.job import Job, JobState
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.turns import sliced
from gosched.master.web.job_filter import LISTED, JobFilter

FRESH_S = 1.0
REST = 25
MAX_KEPT = 16  # orders; each is a reference per job
PAGE = 100

_RANK = {JobState.PENDING: 0, JobState.RUNNING: 1, JobState.SUSPENDED: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrder:
    """The jobs that a filter shows, in order. Their records are taken from the state when a page is made of it."""

    ids: Sequence[str]
    #: By state, as if the filter named none.
    counts: Mapping[JobState, int]
    revision: int
    #: Until when it may be shown at a later revision, by the monotonic clock.
    good_until_s: float = 0.0

    def page(self, number: int) -> Sequence[str]:
        """Return the ids of a page, counted from 1; beyond the last one there are none."""
        return self.ids[(number - 1) * PAGE : number * PAGE]

    @property
    def pages(self) -> int:
        return max(1, -(-len(self.ids) // PAGE))


@dataclass(slots=True)
class JobLists:
    """Orders that were made lately, by filter."""

    now_s: Callable[[], float] = time.monotonic
    _kept: dict[JobFilter, JobOrder] = field(default_factory=dict)

    async def order(self, state: ClusterState, chosen: JobFilter) -> JobOrder:
        """Return the order of the filter: of this revision, or one that is good still."""
        kept, now = self._kept.pop(chosen, None), self.now_s()
        if kept is None or (kept.revision != state.revision and now > kept.good_until_s):
            revision = state.revision
            ids, counts = await make_order(state, chosen)
            done = self.now_s()
            rest = max(FRESH_S, REST * (done - now))
            kept = JobOrder(ids=ids, counts=counts, revision=revision, good_until_s=done + rest)
        self._kept[chosen] = kept
        while len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return kept


async def make_order(state: ClusterState, chosen: JobFilter) -> tuple[list[str], dict[JobState, int]]:
    """Look at all jobs, in slices; return the ids of those that the filter shows, in order, and counts by state. They
    are sorted in a thread: thousands take longer than the event loop may stand."""
    live, ended, counts = list[Job](), list[Job](), dict.fromkeys(LISTED, 0)
    starts = {job_id: reserved.start_ms for job_id, reserved in state.reservations.items()}
    async for job in sliced(list(state.jobs.values())):
        if not chosen.narrows or chosen.shows(job):
            shown = job.shown_state
            counts[shown] += 1
            if not chosen.states or shown in chosen.states:
                (ended if shown.is_final else live).append(job)
    return await asyncio.to_thread(_sorted, live, ended, chosen.sort, starts), counts


def _sorted(live: list[Job], ended: list[Job], sort: str, starts: Mapping[str, int]) -> list[str]:
    match sort:
        case "newest":
            found = sorted(live + ended, key=lambda job: -job.sequence)
        case "oldest":
            found = sorted(live + ended, key=lambda job: job.sequence)
        case "name":
            found = sorted(live + ended, key=lambda job: (job.spec.name, job.sequence))
        case "priority":
            live.sort(key=lambda job: (-job.spec.priority, job.sequence))
            found = live + sorted(ended, key=lambda job: (-job.spec.priority, job.sequence))
        case _:
            live.sort(key=lambda job: _place(job, starts))
            found = live + sorted(ended, key=lambda job: (-job.ended_at_ms, -job.sequence))
    return [job.id for job in found]


def _place(job: Job, starts: Mapping[str, int]) -> tuple[int, int, int]:
    """Return the sort key of a live job: of those that wait the next reserved start first, then what waits longest,
    behind them what cannot start yet; of those that run the newest start first."""
    rank = _RANK[job.shown_state]
    if rank:
        return (rank, -(job.placed_at_ms or job.submitted_at_ms), job.sequence)
    start = starts.get(job.id)
    if start is not None:
        return (0, 0, start)
    return (0, 2 if job.held or job.waits_for or job.spec.is_parent else 1, job.sequence)
