"""What a stream of log chunks becomes over HTTP: text or NDJSON.

Invariant: no more is kept back than the unfinished line of each stream.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Protocol

from gosched.api.json.values import time_json
from gosched.api.log_lines import LogLine, LogLines, short_name, task_label
from gosched.wire.v1 import scheduler_pb2

Chunk = scheduler_pb2.LogChunk
STREAMS = {scheduler_pb2.LOG_STREAM_STDOUT: "stdout", scheduler_pb2.LOG_STREAM_STDERR: "stderr"}


class Writer(Protocol):
    """A form of the answer."""

    def add(self, chunk: Chunk) -> bytes: ...

    def finish(self) -> bytes: ...


class PlainText:
    """The bytes as they come, of one task."""

    def add(self, chunk: Chunk) -> bytes:
        return bytes(chunk.data)

    def finish(self) -> bytes:
        return b""


class LineText:
    """Whole lines, after the name of their task where there are several, and after their time where it is wanted."""

    def __init__(self, *, named: bool, timed: bool, one_task: bool = False) -> None:
        """`one_task`: a job of an array has one, which goes without saying."""
        self._named = named
        self._timed = timed
        self._one_task = one_task
        self._lines = LogLines[tuple[str, int, str]]()

    def add(self, chunk: Chunk) -> bytes:
        prefix = f"{task_label(chunk.job_name, chunk.task_id, one_task=self._one_task)} | " if self._named else ""
        place = (chunk.allocation_id, chunk.stream, prefix)
        lines = self._lines.add(place, chunk.data, chunk.offset, chunk.times)
        return b"".join([self._line(prefix, line) for line in lines])

    def finish(self) -> bytes:
        return b"".join([self._line(place[2], line) for place, line in self._lines.finish()])

    def _line(self, prefix: str, line: LogLine) -> bytes:
        time = f"{time_json(line.at_ms) or '-'} " if self._timed else ""
        return f"{prefix}{time}".encode() + line.data + b"\n"


class NdJson:
    """One object for each chunk: task, allocation, stream, offset, and its bytes as text; or a note."""

    def add(self, chunk: Chunk) -> bytes:
        found: dict[str, object] = {"task": short_name(chunk.task_id), "allocation": chunk.allocation_id}
        if chunk.job_name:
            found["job"] = chunk.job_name
        if chunk.data:
            found |= {"stream": STREAMS.get(chunk.stream, ""), "offset": chunk.offset, **_data(chunk.data)}
        if chunk.times:
            found["times"] = [{"offset": time.offset, "at": time_json(time.at_ms)} for time in chunk.times]
        if chunk.note:
            found |= {"note": chunk.note, "missing": chunk.missing}
        return json.dumps(found).encode() + b"\n" if chunk.data or chunk.note else b""

    def finish(self) -> bytes:
        return b""


def _data(data: bytes) -> dict[str, str]:
    """Return bytes as JSON: as text, or in Base64 where they are no UTF-8."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
