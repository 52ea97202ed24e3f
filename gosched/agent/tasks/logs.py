"""Reads what the supervisor writes: the two streams of a task, by offset, over rotations, while they grow.

Invariant: a byte is sent at most once and never silently left out; what is gone is said in a note.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from gosched.agent.beneath import NotAFile, open_file, opened
from gosched.agent.tasks.task import Task

CHUNK_BYTES = 64 * 1024

_POLL_MIN_S = 0.02
_POLL_MAX_S = 0.2


class Stream(Enum):
    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of a task's stream."""

    stream: Stream
    #: Of the first byte of `data`, from the start of the stream.
    offset: int
    data: bytes = b""
    #: Whether the task has ended and all was read.
    end: bool = False
    #: What is missing before `data`, for people. Empty: nothing.
    note: str = ""


async def read_logs(task: Task, start: Mapping[Stream, int], *, follow: bool) -> AsyncIterator[Piece]:
    """Yield what is there from the given offsets on; with `follow`, until the task has ended and all is read."""
    readers = [StreamReader(task.spool.logs, stream, start.get(stream, 0)) for stream in Stream]
    pause = _POLL_MIN_S
    while True:
        ended = task.ending is not None  # looked at first: what is read after it is complete
        pieces = [piece for piece in await asyncio.to_thread(_read_each, readers) if piece is not None]
        for piece in pieces:
            yield piece
        if pieces:
            pause = _POLL_MIN_S
        elif ended:
            for reader in readers:
                yield Piece(stream=reader.stream, offset=reader.offset, end=True)
            return
        elif not follow:
            return
        else:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _POLL_MAX_S)


def _read_each(readers: list[StreamReader]) -> list[Piece | None]:
    return [reader.read() for reader in readers]


class StreamReader:
    def __init__(self, logs: Path, stream: Stream, offset: int) -> None:
        self._logs = logs
        self.stream = stream
        self.offset = max(0, offset)

    def read(self) -> Piece | None:
        """Return the next piece, or None while there is no more."""
        for base, name in self._files():
            try:
                data = _read(self._logs, name, max(0, self.offset - base))
            except (FileNotFoundError, NotAFile):
                continue  # rotated away meanwhile, or never the supervisor's: the next file shows the gap
            if data:
                lost = max(0, base - self.offset)
                self.offset += lost
                piece = Piece(stream=self.stream, offset=self.offset, data=data, note=_note(self.stream, lost))
                self.offset += len(data)
                return piece
        return None

    def _files(self) -> list[tuple[int, str]]:
        """Return the files from the one that holds the offset, the oldest first."""
        try:
            names = sorted(n for n in os.listdir(self._logs) if n.startswith(f"{self.stream.value}-"))
        except FileNotFoundError:  # the task never had logs, or they were cleaned away
            return []
        files = [(int(name.partition("-")[2].removesuffix(".log")), name) for name in names]
        passed = sum(base <= self.offset for base, _ in files)
        return files[max(0, passed - 1) :]


def _read(logs: Path, name: str, offset: int) -> bytes:
    """Read a file of the supervisor's. A task with the agent's own rights may have put anything in its place."""
    with opened(logs, os.O_PATH | os.O_DIRECTORY) as directory:
        fd = open_file(directory, name)
    try:
        return os.pread(fd, CHUNK_BYTES, offset)
    finally:
        os.close(fd)


def _note(stream: Stream, lost: int) -> str:
    return f"{lost} bytes of {stream.value} were not kept: the log is capped" if lost else ""
