"""A job as it changes, and its logs: streams that outlive a leader, with no line lost or doubled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gosched.client import records
from gosched.client.answers import LogChunk, LogTime
from gosched.client.calls import SCHEDULER, Call, Stream, rpc
from gosched.client.errors import Refused
from gosched.wire.codec import to_record
from gosched.wire.v1 import scheduler_pb2

_STREAM_NAMES = {1: "stdout", 2: "stderr"}


def watch(job: str, *, timeout_s: float | None = None) -> Stream[records.JobDetail]:
    """Yield the job now and after each change, until it has ended. Raises TimedOut after `timeout_s`."""
    return _Changes(job, timeout_s)


def logs(
    job: str,
    *,
    follow: bool = False,
    task: str = "",
    attempt: int = 0,
    previous: bool = False,
    tail: int | None = None,
    since_ms: int = 0,
    timestamps: bool = False,
    timeout_s: float | None = None,
) -> Stream[LogChunk]:
    """Yield what the job's tasks (or one: `worker/3`) wrote, of an array what those of its elements did; with
    `follow`, until the job has ended. `attempt` counts from 1, 0 is the newest; `previous`: the one before. `tail`:
    only so many of the last lines of each stream, and what follows; `since_ms`: only lines begun since;
    `timestamps`: chunks have `times`. Where logs are missing, chunks say which, and why, and at the end NotFound is
    raised."""
    request = scheduler_pb2.StreamJobLogsRequest(
        job=job,
        task=task,
        follow=follow,
        attempt=attempt,
        previous=previous,
        tail=tail,
        since_ms=since_ms,
        timestamps=timestamps,
    )
    return _Logs(request, timeout_s)


class _Changes(Stream["records.JobDetail"]):
    rpc = rpc(SCHEDULER, "WatchJob")

    def __init__(self, job: str, timeout_s: float | None) -> None:
        super().__init__(timeout_s)
        self._request = scheduler_pb2.GetJobRequest(job=job)
        self._last: records.JobDetail | None = None

    def request(self) -> scheduler_pb2.GetJobRequest:
        return self._request

    def take(self, message: Any) -> Iterator[records.JobDetail]:
        detail, last = to_record(message, records.JobDetail), self._last
        self._request.job = detail.id  # from now on this very job, not a newer one of its name
        self.ended = detail.state.is_final
        # A master that lags behind must not take us back. What a job waits for changes without a revision.
        if last is None or (detail.revision >= last.revision and detail != last):
            self._last = detail
            yield detail


class _Logs(Stream[LogChunk]):
    rpc = rpc(SCHEDULER, "StreamJobLogs")
    until_closed = True

    def __init__(self, request: scheduler_pb2.StreamJobLogsRequest, timeout_s: float | None) -> None:
        super().__init__(timeout_s)
        self._request = request
        self._is_cut = request.HasField("tail") or request.since_ms > 0 or request.timestamps
        self._read: dict[tuple[str, int], int] = {}  # (allocation, stream) -> what comes next

    def first(self) -> Call[None]:
        request = scheduler_pb2.GetJobRequest(job=self._request.job)
        return Call(rpc=rpc(SCHEDULER, "GetJob"), request=request, read=self._begin)

    def request(self) -> scheduler_pb2.StreamJobLogsRequest:
        asked = scheduler_pb2.StreamJobLogsRequest()
        asked.CopyFrom(self._request)
        if self._read:
            asked.ClearField("tail")  # what has begun since is new
        for (allocation, stream), offset in self._read.items():
            getattr(asked, "from").add(allocation_id=allocation, stream=stream, offset=offset)
        return asked

    def take(self, message: Any) -> Iterator[LogChunk]:
        place = (message.allocation_id, message.stream)
        data = message.data[max(0, self._read.get(place, 0) - message.offset) :]
        if data and self._is_cut and place not in self._read:
            raise Refused("the leader is of an earlier release, which sends whole logs without times")
        if data or message.start:
            self._read[place] = message.offset + len(message.data)
        if data or message.note:
            yield LogChunk(
                task_id=message.task_id,
                allocation_id=message.allocation_id,
                stream=_STREAM_NAMES.get(message.stream, ""),
                offset=message.offset + len(message.data) - len(data),
                data=data,
                note=message.note,
                missing=message.missing,
                times=tuple(LogTime(offset=time.offset, at_ms=time.at_ms) for time in message.times),
                job_name=message.job_name,
            )

    def _begin(self, answer: scheduler_pb2.JobView) -> None:
        self._request.job = answer.job.id  # this very job, not a newer one of its name
