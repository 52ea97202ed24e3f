"""Reads one log: from the agent that has it, else from the archive.

Invariant: a log ends with all of its bytes, or with the reason why they cannot be had; never silently.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import grpc

from gosched.archive.store import ArchiveError, NotArchived, object_key, times_object
from gosched.core.records.node import NodeState
from gosched.master.base.cancel import cancel_and_ignore
from gosched.master.base.channels import STREAMS, Channels
from gosched.master.jobs.archived_log import ArchivedStream, LogCut, ReadableArchive, TimedPiece
from gosched.master.jobs.log_targets import LogTarget
from gosched.replication.interface import Replication
from gosched.wire.v1 import scheduler_pb2, worker_pb2, worker_pb2_grpc

RETRY_S = 0.3
READ_TIMEOUT_S = 5.0  # then it is checked whether the node is still there
DRAIN_S = 10.0  # for a node that does not answer after the task's end
_STREAMS = {"stdout": scheduler_pb2.LOG_STREAM_STDOUT, "stderr": scheduler_pb2.LOG_STREAM_STDERR}

Positions = dict[int, int]  # stream -> offset
Chunks = asyncio.Queue[scheduler_pb2.LogChunk]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReader:
    """What readers share."""

    replication: Replication
    agents: Channels
    #: None: there is no archive.
    archive: ReadableArchive | None = None

    async def read(self, target: LogTarget, positions: Positions, cut: LogCut, follow: bool, chunks: Chunks) -> str:
        """Read to the end, of streams without a position what `cut` says; return why the log, or its rest, cannot be
        had; empty: all was read."""
        reading = _Reading(self, target, positions, cut, chunks)
        why = await reading.from_agent(follow)
        if not why:
            return ""
        if self.archive is not None:
            if not (problem := await reading.from_archive()):
                return ""
            why = f"{why}; {problem}"
        what = "the rest of the log" if positions else "the log"
        missing = f"{target.task_id.partition('/')[2]}: {what} of attempt {target.attempt} is missing: {why}"
        await reading.put(note=missing, missing=True)
        return missing


@dataclass(slots=True)
class _Reading:
    """One log that is read."""

    shared: LogReader
    target: LogTarget
    #: Where the next chunk of each stream begins.
    positions: Positions
    cut: LogCut
    chunks: Chunks
    #: The newest note that the caller was sent, so that each is sent once.
    noted: str = ""
    where: str = field(init=False)

    def __post_init__(self) -> None:
        name, node_id = self.target.node_name, self.target.node_id
        self.where = f"node {node_id}" if name in ("", node_id) else f"node {name} ({node_id})"

    async def put(self, **fields: Any) -> None:
        chunk = scheduler_pb2.LogChunk(task_id=self.target.task_id, allocation_id=self.target.allocation_id, **fields)
        await self.chunks.put(chunk)

    async def from_agent(self, follow: bool) -> str:
        """Read until the log has ended, or nothing more can be had there; return why not."""
        if not self.target.node_id:
            return "its node is not known any more"
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + DRAIN_S
        while True:
            # Looked at before the agent is asked: meanwhile the order may come and the task end.
            active = self.target.allocation_id in self.shared.replication.state.allocations
            try:
                if not (why := await self._read_once(follow)):
                    return ""
                absent = False
            except grpc.aio.AioRpcError as error:
                absent = error.code() is grpc.StatusCode.NOT_FOUND
                why = f"{self.where}: {error.details()}" if absent else self._gone() or f"{self.where} is not reachable"
            if active:
                give_up_at = loop.time() + DRAIN_S
                if absent and not follow:
                    return ""  # its order is still on the way: nothing was written yet
            over = loop.time() > give_up_at or (absent and not active)
            if not follow or self._gone() or over:
                return f"the task did not start: {self.target.never_started}" if self.target.never_started else why
            if not absent:
                await self._note(why)
            await asyncio.sleep(RETRY_S)

    async def from_archive(self) -> str:
        """Read the rest from the archive; return why that cannot be had."""
        archive, state = self.shared.archive, self.shared.replication.state
        assert archive is not None
        for cluster_id in dict.fromkeys((state.cluster_id, *reversed(state.lineage))):
            try:
                for name, stream in _STREAMS.items():
                    keys = [object_key(cluster_id, self.target.allocation_id, n) for n in (name, times_object(name))]
                    await self._from_archive(stream, ArchivedStream(archive, *keys))
            except NotArchived:
                continue
            except ArchiveError as error:
                return str(error)
            return ""
        return "the archive has no copy of it"

    async def _from_archive(self, stream: scheduler_pb2.LogStream, archived: ArchivedStream) -> None:
        if self.cut.is_asked and stream not in self.positions:
            begin, note = await archived.start(self.cut)
            self.positions[stream] = begin
            await self.put(stream=stream, offset=begin, start=True, note=note)
        async with aclosing(archived.read(self.positions.get(stream, 0), self.cut)) as pieces:
            async for piece in pieces:
                await self._put_piece(stream, piece)

    async def _put_piece(self, stream: scheduler_pb2.LogStream, piece: TimedPiece) -> None:
        lost = piece.offset - self.positions.get(stream, 0)
        note = f"{lost} bytes were not kept: the log is capped" if lost else ""
        times = [scheduler_pb2.LogTime(offset=time.offset, at_ms=time.at_ms) for time in piece.times]
        self.positions[stream] = piece.offset + len(piece.data)
        await self.put(stream=stream, offset=piece.offset, data=piece.data, times=times, note=note)

    async def _note(self, note: str) -> None:
        if note != self.noted:
            self.noted = note
            await self.put(note=note)

    async def _read_once(self, follow: bool) -> str:
        """Read until the agent ends the stream; return why it cannot be read further. Raises AioRpcError."""
        node = self.shared.replication.state.nodes.get(self.target.node_id)
        if node is None:
            return self._gone()
        request = worker_pb2.StreamLogsRequest(
            allocation_id=self.target.allocation_id,
            follow=follow,
            tail=self.cut.tail,
            since_ms=self.cut.since_ms,
            timestamps=self.cut.timestamps,
        )
        for stream, offset in self.positions.items():
            getattr(request, "from").add(allocation_id=self.target.allocation_id, stream=stream, offset=offset)
        waiting: asyncio.Future[Any] | None = None
        call = worker_pb2_grpc.WorkerServiceStub(self.shared.agents.to_agent(node, STREAMS)).StreamLogs(request)
        try:
            waiting = asyncio.ensure_future(call.read())
            while True:
                done, _ = await asyncio.wait([waiting], timeout=READ_TIMEOUT_S)
                if not done:
                    if why := self._gone():
                        return why
                    continue
                chunk = waiting.result()
                if chunk is grpc.aio.EOF:
                    return ""
                if chunk.data and self.cut.is_asked and chunk.stream not in self.positions:
                    await self._note(f"{self.where} has an agent of an earlier release, which sends the whole log")
                    await self.put(stream=chunk.stream, offset=chunk.offset, start=True)
                if chunk.data or chunk.start:
                    self.positions[chunk.stream] = chunk.offset + len(chunk.data)
                await self.chunks.put(chunk)
                waiting = asyncio.ensure_future(call.read())
        finally:
            call.cancel()
            if waiting is not None:
                cancel_and_ignore(waiting)

    def _gone(self) -> str:
        """Return why the node will not answer; empty: it may."""
        node = self.shared.replication.state.nodes.get(self.target.node_id)
        if node is None:
            return f"{self.where} is not in the cluster any more"
        return f"{self.where} is DEAD" if node.state is NodeState.DEAD else ""
