"""The logs of a job: one reader for each allocation, merged into one stream.

Invariant: a reader that cannot reach a node says so once, and goes on trying while the caller follows. Nothing is read
ahead of the caller but a few chunks for each stream and, for each reader, what fits into its window
(`STREAM_WINDOW_BYTES`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import grpc

from gosched.core.records.job import Job
from gosched.core.records.node import NodeState
from gosched.core.records.task import Task
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.cancel import cancel_all, cancel_and_ignore
from gosched.master.base.channels import STREAMS, Channels
from gosched.master.base.errors import busy, invalid, not_found, unavailable
from gosched.master.base.job_changes import JobChanges
from gosched.master.base.leadership import Leadership
from gosched.replication.interface import Replication
from gosched.wire.v1 import scheduler_pb2, worker_pb2, worker_pb2_grpc

MAX_READERS = 1000  # of one stream, and of all streams of one caller
MAX_READERS_IN_ALL = 4000  # each may hold a window and a chunk that its caller does not read
MAX_STREAMS = 500  # of this master
MAX_CHUNKS_WAITING = 2  # of up to 64 KiB, as the agents cut them
RETRY_S = 0.3
READ_TIMEOUT_S = 5.0  # then it is checked whether the node is still there
DRAIN_S = 10.0  # for a node that does not answer after the task's end

Positions = dict[int, int]  # stream -> offset


@dataclass(slots=True)
class _Reader:
    """The reader of one allocation's log."""

    task_id: str
    allocation_id: str
    node_id: str
    #: Where the next chunk of each stream begins.
    positions: Positions
    #: The newest note that the caller was sent, so that each is sent once.
    noted: str = ""


class JobLogs:
    def __init__(self, replication: Replication, leadership: Leadership, agents: Channels, changes: JobChanges) -> None:
        self._replication = replication
        self._leadership = leadership
        self._agents = agents
        self._changes = changes
        self._streams = 0
        self._readers: Counter[str] = Counter()  # by caller

    async def stream(
        self, job_id: str, request: scheduler_pb2.StreamJobLogsRequest, caller: str
    ) -> AsyncIterator[scheduler_pb2.LogChunk]:
        """Yield chunks until all readers have ended; with `follow` not before the job has ended. `caller` is counted
        for them."""
        if self._streams >= MAX_STREAMS:
            raise busy(f"{MAX_STREAMS} log streams are open on this master: try again later")
        chunks: asyncio.Queue[scheduler_pb2.LogChunk] = asyncio.Queue(MAX_CHUNKS_WAITING)
        producer = asyncio.ensure_future(self._produce(job_id, request, caller, chunks))
        self._streams += 1
        try:
            while not (producer.done() and chunks.empty()):
                getting = asyncio.ensure_future(chunks.get())
                try:
                    await asyncio.wait([getting, producer], return_when=asyncio.FIRST_COMPLETED)
                    if getting.done():
                        yield getting.result()
                finally:
                    getting.cancel()
            producer.result()
        finally:
            self._streams -= 1
            await cancel_all([producer])

    async def _produce(
        self,
        job_id: str,
        request: scheduler_pb2.StreamJobLogsRequest,
        caller: str,
        chunks: asyncio.Queue[scheduler_pb2.LogChunk],
    ) -> None:
        try:
            async with asyncio.TaskGroup() as readers:
                await self._start_readers(job_id, request, caller, chunks, readers)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _start_readers(
        self,
        job_id: str,
        request: scheduler_pb2.StreamJobLogsRequest,
        caller: str,
        chunks: asyncio.Queue[scheduler_pb2.LogChunk],
        readers: asyncio.TaskGroup,
    ) -> None:
        """Start a reader for each allocation that the chosen tasks have, or get while the caller follows."""
        epoch, started = self._leadership.epoch, set()
        offsets = _positions(request)
        with self._changes.of(job_id) as changed:
            while True:
                changed.clear()
                job = self._replication.state.jobs.get(job_id)
                if job is None:
                    raise not_found(f"job {job_id} has been forgotten")
                for task in _chosen(self._replication.state, job, request.task):
                    if task.allocation_id and task.allocation_id not in started:
                        started.add(task.allocation_id)
                        reader = _Reader(
                            task_id=task.id,
                            allocation_id=task.allocation_id,
                            node_id=task.node_id,
                            positions=offsets.get(task.allocation_id, {}),
                        )
                        self._take_place(caller)
                        reading = readers.create_task(self._read(reader, request.follow, chunks))
                        reading.add_done_callback(lambda _: self._leave_place(caller))
                if not request.follow or job.state.is_final:
                    return
                await changed.wait()
                if self._leadership.epoch != epoch:
                    raise unavailable("this master does not lead any more; ask again")

    def _take_place(self, caller: str) -> None:
        """Count one more reader of the caller. Raises ApiError."""
        if self._readers[caller] >= MAX_READERS:
            raise busy(f"{caller} reads {MAX_READERS} logs already: end some of the streams first, or choose a task")
        if self._readers.total() >= MAX_READERS_IN_ALL:
            raise busy(f"{MAX_READERS_IN_ALL} logs are read through this master already: try again later")
        self._readers[caller] += 1

    def _leave_place(self, caller: str) -> None:
        self._readers[caller] -= 1
        if not self._readers[caller]:
            del self._readers[caller]

    async def _read(self, reader: _Reader, follow: bool, chunks: asyncio.Queue[scheduler_pb2.LogChunk]) -> None:
        """Read until the log has ended, or nothing more can be had."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + DRAIN_S
        while True:
            try:
                await self._read_once(reader, follow, chunks)
                return
            except grpc.aio.AioRpcError as error:
                absent = error.code() is grpc.StatusCode.NOT_FOUND
            active = reader.allocation_id in self._replication.state.allocations
            if active:
                give_up_at = loop.time() + DRAIN_S
            if not (absent and active):  # otherwise its order is still on the way
                await self._note(reader, absent, chunks)
            if not follow or self._is_gone(reader) or loop.time() > give_up_at or (absent and not active):
                return
            await asyncio.sleep(RETRY_S)

    async def _note(self, reader: _Reader, absent: bool, chunks: asyncio.Queue[scheduler_pb2.LogChunk]) -> None:
        what = f"has no log of {reader.allocation_id}" if absent else "is not reachable"
        note = f"node {reader.node_id} {what}"
        if note != reader.noted:
            reader.noted = note
            chunk = scheduler_pb2.LogChunk(task_id=reader.task_id, allocation_id=reader.allocation_id, note=note)
            await chunks.put(chunk)

    async def _read_once(self, reader: _Reader, follow: bool, chunks: asyncio.Queue[scheduler_pb2.LogChunk]) -> None:
        node = self._replication.state.nodes.get(reader.node_id)
        if node is None:  # dead, and forgotten
            await self._note(reader, False, chunks)
            return
        request = worker_pb2.StreamLogsRequest(allocation_id=reader.allocation_id, follow=follow)
        for stream, offset in reader.positions.items():
            getattr(request, "from").add(allocation_id=reader.allocation_id, stream=stream, offset=offset)
        waiting: asyncio.Future[Any] | None = None
        call = worker_pb2_grpc.WorkerServiceStub(self._agents.to_agent(node, STREAMS)).StreamLogs(request)
        try:
            waiting = asyncio.ensure_future(call.read())
            while True:
                done, _ = await asyncio.wait([waiting], timeout=READ_TIMEOUT_S)
                if not done:
                    if self._is_gone(reader):
                        await self._note(reader, False, chunks)
                        return
                    continue
                chunk = waiting.result()
                if chunk is grpc.aio.EOF:
                    return
                if chunk.data:
                    reader.positions[chunk.stream] = chunk.offset + len(chunk.data)
                await chunks.put(chunk)
                waiting = asyncio.ensure_future(call.read())
        finally:
            call.cancel()
            if waiting is not None:
                cancel_and_ignore(waiting)

    def _is_gone(self, reader: _Reader) -> bool:
        node = self._replication.state.nodes.get(reader.node_id)
        return node is None or node.state is NodeState.DEAD


def _chosen(state: ClusterState, job: Job, wanted: str) -> list[Task]:
    if job.spec.is_parent:
        kind, part, number = (
            ("a schedule", "runs", 1) if job.spec.cron else ("an array", "elements", job.spec.array.index(0))
        )
        raise invalid(f"job {job.spec.name} is {kind}: name one of its {part}, such as {job.spec.name}.{number}")
    tasks = [t for t in state.tasks_of(job) if not wanted or wanted in (t.id, f"{t.group}/{t.index}")]
    if not tasks:
        raise not_found(f"job {job.spec.name} has no task {wanted!a}; name one as group/index")
    if len(tasks) > MAX_READERS:
        raise invalid(f"{len(tasks)} tasks; at most {MAX_READERS} logs can be read together: choose a task")
    return tasks


def _positions(request: scheduler_pb2.StreamJobLogsRequest) -> Mapping[str, Positions]:
    found: dict[str, Positions] = {}
    for position in getattr(request, "from"):
        found.setdefault(position.allocation_id, {})[position.stream] = position.offset
    return found
