"""A stream of a log in the archive: the last lines, those since a time, and when each was written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from gosched.agent.supervisor.log_times import ENTRY
from gosched.archive.members import ArchivedPiece
from gosched.archive.store import NotArchived
from gosched.master.jobs.archived_log import NO_TIMES, ArchivedStream, ArchivedTime, LogCut, TimedPiece


class Archive:
    """Objects in pieces of some size; each object is a list of (offset, bytes), one for each file."""

    def __init__(self, size: int, **objects: list[tuple[int, bytes]]) -> None:
        self.size = size
        self.objects = objects

    async def read(self, key: str) -> AsyncGenerator[ArchivedPiece, None]:
        if key not in self.objects:
            raise NotArchived(key)
        for base, data in self.objects[key]:
            for at in range(0, len(data), self.size):
                yield ArchivedPiece(offset=base + at, data=data[at : at + self.size])


def read(archive: Archive, cut: LogCut) -> tuple[str, list[TimedPiece]]:
    async def whole() -> tuple[str, list[TimedPiece]]:
        stream = ArchivedStream(archive, "log", "times")
        begin, note = await stream.start(cut)
        return note, [piece async for piece in stream.read(begin, cut)]

    return asyncio.run(whole())


def text(pieces: list[TimedPiece]) -> bytes:
    return b"".join(piece.data for piece in pieces)


@pytest.mark.parametrize("whole", [b"", b"a", b"a\n", b"a\nb", b"a\nb\n", b"\n\n\n", b"a\n\nb\n\n", b"ab\ncd\nef\n"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 100])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_the_last_lines_do_not_depend_on_how_a_log_is_cut(whole: bytes, count: int, size: int) -> None:
    half = len(whole) // 2
    archive = Archive(size, log=[(0, whole[:half]), (half, whole[half:])])
    expected = b"".join(whole.splitlines(keepends=True)[-count:]) if count else b""
    _, pieces = read(archive, LogCut(tail=count))
    assert text(pieces) == expected


def entries(*pairs: tuple[int, int]) -> bytes:
    return b"".join(ENTRY.pack(offset, at_ms) for offset, at_ms in pairs)


@pytest.mark.parametrize("size", [1, 7, 16, 100])
def test_lines_since_a_time_and_their_times(size: int) -> None:
    log = [(0, b"two\nbegun"), (9, b" before\nafter\n")]
    times = [(0, entries((0, 2000), (4, 3000)) + b"torn"), (9, entries((9, 4000), (17, 5000)))]
    archive = Archive(size, log=log, times=times)
    whole = b"two\nbegun before\nafter\n"
    for since_ms, expected in (
        (1, whole),
        (2000, whole),
        (3000, b"begun before\nafter\n"),
        (3001, b"after\n"),
        (4000, b"after\n"),
        (5001, b""),
    ):
        note, pieces = read(archive, LogCut(since_ms=since_ms))
        assert (text(pieces), note) == (expected, ""), since_ms
    assert text(read(archive, LogCut(since_ms=3000, tail=1))[1]) == b"after\n"
    _, pieces = read(archive, LogCut(timestamps=True))
    found = {time for piece in pieces for time in piece.times}
    assert found == {ArchivedTime(*pair) for pair in ((0, 2000), (4, 3000), (9, 4000), (17, 5000))}
    for piece in pieces:
        assert piece.times[0].offset <= piece.offset
        assert all(piece.offset < time.offset < piece.offset + len(piece.data) for time in piece.times[1:])


def test_what_follows_a_gap_begins_with_a_whole_line() -> None:
    archive = Archive(100, log=[(10, b"cut\ntwo\n"), (50, b"cut as well\nthree\n"), (68, b"four\n")])
    pieces = read(archive, LogCut())[1]
    assert [(piece.offset, piece.data) for piece in pieces] == [(14, b"two\n"), (62, b"three\n"), (68, b"four\n")]
    assert text(read(Archive(100, log=[(10, b"one long line\n")]), LogCut())[1]) == b"one long line\n"


def test_a_log_without_times_is_shown_whole_and_it_is_said() -> None:
    archive = Archive(100, log=[(0, b"one\ntwo\n")])
    assert read(archive, LogCut(since_ms=5)) == (NO_TIMES, [TimedPiece(offset=0, data=b"one\ntwo\n")])
    assert not read(archive, LogCut(timestamps=True))[1][0].times
