"""Listings of jobs: filters, order and pages.

A page shows the jobs of one revision. Listings by submission and by end follow indexes of the state and stop when the
page is full; the others look at every job. The first jobs are looked at at once, the others in slices, between which
the event loop turns: what they need of the state is copied before.
"""

from __future__ import annotations

import asyncio
import heapq
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import dropwhile, groupby, islice

from gosched.api.job_query import MAX_PAGE, JobOrder, JobQuery
from gosched.api.job_row import JobRow, row_of
from gosched.core.access import Object, job_object
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.records.job import Job
from gosched.core.rules.values import check_id
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.errors import invalid, not_found
from gosched.master.base.turns import sliced
from gosched.master.jobs.page_tokens import PageToken, Position, read_token
from gosched.wire.codec import fill
from gosched.wire.v1 import scheduler_pb2

DEFAULT_PAGE = 1000
MAX_PAGE_BYTES = 4 * 1024 * 1024
FIRST_SLICE = 2000  # jobs that are looked at without a copy
_SLICE = 1000

Rank = tuple[bool, int | tuple[int, ...] | str, int]


async def list_jobs(
    state: ClusterState,
    query: JobQuery,
    row: Callable[[Job], JobRow] = row_of,
    whole: Callable[[Job], Job] = lambda job: job,
    *,
    lists: Callable[[Object], bool] | None = None,
    sees: Callable[[Object], bool] | None = None,
    viewer: Hashable = None,
) -> scheduler_pb2.ListJobsResponse:
    """Return one page of jobs, or of their rows, which `row` makes; `whole` is what is shown of a
    job. Raises ApiError. `lists`: which jobs the caller may
    know of, for rows; `sees`: which it sees whole; None: all. `viewer`: for whom page tokens are."""
    _check(query)
    query = _with_parent_by_id(state, query)
    token = read_token(query, state, viewer)
    size = min(query.page_size or DEFAULT_PAGE, MAX_PAGE)
    horizon = token.horizon if token else state.next_sequence
    revision = state.revision
    order = _Order(query)
    after = token.after if token else None
    # One more than a page holds tells whether there is a next one.
    shows = lists if query.rows else sees
    chosen = await order.first(state, after, size + 1, _seen(_matcher(query, horizon), shows))
    answer = scheduler_pb2.ListJobsResponse(revision=revision, understood=True)
    page_bytes, given = 0, 0
    async for job in sliced(chosen[:size]):
        if page_bytes > MAX_PAGE_BYTES:
            break
        message = answer.rows.add() if query.rows else answer.jobs.add()
        fill(row(job) if query.rows else whole(job), message)
        page_bytes += message.ByteSize()
        given += 1
    if given < len(chosen):
        last = order.position(chosen[given - 1])
        first = token.revision if token else revision
        if shows is not None and token is None:
            horizon = await _newest(state, horizon, shows) + 1
        answer.next_page_token = PageToken(after=last, revision=first, horizon=horizon).text(query, viewer)
    return answer


class _Order:
    """The order of one listing."""

    def __init__(self, query: JobQuery) -> None:
        self._by = query.order or JobOrder.SUBMITTED
        self._descends = query.descends

    def position(self, job: Job) -> Position:
        return Position(value=_value(self._by, job), sequence=job.sequence)

    def rank(self, position: Position) -> Rank:
        """Return what jobs are sorted by; what comes first is least."""
        value, sequence = position.value, position.sequence
        missing = value == 0 and self._by in (JobOrder.STARTED, JobOrder.ENDED)
        if not self._descends:
            return missing, value, sequence
        if isinstance(value, str):
            return missing, (*[-ord(letter) for letter in value], 1), -sequence
        return missing, -value, -sequence

    async def first(
        self, state: ClusterState, after: Position | None, count: int, matches: Callable[[Job], bool]
    ) -> list[Job]:
        """Return the first jobs that match, beyond a position."""
        if self._by not in (JobOrder.SUBMITTED, JobOrder.ENDED):
            return await self._least(state, after, count, matches)
        found: list[Job] = []
        async for jobs in _slices(lambda: self._in_order(state, after)):
            found += islice(filter(matches, jobs), count - len(found))
            if len(found) >= count:
                break
        return found

    async def _least(
        self, state: ClusterState, after: Position | None, count: int, matches: Callable[[Job], bool]
    ) -> list[Job]:
        """Look at all jobs, and keep the least."""
        least: list[tuple[Rank, Job]] = []
        beyond = self.rank(after) if after else None
        async for jobs in _slices(state.jobs.values):
            ranked = [(self.rank(self.position(job)), job) for job in filter(matches, jobs)]
            least += ranked if beyond is None else [pair for pair in ranked if pair[0] > beyond]
            if len(least) > count:
                least = heapq.nsmallest(count, least, key=lambda pair: pair[0])
        return [job for _, job in sorted(least, key=lambda pair: pair[0])]

    def _in_order(self, state: ClusterState, after: Position | None) -> Iterator[Job]:
        if self._by is JobOrder.SUBMITTED:
            return self._by_submission(state, after.sequence if after else None)
        jobs = self._by_end(state, after)
        if after is None:
            return jobs
        beyond = self.rank(after)
        return dropwhile(lambda job: self.rank(self.position(job)) <= beyond, jobs)

    def _by_submission(self, state: ClusterState, after: int | None) -> Iterator[Job]:
        """Yield jobs by sequence: they are made in this order, and snapshots keep it."""
        jobs: Iterable[Job] = state.jobs.values()
        if after is None:
            return iter(reversed(state.jobs.values()) if self._descends else jobs)
        ordered = list(jobs)
        if self._descends:
            end = bisect_left(ordered, after, key=lambda job: job.sequence)
            return islice(reversed(ordered), len(ordered) - end, None)
        return islice(ordered, bisect_right(ordered, after, key=lambda job: job.sequence), None)

    def _by_end(self, state: ClusterState, after: Position | None) -> Iterator[Job]:
        """Yield jobs from about a position on: those that have ended, then the others."""
        jobs = state.jobs
        if after is None or after.value:
            ids: Sequence[str] = list(state.finished)
            if after is not None and self._descends:
                ids = ids[: bisect_right(ids, after.value, key=lambda j: jobs[j].kept_since_ms)]
            elif after is not None:
                ids = ids[bisect_left(ids, after.value, key=lambda j: jobs[j].kept_since_ms) :]
            ended = (jobs[j] for j in (reversed(ids) if self._descends else ids))
            for _, together in groupby(ended, key=lambda job: job.kept_since_ms):
                yield from sorted(together, key=lambda job: job.sequence, reverse=self._descends)
        for job in reversed(jobs.values()) if self._descends else jobs.values():
            if not job.ended_at_ms:
                yield job


async def _newest(state: ClusterState, horizon: int, shows: Callable[[Object], bool]) -> int:
    """Return the sequence of the newest job before a horizon that the caller may know of, 0: none."""
    async for jobs in _slices(lambda: reversed(state.jobs.values())):
        for job in jobs:
            if job.sequence < horizon and shows(job_object(job)):
                return job.sequence
    return 0


async def _slices(jobs: Callable[[], Iterable[Job]]) -> AsyncIterator[Sequence[Job]]:
    """Yield jobs in slices, all of one revision: nothing waits between the first slice and the copy of the others."""
    ordered = iter(jobs())
    head = list(islice(ordered, FIRST_SLICE))
    yield head
    rest = list(ordered)
    for start in range(0, len(rest), _SLICE):
        yield rest[start : start + _SLICE]
        await asyncio.sleep(0)


def _value(by: JobOrder, job: Job) -> int | str:
    match by:
        case JobOrder.STARTED:
            return job.started_at_ms
        case JobOrder.ENDED:
            return job.kept_since_ms
        case JobOrder.NAME:
            return job.spec.name
        case JobOrder.PRIORITY:
            return job.spec.priority
        case _:
            return job.sequence


def _matcher(query: JobQuery, horizon: int) -> Callable[[Job], bool]:
    """Return whether a query chooses a job."""
    states, labels = frozenset(query.states), query.labels
    queue, below = query.queue, f"{query.queue}."
    tenant, user, parent = query.tenant, query.user, query.parent
    since_ms, ended_since_ms = query.since_ms, query.ended_since_ms

    def matches(job: Job) -> bool:
        spec = job.spec
        return (
            job.sequence < horizon
            and (not states or job.shown_state in states)
            and (not queue or spec.queue == queue or spec.queue.startswith(below))
            and (not tenant or spec.tenant == tenant)
            and (not user or job.user == user)
            and (not parent or job.parent == parent)
            and (not since_ms or job.submitted_at_ms >= since_ms or job.ended_at_ms >= since_ms)
            and (not ended_since_ms or not job.ended_at_ms or job.ended_at_ms >= ended_since_ms)
            and (not labels or all(pair in spec.labels for pair in labels))
        )

    return matches


def _seen(matches: Callable[[Job], bool], shows: Callable[[Object], bool] | None) -> Callable[[Job], bool]:
    return matches if shows is None else lambda job: matches(job) and shows(job_object(job))


def _with_parent_by_id(state: ClusterState, query: JobQuery) -> JobQuery:
    """Return the query with the id of its array or schedule: pages go on with this very one. Raises ApiError."""
    if not query.parent:
        return query
    job = state.find_job(query.parent)
    if job is None:
        raise not_found(f"there is no job {query.parent[:MAX_NAME_LENGTH]!a}")
    if not job.spec.is_parent:
        raise invalid(f"job {job.spec.name} is neither an array nor a schedule: it has no children")
    return replace(query, parent=job.id)


def _check(query: JobQuery) -> None:
    if query.page_size < 0:
        raise invalid(f"page_size {query.page_size} must not be negative")
    if query.since_ms < 0:
        raise invalid(f"since_ms {query.since_ms} must not be negative")
    if query.ended_since_ms < 0:
        raise invalid(f"ended_since_ms {query.ended_since_ms} must not be negative")
    if found := check_id("queue", query.queue) or check_id("tenant", query.tenant) or check_id("user", query.user):
        raise invalid(str(found))
