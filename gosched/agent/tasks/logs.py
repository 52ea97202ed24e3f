"""Reads what the supervisor writes: the two streams of a task, by offset, over rotations, while they grow.

What follows a gap begins with a whole line: the rest of one that has lost its beginning is left out with it.

Invariant: a byte is sent at most once and never silently left out; what is gone is said in a note.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from gosched.agent.beneath import NotAFile
from gosched.agent.tasks.log_files import cut_line, offset_of_tail, offset_since, read_block, stream_files
from gosched.agent.tasks.log_places import LogPlace
from gosched.agent.tasks.log_times import LogTime, times_of

_POLL_MIN_S = 0.02
_POLL_MAX_S = 0.2


class Stream(Enum):
    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCut:
    """Which part of a log a reader wants, and what it wants to know of it."""

    #: Only so many of the last lines that are there now, and what follows; None: all.
    tail: int | None = None
    #: Only lines that were begun then or later; 0: all.
    since_ms: int = 0
    #: Say when the bytes were read.
    timestamps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of a task's stream."""

    stream: Stream
    #: Of the first byte of `data`, from the start of the stream.
    offset: int
    data: bytes = b""
    #: Of the first byte, and of each later one from which on it was another.
    times: Sequence[LogTime] = ()
    #: Whether it is the first one of the stream.
    start: bool = False
    #: Whether the task has ended and all was read.
    end: bool = False
    #: What is missing before `data`, for people. Empty: nothing.
    note: str = ""


class LogMissing(Exception):
    """One line for people: why there is nothing (more) to read."""


async def read_logs(
    place: LogPlace, start: Mapping[Stream, int], *, follow: bool, cut: LogCut | None = None
) -> AsyncIterator[Piece]:
    """Yield what is there from the given offsets on, in the other streams what is wanted of them; with `follow`, until
    the task has ended and all is read. With a `cut` the first piece of each stream has no data, and says where it
    begins. Raises LogMissing."""
    cut = cut or LogCut()
    first = await asyncio.to_thread(_starts, place, start, cut)
    readers = [StreamReader(place.path, stream, first[stream], cut.timestamps) for stream in Stream]
    if cut != LogCut():
        for reader in readers:
            yield Piece(stream=reader.stream, offset=reader.offset, start=True)
    pause = _POLL_MIN_S
    while True:
        ended = place.has_ended()  # looked at first: what is read after it is complete
        pieces = [piece for piece in await asyncio.to_thread(_read_each, readers) if piece is not None]
        for piece in pieces:
            yield piece
        if pieces:
            pause = _POLL_MIN_S
        elif ended:
            if why := place.why_missing():
                raise LogMissing(why)
            for reader in readers:
                yield Piece(stream=reader.stream, offset=reader.offset, end=True)
            return
        elif not follow:
            return
        else:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _POLL_MAX_S)


def _starts(place: LogPlace, given: Mapping[Stream, int], cut: LogCut) -> dict[Stream, int]:
    """Return where each stream begins."""
    while True:
        logs = place.path()
        found = {stream: given[stream] if stream in given else _start(logs, stream, cut) for stream in Stream}
        if place.path() == logs:  # it was not moved meanwhile, which happens once
            return found


def _start(logs: Path, stream: Stream, cut: LogCut) -> int:
    tail = 0 if cut.tail is None else offset_of_tail(logs, stream.value, cut.tail)
    return max(tail, offset_since(logs, stream.value, cut.since_ms) if cut.since_ms else 0)


def _read_each(readers: list[StreamReader]) -> list[Piece | None]:
    return [reader.read() for reader in readers]


class StreamReader:
    def __init__(self, where: Callable[[], Path], stream: Stream, offset: int, timestamps: bool = False) -> None:
        self._where = where
        self._timestamps = timestamps
        self.stream = stream
        self.offset = max(0, offset)

    def read(self) -> Piece | None:
        """Return the next piece, or None while there is no more."""
        logs = self._where()
        piece = self._read(logs)
        if piece is None and (moved := self._where()) != logs:
            return self._read(moved)
        return piece

    def _read(self, logs: Path) -> Piece | None:
        for base, name in self._files(logs):
            try:
                data = read_block(logs, name, max(0, self.offset - base))
            except (FileNotFoundError, NotAFile):
                continue  # rotated away meanwhile, or never the supervisor's: the next file shows the gap
            if data:
                lost = max(0, base - self.offset)
                if lost:
                    cut = cut_line(data)
                    lost, data = lost + cut, data[cut:]
                start, self.offset = self.offset + lost, self.offset + lost + len(data)
                times = times_of(logs, name, start, self.offset) if self._timestamps else ()
                note = _note(self.stream, lost)
                return Piece(stream=self.stream, offset=start, data=data, times=times, note=note)
        return None

    def _files(self, logs: Path) -> list[tuple[int, str]]:
        """Return the files from the one that holds the offset, the oldest first."""
        files = stream_files(logs, self.stream.value)
        passed = sum(base <= self.offset for base, _ in files)
        return files[max(0, passed - 1) :]


def _note(stream: Stream, lost: int) -> str:
    return f"{lost} bytes of {stream.value} were not kept: the log is capped" if lost else ""
