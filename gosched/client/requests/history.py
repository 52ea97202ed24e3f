"""What has happened: events, the attempts of jobs, jobs that have ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gosched.client import records
from gosched.client.arguments import member
from gosched.client.calls import HISTORY, Call, Pages, Stream, rpc
from gosched.wire.codec import to_record
from gosched.wire.v1 import history_pb2, types_pb2

ENDS = ("job_succeeded", "job_failed", "job_cancelled")  # kinds of the events that end a job


def list_events(
    *,
    after: int = 0,
    job: str = "",
    node: str = "",
    kinds: Sequence[str] = (),
    since_ms: int = 0,
    queue: str = "",
    tenant: str = "",
    limit: int = 0,
) -> Call[records.EventPage]:
    """Return a page of events, the oldest first: what came after a revision, or since a moment, or the newest.
    `job`, `node`: id or name. Raises GoSchedError where what followed `after` is not kept any more."""
    request = history_pb2.ListEventsRequest(
        after=after, job=job, node=node, kinds=kinds, since_ms=since_ms, queue=queue, tenant=tenant, page_size=limit
    )
    return Call(
        rpc=rpc(HISTORY, "ListEvents"), request=request, read=lambda answer: to_record(answer, records.EventPage)
    )


def watch_events(
    *,
    after: int = 0,
    job: str = "",
    node: str = "",
    kinds: Sequence[str] = (),
    queue: str = "",
    tenant: str = "",
    timeout_s: float | None = None,
) -> Stream[records.HistoryEvent]:
    """Yield each event after a revision, 0: from now on; each once, whatever becomes of the masters. Raises
    TimedOut after `timeout_s`, and GoSchedError where what followed is not kept any more."""
    request = history_pb2.ListEventsRequest(after=after, job=job, node=node, kinds=kinds, queue=queue, tenant=tenant)
    return _Events(request, timeout_s)


def list_attempts(job: str) -> Call[list[records.Attempt]]:
    """Return the attempts of a job, by its id or name, the oldest first; also of one that is forgotten."""
    return Call(
        rpc=rpc(HISTORY, "ListAttempts"),
        request=history_pb2.ListAttemptsRequest(job=job),
        read=lambda answer: [to_record(attempt, records.Attempt) for attempt in answer.attempts],
    )


def finished_jobs(
    *,
    since_ms: int = 0,
    until_ms: int = 0,
    tenant: str = "",
    queue: str = "",
    user: str = "",
    states: Sequence[records.JobState | str] = (),
) -> Pages[records.FinishedJob]:
    """Yield jobs that have ended, the newest first; the masters keep them longer than the jobs themselves."""
    request = history_pb2.ListFinishedJobsRequest(
        since_ms=since_ms,
        until_ms=until_ms,
        tenant=tenant,
        queue=queue,
        user=user,
        states=[types_pb2.JobState.Name(member(records.JobState, state)) for state in states],
    )

    def read(page: history_pb2.ListFinishedJobsResponse) -> list[records.FinishedJob]:
        return [to_record(job, records.FinishedJob) for job in page.jobs]

    return Pages(rpc(HISTORY, "ListFinishedJobs"), request, read)


class _Events(Stream["records.HistoryEvent"]):
    """Goes on after the newest revision that came; a batch has all of its revision."""

    rpc = rpc(HISTORY, "WatchEvents")

    def __init__(self, request: history_pb2.ListEventsRequest, timeout_s: float | None) -> None:
        super().__init__(timeout_s)
        self._request = request

    def first(self) -> Call[None] | None:
        if self._request.after:
            return None
        newest = history_pb2.ListEventsRequest(page_size=1)
        return Call(rpc=rpc(HISTORY, "ListEvents"), request=newest, read=self._begin)

    def request(self) -> history_pb2.ListEventsRequest:
        return self._request

    def take(self, message: Any) -> Iterator[records.HistoryEvent]:
        if message.revision > self._request.after:
            self._request.after = message.revision
            for event in message.events:
                yield to_record(event, records.HistoryEvent)

    def _begin(self, answer: history_pb2.ListEventsResponse) -> None:
        self._request.after = answer.revision
