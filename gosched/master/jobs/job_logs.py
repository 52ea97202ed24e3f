"""The logs of a job: one reader for each allocation, merged into one stream; of an array or a schedule those of all its
children, one child after the other, or while the caller follows together.

Invariant: a reader that cannot reach a node says so once, and goes on trying while the caller follows. What can be had
is sent; a stream of which any log is missing ends with NOT_FOUND. Nothing is read ahead of the caller but a few chunks
for each stream and, for each reader, what fits into its window (`STREAM_WINDOW_BYTES`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import grpc

from gosched.core.records.job import Job
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.callers import Shares
from gosched.master.base.cancel import cancel_all
from gosched.master.base.errors import ApiError, busy, not_found, unavailable
from gosched.master.base.job_changes import JobChanges
from gosched.master.base.leadership import Leadership
from gosched.master.jobs.archived_log import LogCut
from gosched.master.jobs.log_children import children_of, none_started
from gosched.master.jobs.log_reader import Chunks, LogReader, Positions
from gosched.master.jobs.log_targets import (
    MAX_READERS,
    AttemptsOf,
    LogTarget,
    asked_attempt,
    check_request,
    never_started,
    newest,
    of_attempt,
)
from gosched.replication.interface import Replication
from gosched.wire.v1 import scheduler_pb2

MAX_READERS_IN_ALL = 4000  # each may hold a window and a chunk that its caller does not read
MAX_STREAMS = 500  # of this master
MAX_CHUNKS_WAITING = 2  # of up to 64 KiB, as the agents cut them
MAX_FOLLOWED = 900  # tasks of one array that are followed together, of the readers that a caller may have
LOOK_S = 1.0  # then it is looked for children: not each of them changes its parent visibly
MAX_NAMED = 3  # missing logs, in an error


class JobLogs:
    def __init__(
        self,
        replication: Replication,
        leadership: Leadership,
        changes: JobChanges,
        reader: LogReader,
        attempts_of: AttemptsOf,
    ) -> None:
        self._replication = replication
        self.leadership = leadership
        self.changes = changes
        self.reader = reader
        self.attempts_of = attempts_of
        self._streams = Shares(MAX_STREAMS, "log streams are open")
        self._readers: Counter[str] = Counter()  # by caller

    async def stream(
        self, job_id: str, request: scheduler_pb2.StreamJobLogsRequest, caller: str
    ) -> AsyncIterator[scheduler_pb2.LogChunk]:
        """Yield chunks until all readers have ended; with `follow` not before the job has ended. `caller` is counted
        for them. Raises ApiError."""
        check_request(request)
        is_parent = self.job(job_id).spec.is_parent
        with self._streams.place(caller):
            chunks: Chunks = asyncio.Queue(MAX_CHUNKS_WAITING)
            asked = _Asked(logs=self, request=request, caller=caller, chunks=chunks, offsets=_positions(request))
            producer = asyncio.ensure_future(_produce(_Stream(asked, job_id, _cut(request))))
            try:
                while not (producer.done() and chunks.empty()):
                    getting = asyncio.ensure_future(chunks.get())
                    try:
                        await asyncio.wait([getting, producer], return_when=asyncio.FIRST_COMPLETED)
                        if getting.done():
                            yield self._named(getting.result()) if is_parent else getting.result()
                    finally:
                        getting.cancel()
                producer.result()
            finally:
                await cancel_all([producer])

    @property
    def state(self) -> ClusterState:
        return self._replication.state

    def job(self, job_id: str) -> Job:
        """Return the job. Raises ApiError."""
        job = self.state.jobs.get(job_id)
        if job is None:
            raise not_found(f"job {job_id} has been forgotten")
        return job

    def _named(self, chunk: scheduler_pb2.LogChunk) -> scheduler_pb2.LogChunk:
        child = self.state.jobs.get(chunk.task_id.partition("/")[0])
        chunk.job_name = child.spec.name if child is not None else ""
        return chunk

    def take_place(self, caller: str) -> None:
        """Count one more reader of the caller. Raises ApiError."""
        if self._readers[caller] >= MAX_READERS:
            raise busy(f"{caller} reads {MAX_READERS} logs already: end some of the streams first, or choose a task")
        if self._readers.total() >= MAX_READERS_IN_ALL:
            raise busy(f"{MAX_READERS_IN_ALL} logs are read through this master already: try again later")
        self._readers[caller] += 1

    def leave_place(self, caller: str) -> None:
        self._readers[caller] -= 1
        if not self._readers[caller]:
            del self._readers[caller]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What all parts of one answer share."""

    logs: JobLogs
    request: scheduler_pb2.StreamJobLogsRequest
    #: Whose readers are counted.
    caller: str
    chunks: Chunks
    #: Where the caller goes on, by allocation.
    offsets: Mapping[str, Positions]


async def _produce(stream: _Stream) -> None:
    """Read all logs. Raises ApiError, also where some were missing."""
    await stream.read()
    if missing := [what for what in stream.started.values() if what]:
        raise not_found(_all_missing(missing, len(stream.started)))


class _Stream:
    """The logs of one job, or of the children of one."""

    def __init__(self, asked: _Asked, job_id: str, cut: LogCut) -> None:
        self._asked = asked
        self._cut = cut
        self._logs = asked.logs
        self._request = asked.request
        self._job_id = job_id
        #: Allocations that are read, or were, and what is missing of each.
        self.started: dict[str, str] = {}

    async def read(self) -> None:
        """Read all that can be had; `started` tells the rest. Raises ApiError."""
        try:
            async with asyncio.TaskGroup() as readers:
                job, state = self._logs.job(self._job_id), self._logs.state
                if job.spec.is_parent:
                    await self._read_children(job, readers)
                elif self._request.attempt or self._request.previous:
                    targets = await of_attempt(state, job, self._request, self._logs.attempts_of)
                    self._read(targets, self._cut, readers)
                else:
                    await self._read_newest(readers)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _read_newest(self, readers: asyncio.TaskGroup) -> None:
        """Start a reader for each allocation that the chosen tasks have, or get while the caller follows."""
        cut = self._cut
        with self._logs.changes.of(self._job_id) as changed:
            async for job in self._while_followed(changed):
                self._read(newest(self._logs.state, job, self._request.task), cut, readers)
                cut = _new(cut)
                if not self.started and (job.state.is_final or not self._request.follow):
                    raise never_started(job)

    async def _while_followed(self, changed: asyncio.Event) -> AsyncIterator[Job]:
        """Yield the job now, and while the caller follows after each change until it has ended. Raises ApiError."""
        epoch = self._logs.leadership.epoch
        while True:
            changed.clear()
            job = self._logs.job(self._job_id)
            yield job
            if not self._request.follow or job.state.is_final:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await changed.wait()
            if self._logs.leadership.epoch != epoch:
                raise unavailable("this master does not lead any more; ask again")

    def _read(self, targets: Sequence[LogTarget], cut: LogCut, readers: asyncio.TaskGroup) -> None:
        for target in targets:
            if target.allocation_id not in self.started:
                self.started[target.allocation_id] = ""
                self._logs.take_place(self._asked.caller)
                reading = readers.create_task(self._read_one(target, cut))
                reading.add_done_callback(lambda _: self._logs.leave_place(self._asked.caller))

    async def _read_one(self, target: LogTarget, cut: LogCut) -> None:
        positions = self._asked.offsets.get(target.allocation_id, {})
        missing = await self._logs.reader.read(target, positions, cut, self._request.follow, self._asked.chunks)
        self.started[target.allocation_id] = missing

    async def _read_children(self, parent: Job, readers: asyncio.TaskGroup) -> None:
        """Read the children in their order; while the caller follows, each as soon as it is there."""
        seen: set[str] = set()
        tasks = sum([group.count for group in parent.spec.groups])
        places = asyncio.Semaphore(max(1, MAX_FOLLOWED // max(1, tasks)))
        reading: list[asyncio.Task[None]] = []
        cut = self._cut
        with self._logs.changes.of(self._job_id) as changed:
            async for job in self._while_followed(changed):
                for child in children_of(self._logs.state, job):
                    if child.id in seen:
                        continue
                    seen.add(child.id)
                    if self._request.follow:
                        reading.append(readers.create_task(self._read_child(child, cut, places)))
                    else:
                        await self._read_child(child, cut, places)
                cut = _new(cut)
        await asyncio.gather(*reading)
        if not self.started:
            raise not_found(none_started(job, asked_attempt(self._request)))

    async def _read_child(self, child: Job, cut: LogCut, places: asyncio.Semaphore) -> None:
        if places.locked():
            note = f"{child.spec.name} is followed once another job has ended: {MAX_FOLLOWED} tasks are followed"
            await self._asked.chunks.put(scheduler_pb2.LogChunk(task_id=f"{child.id}/", note=note))
        async with places:
            stream = _Stream(self._asked, child.id, cut)
            try:
                await stream.read()
            except ApiError as error:
                if error.code is not grpc.StatusCode.NOT_FOUND:
                    raise  # otherwise it has not started, or has had no such attempt
            for allocation, missing in stream.started.items():
                self.started[allocation] = f"{child.spec.name}: {missing}" if missing else ""


def _new(cut: LogCut) -> LogCut:
    """Return the cut of what begins while the caller follows: all of it is new."""
    return replace(cut, tail=None)


def _cut(request: scheduler_pb2.StreamJobLogsRequest) -> LogCut:
    tail = request.tail if request.HasField("tail") else None
    return LogCut(tail=tail, since_ms=request.since_ms, timestamps=request.timestamps)


def _all_missing(missing: Sequence[str], of: int) -> str:
    more = f"; and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
    count = f"{len(missing)} of {of} logs are missing: " if of > 1 else ""
    return f"{count}{'; '.join(missing[:MAX_NAMED])}{more}"


def _positions(request: scheduler_pb2.StreamJobLogsRequest) -> Mapping[str, Positions]:
    found: dict[str, Positions] = {}
    for position in getattr(request, "from"):
        found.setdefault(position.allocation_id, {})[position.stream] = position.offset
    return found
