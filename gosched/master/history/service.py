"""HistoryService: events, attempts, jobs that have ended.

Lists are served by the leader, behind a barrier. A watch is served by any master from its own history, which is the
same: so watching costs the leader nothing, and a change of leaders does not end it.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, TypeVar, cast

import grpc

from gosched.api.history import Attempt, EventPage, FinishedJob, HistoryEvent
from gosched.core.access import Permission, job_object
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.reasons import RefusalReason
from gosched.core.records.job import JobState
from gosched.master.base.access import MAX_TEXT, Access, Wording
from gosched.master.base.callers import Caller, denied
from gosched.master.base.channels import Channels
from gosched.master.base.errors import ApiError, invalid, not_found, unavailable
from gosched.master.base.proposals import Proposals, is_without_barrier
from gosched.master.history.attempts import attempts
from gosched.master.history.elsewhere import ask_elsewhere, asked_revision
from gosched.master.history.feed import TELL_S, Feed, FeedBatch
from gosched.master.history.fetching import sent_rows
from gosched.master.history.kinds import Kind
from gosched.master.history.queries import (
    EventFilter,
    Found,
    JobFilter,
    attempts_of,
    events_after,
    finished_jobs,
    newest_events,
    newest_job,
)
from gosched.master.history.store import HistoryStore
from gosched.master.jobs.page_tokens import OF_ANOTHER_REQUEST
from gosched.replication.interface import Replication
from gosched.wire.codec import fill, to_message
from gosched.wire.v1 import history_pb2, history_pb2_grpc

DEFAULT_PAGE = 1_000
MAX_PAGE = 10_000
WATCH_PAGE = 1_000
HEARTBEAT_S = 10.0  # a watch hears at least as often that it lives
NO_LEADER_S = 10.0  # after which a watch ends: this master may be cut off, and hears nothing
MAX_FILTER_KINDS = 64
FIRST_S = 1.0  # for the history to be written, before another master is asked
WRITTEN_S = 5.0  # where no other one has it

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Events of one revision for a watch; none: nothing happened up to it."""

    revision: int
    events: Sequence[HistoryEvent] = ()
    #: All that happened at this revision, as it is held for all that watch; None: it is only what was asked for.
    shared: FeedBatch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryService(history_pb2_grpc.HistoryServiceServicer):
    replication: Replication
    proposals: Proposals
    store: HistoryStore
    feed: Feed
    access: Access
    masters: Channels

    async def ListEvents(self, request: history_pb2.ListEventsRequest, context: Any) -> history_pb2.ListEventsResponse:
        return await self._wherever("ListEvents", request, context, self._list_events)

    async def _list_events(
        self, request: history_pb2.ListEventsRequest, context: Any, revision: int
    ) -> history_pb2.ListEventsResponse:
        wanted = self.filter_of(request, context.caller)
        size = _page_size(request.page_size)
        if request.after > revision:
            raise _beyond(request.after, revision)
        found = await self._page(wanted, request.after, size)
        words = self.access.wording(context.caller)
        page = EventPage(
            events=tuple([_worded(event, words) for event in found.events]),
            revision=found.revision,
            more=found.more,
            oldest=self.store.span.first,
        )
        return to_message(page, history_pb2.ListEventsResponse)

    async def WatchEvents(
        self, request: history_pb2.ListEventsRequest, context: Any
    ) -> AsyncIterator[history_pb2.EventBatch]:
        async for batch in self.watch_for(context.caller, request):
            message = history_pb2.EventBatch(revision=batch.revision)
            for event in batch.events:
                fill(event, message.events.add())
            yield message

    async def ListAttempts(
        self, request: history_pb2.ListAttemptsRequest, context: Any
    ) -> history_pb2.ListAttemptsResponse:
        return await self._wherever("ListAttempts", request, context, self._list_attempts)

    async def _list_attempts(
        self, request: history_pb2.ListAttemptsRequest, context: Any, revision: int
    ) -> history_pb2.ListAttemptsResponse:
        job = self.access.seen_job(context.caller, request.job)
        if job is not None:
            self.access.check(context.caller, Permission.VIEW_JOB, job_object(job))
            job_id = job.id
        else:
            job_id = await self._forgotten(request.job, context.caller)
        answer = history_pb2.ListAttemptsResponse(revision=revision)
        words = self.access.wording(context.caller)
        for attempt in await self.attempts_of_job(job_id):
            fill(replace(attempt, detail=words(attempt.detail)), answer.attempts.add())
        return answer

    async def attempts_of_job(self, job_id: str) -> list[Attempt]:
        """Return the attempts of a job, the oldest first; none of one that neither state nor history knows."""
        state = self.replication.state
        await self.store.until_written(state.revision)
        kept = await self.store.read(lambda database: attempts_of(database, job_id))
        return attempts(state, state.jobs.get(job_id), kept)

    async def ListFinishedJobs(
        self, request: history_pb2.ListFinishedJobsRequest, context: Any
    ) -> history_pb2.ListFinishedJobsResponse:
        return await self._wherever("ListFinishedJobs", request, context, self._list_finished_jobs)

    async def _list_finished_jobs(
        self, request: history_pb2.ListFinishedJobsRequest, context: Any, _: int
    ) -> history_pb2.ListFinishedJobsResponse:
        size = _page_size(request.page_size)
        wanted = JobFilter(
            since_ms=request.since_ms,
            until_ms=request.until_ms,
            tenant=request.tenant,
            queue=request.queue,
            user=request.user,
            states=frozenset([_final(state) for state in request.states]),
            scopes=self.access.listed_scopes(context.caller),
        )
        mark = _mark(request, self.access.viewer(context.caller))
        before = _place_of(request.page_token, mark)
        jobs, more = await self.store.read(lambda database: finished_jobs(database, wanted, before, size))
        answer = history_pb2.ListFinishedJobsResponse(next_page_token=_token(jobs[-1], mark) if more else "")
        for job in jobs:
            fill(job, answer.jobs.add())
        return answer

    async def _wherever(
        self, method: str, request: Any, context: Any, own: Callable[[Any, Any, int], Awaitable[A]]
    ) -> A:
        """Return the answer from this master's history, or, where that cannot be read or has a gap, from another
        master's. Raises ApiError."""
        asked = asked_revision(context)
        if asked is not None:
            await self._until_at(asked)
            if self.feed.last < asked or self.store.span.missing_after >= 0:
                raise unavailable("this master's history is not complete either")
            await self.store.until_written(asked)
            return await own(request, context, asked)
        revision = await self.proposals.barrier()
        alone = is_without_barrier() or len(self.replication.state.masters) < 2
        if alone or self.store.span.missing_after < 0:
            try:
                await self.store.until_written(revision, WRITTEN_S if alone else FIRST_S)
                return await own(request, context, revision)
            except ApiError as error:
                if alone or error.code is not grpc.StatusCode.UNAVAILABLE:
                    raise
        found = await ask_elsewhere(self.replication, self.masters, method, request, context.caller, revision)
        if found is not None:
            return cast(A, found)
        try:
            if self.store.fails:
                raise unavailable("this master's cannot be written: see its log, and try again")
            await self.store.until_written(revision, WRITTEN_S)
            return await own(request, context, revision)
        except ApiError as error:
            if error.code is not grpc.StatusCode.UNAVAILABLE:
                raise
            raise unavailable(f"no other master has the history now, and {error.detail}") from error

    def filter_of(self, request: history_pb2.ListEventsRequest, caller: Caller) -> EventFilter:
        """Return the filter of a request: what the caller asks for, and what it may see. Raises ApiError."""
        self.access.check(caller, Permission.VIEW)
        if request.after < 0 or request.since_ms < 0:
            raise invalid("a revision and a moment must not be negative")
        if len(request.kinds) > MAX_FILTER_KINDS:
            raise invalid(f"{len(request.kinds)} kinds; at most {MAX_FILTER_KINDS} are taken")
        for kind in request.kinds:
            _check_kind(kind)
        return EventFilter(
            job=request.job,
            node=self._node_id(request.node),
            kinds=frozenset(request.kinds),
            since_ms=request.since_ms,
            queue=request.queue,
            tenant=request.tenant,
            sees=self.access.lists(caller),
            scopes=self.access.listed_scopes(caller),
        )

    def watch_for(self, caller: Caller, request: history_pb2.ListEventsRequest) -> AsyncIterator[Batch]:
        """Return the watch of a request. It ends when its caller sees other jobs than it did. Raises ApiError."""
        wanted = self.filter_of(request, caller)
        is_open = wanted.sees is None

        def check() -> None:
            self.access.check(caller, Permission.VIEW)
            if (self.access.lists(caller) is None) is not is_open:
                raise denied("what this user may see has changed: open the watch again")

        return self.access.guarded(caller, check, self._worded_batches(caller, self.watch(wanted, request.after)))

    async def _worded_batches(self, caller: Caller, batches: AsyncIterator[Batch]) -> AsyncIterator[Batch]:
        words = self.access.wording(caller)
        async for batch in batches:
            shown = words is str or not batch.events
            yield batch if shown else replace(batch, events=[_worded(event, words) for event in batch.events])

    async def watch(self, wanted: EventFilter, after: int) -> AsyncIterator[Batch]:
        """Yield what happens after a revision, 0: from now on; and at first, and now and then, a batch without events.
        It raises ApiError where what followed is not kept, where the revision is not of this cluster, and when this
        master has not known a leader for a while."""
        cursor = after or self.feed.last
        self.check_kept(cursor)
        yield Batch(revision=cursor)
        await self._until_at(cursor)
        without_leader_s, beat_at = 0.0, time.monotonic() + HEARTBEAT_S
        while True:
            held, last = self.feed.since(cursor), self.feed.last  # who listens takes its time, and more may come
            if held is None:
                found = await self._page(wanted, cursor, WATCH_PAGE)
                for batch in _by_revision(found.events):
                    yield batch
                cursor = found.revision
                continue
            for one in held:
                cursor = one.revision
                if wanted.is_open:
                    yield Batch(revision=cursor, events=one.events, shared=one)
                elif events := [event for event in one.events if wanted.takes(event)]:
                    yield Batch(revision=cursor, events=events)
            cursor = max(cursor, last)
            if time.monotonic() >= beat_at:
                beat_at = time.monotonic() + HEARTBEAT_S
                yield Batch(revision=cursor)
            if self.feed.last > cursor:
                continue
            await self.feed.change(HEARTBEAT_S)
            hears = self.replication.role.leader or self.feed.last > cursor
            without_leader_s = 0.0 if hears else without_leader_s + HEARTBEAT_S
            if without_leader_s >= NO_LEADER_S:
                raise unavailable("this master knows of no leader; go on with another one")

    async def _until_at(self, revision: int) -> None:
        """Wait until this master has come to a revision that another one may have told of. Raises ApiError: whether it
        is of this cluster only the leader knows; of the others the watch is to go on with another master."""
        ends = time.monotonic() + HEARTBEAT_S
        while self.feed.last < revision and time.monotonic() < ends:
            await self.feed.change(TELL_S)
        if self.feed.last < revision:
            await self._revision(revision)

    async def _revision(self, after: int) -> int:
        """Return the leader's revision. Raises ApiError, also where `after` is beyond it."""
        revision = await self.proposals.barrier()
        if after > revision:
            raise _beyond(after, revision)
        return revision

    def check_kept(self, after: int) -> None:
        """Raise ApiError unless all that followed a revision is kept."""
        first = self.store.span.first
        if not after or after >= first - 1:
            return
        if self.store.is_fetching:
            raise unavailable("this master fetches what its history lacks; go on with another one, or try again")
        raise ApiError(
            grpc.StatusCode.OUT_OF_RANGE,
            f"what followed revision {after} is not kept any more: events are complete from revision {first} on;"
            f" ask after {first - 1}",
            reason=RefusalReason.HISTORY_COMPACTED,
        )

    async def _page(self, wanted: EventFilter, after: int, size: int) -> Found:
        found = await self._read_page(wanted, after, size)
        if wanted.sees is None:
            return found
        return replace(found, events=[event for event in found.events if wanted.shows(event)])

    async def _read_page(self, wanted: EventFilter, after: int, size: int) -> Found:
        store = self.store
        if not after and not wanted.since_ms:
            return await store.read(lambda database: newest_events(database, wanted, store.written, size))
        self.check_kept(after)
        await store.until_written(min(self.feed.last, store.span.last))
        return await store.read(lambda database: events_after(database, wanted, after, store.written, size))

    async def StreamHistory(
        self, request: history_pb2.StreamHistoryRequest, context: Any
    ) -> AsyncIterator[history_pb2.HistoryRows]:
        await self.store.until_written(request.before - 1)
        async for rows in sent_rows(self.store, request.after, request.before):
            yield rows

    async def _forgotten(self, job: str, caller: Caller) -> str:
        """Return the id of a job that the state does not know (any more). Raises ApiError."""
        scopes = self.access.seen_scopes(caller)
        found = await self.store.read(lambda database: newest_job(database, job, scopes))
        if found is None:
            raise not_found(f"there is no job {job[:MAX_TEXT]!a}, and none in the history")
        return found.job_id

    def _node_id(self, node: str) -> str:
        """Return the id of a node by its name; a node that is not known (any more) is what it is called."""
        state = self.replication.state
        if not node or node in state.nodes:
            return node
        named = [known.id for known in state.nodes.values() if known.name == node]
        if len(named) > 1:
            raise invalid(f"{len(named)} nodes are named {node[:MAX_NAME_LENGTH]!a}: give the id")
        return named[0] if named else node


def _beyond(after: int, revision: int) -> ApiError:
    return invalid(f"revision {after} is not of this cluster: it is at {revision}")


def _worded(event: HistoryEvent, words: Wording) -> HistoryEvent:
    return event if words is str else replace(event, message=words(event.message))


def _by_revision(events: Sequence[HistoryEvent]) -> Sequence[Batch]:
    grouped: dict[int, list[HistoryEvent]] = {}
    for event in events:
        grouped.setdefault(event.revision, []).append(event)
    return [Batch(revision=revision, events=found) for revision, found in grouped.items()]


def _page_size(asked: int) -> int:
    if not 0 <= asked <= MAX_PAGE:
        raise invalid(f"page_size {asked} must be from 1 to {MAX_PAGE}, or 0 for {DEFAULT_PAGE}")
    return asked or DEFAULT_PAGE


def _check_kind(kind: str) -> None:
    kinds = [known.value for known in Kind]
    if kind not in kinds:
        near = difflib.get_close_matches(kind, kinds, n=1)
        meant = f': did you mean "{near[0]}"?' if near else "; they are in docs/guides/events.md"
        raise invalid(f"no kind of event is named {kind[:MAX_NAME_LENGTH]!a}{meant}")


def _final(state: int) -> int:
    if state not in [known.value for known in JobState if known.is_final]:
        raise invalid("a job that has ended is SUCCEEDED, FAILED or CANCELLED")
    return state


def _mark(request: history_pb2.ListFinishedJobsRequest, viewer: Hashable) -> str:
    """Return a hash of what a listing chooses, and for whom: a token is of no use for another one. Moments are left
    out: `2h` ago is another one for each page."""
    chosen = (request.tenant, request.queue, request.user, sorted(set(request.states)), viewer)
    return blake2b(repr(chosen).encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()


def _token(job: FinishedJob, mark: str) -> str:
    """Return where a listing goes on: after the last job of its page, one that its caller sees."""
    return f"{job.ended_at_ms}:{job.job_id}:{mark}"


def _place_of(token: str, mark: str) -> tuple[int, str] | None:
    if not token:
        return None
    at_ms, _, rest = token.partition(":")
    job_id, colon, its = rest.rpartition(":")
    if not colon or not at_ms.isdecimal() or len(at_ms) > 18:
        raise invalid("page_token is not one that this cluster gave: begin with the first page")
    if its != mark:
        raise invalid(OF_ANOTHER_REQUEST)
    return int(at_ms), job_id
