"""One stream of a log in the archive, from where a reader wants it, with its times.

Invariant: no more of it than a piece is in memory, and of a tail one number for each line.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from gosched.archive.members import ArchivedPiece
from gosched.archive.store import NotArchived

_ENTRY = struct.Struct(">QQ")  # of the agents' indexes: an offset, and when the byte there was read

NO_TIMES = "no times of this log were kept: all of it is shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCut:
    """Which part of a log a reader wants, and what it wants to know of it."""

    #: Only so many of each stream's last lines, and what follows; None: all.
    tail: int | None = None
    #: Only lines that were begun then or later; 0: all.
    since_ms: int = 0
    #: Say when the bytes were read from the task.
    timestamps: bool = False

    @property
    def is_asked(self) -> bool:
        return self != LogCut()


class ReadableArchive(Protocol):
    """The archive, as a master uses it."""

    def read(self, key: str) -> AsyncGenerator[ArchivedPiece, None]:
        """Yield a stream from its start. Raises ArchiveError, NotArchived."""


@dataclass(frozen=True, slots=True)
class ArchivedTime:
    """When the output from an offset on was read from the task."""

    offset: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedPiece:
    """Some bytes of a stream, with the time of the first, and of each later one that differs."""

    offset: int
    data: bytes
    times: Sequence[ArchivedTime] = ()


class ArchivedStream:
    """A stream of one allocation; `key` and `times_key` name its objects."""

    def __init__(self, archive: ReadableArchive, key: str, times_key: str) -> None:
        self._archive = archive
        self._key = key
        self._times_key = times_key

    async def start(self, cut: LogCut) -> tuple[int, str]:
        """Return where what is wanted begins, and a note for people. Raises ArchiveError, NotArchived."""
        begin, note = 0, ""
        if cut.since_ms:
            begin, note = await self._since(cut.since_ms)
        if cut.tail is not None:
            begin = max(begin, await self._tail(cut.tail))
        return begin, note

    async def read(self, begin: int, cut: LogCut) -> AsyncGenerator[TimedPiece, None]:
        """Yield the stream from an offset on; behind a gap, from the first whole line on. Raises ArchiveError,
        NotArchived."""
        async with aclosing(self._entries()) as entries, aclosing(self._archive.read(self._key)) as pieces:
            times, expected = _Times(entries), begin
            async for piece in pieces:
                left_out = piece.data.find(b"\n", 0, len(piece.data) - 1) + 1 if piece.offset > expected else 0
                expected = max(expected, piece.offset + len(piece.data))
                if data := piece.data[max(left_out, begin - piece.offset) :]:
                    offset = piece.offset + len(piece.data) - len(data)
                    found = await times.of(offset, offset + len(data)) if cut.timestamps else ()
                    yield TimedPiece(offset=offset, data=data, times=found)

    async def _since(self, since_ms: int) -> tuple[int, str]:
        first = True
        async with aclosing(self._entries()) as entries:
            async for entry in entries:
                if entry.at_ms >= since_ms:
                    return (0 if first else await self._line_start(entry.offset)), ""
                first = False
        return (0, NO_TIMES) if first else (await self._end(), "")

    async def _line_start(self, offset: int) -> int:
        """Return the start of the first line that begins there or behind."""
        begun = False  # whether the byte before was kept
        async with aclosing(self._archive.read(self._key)) as pieces:
            async for piece in pieces:
                if piece.offset + len(piece.data) < offset:
                    continue
                if piece.offset >= offset and not begun:
                    break
                begun = True
                if (at := piece.data.find(b"\n", max(0, offset - 1 - piece.offset))) >= 0:
                    return piece.offset + at + 1
        return offset

    async def _tail(self, count: int) -> int:
        starts: deque[int] = deque(maxlen=max(1, count))
        lines, begins = 0, True
        async with aclosing(self._archive.read(self._key)) as pieces:
            async for piece in pieces:
                at = 0
                while at >= 0 and at < len(piece.data):
                    if begins:
                        starts.append(piece.offset + at)
                        lines += 1
                    end = piece.data.find(b"\n", at)
                    begins, at = end >= 0, end + 1 if end >= 0 else -1
        if count == 0:
            return await self._end()
        return starts[0] if lines > count else 0

    async def _end(self) -> int:
        end = 0
        async with aclosing(self._archive.read(self._key)) as pieces:
            async for piece in pieces:
                end = piece.offset + len(piece.data)
        return end

    async def _entries(self) -> AsyncGenerator[ArchivedTime, None]:
        """Yield the times of the stream, in their order; none where they are not in the archive. Raises
        ArchiveError."""
        rest, expected = b"", -1
        try:
            async with aclosing(self._archive.read(self._times_key)) as pieces:
                async for piece in pieces:
                    data = (rest if piece.offset == expected else b"") + piece.data  # an index may end in an entry
                    whole = len(data) - len(data) % _ENTRY.size
                    for entry in _ENTRY.iter_unpack(data[:whole]):
                        yield ArchivedTime(*entry)
                    rest, expected = data[whole:], piece.offset + len(piece.data)
        except NotArchived:
            return


class _Times:
    """Times that are asked for in ascending order of offsets."""

    def __init__(self, entries: AsyncGenerator[ArchivedTime, None]) -> None:
        self._entries = entries
        self._now: ArchivedTime | None = None
        self._next: ArchivedTime | None = None
        self._begun = False

    async def of(self, start: int, end: int) -> Sequence[ArchivedTime]:
        if not self._begun:
            self._begun = True
            await self._step()
        while self._next is not None and self._next.offset <= start:
            await self._step()
        found = [self._now] if self._now is not None else []
        while self._next is not None and self._next.offset < end:
            found.append(self._next)
            await self._step()
        return found

    async def _step(self) -> None:
        self._now = self._next
        self._next = await anext(self._entries, None)
