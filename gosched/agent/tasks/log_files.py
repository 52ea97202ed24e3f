"""The files of one stream on the disk: found, read, and where in them the last lines or those since a time begin.

Invariant: no more than a block of a file is in memory, however long the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gosched.agent.beneath import NotAFile, open_file, opened
from gosched.agent.tasks.log_times import begins_at_ms, first_since

CHUNK_BYTES = 64 * 1024


def stream_files(logs: Path, stream: str) -> list[tuple[int, str]]:
    """Return the files of a stream with the offset of their first byte, the oldest first."""
    try:
        names = sorted(name for name in os.listdir(logs) if name.startswith(f"{stream}-"))
    except FileNotFoundError:  # the task never had logs, or they were cleaned away
        return []
    return [(int(name.partition("-")[2].removesuffix(".log")), name) for name in names]


def read_block(logs: Path, name: str, at: int) -> bytes:
    """Read a block of a file of the supervisor's. A task with the agent's own rights may have put anything in its
    place. Raises FileNotFoundError, NotAFile."""
    with opened(logs, os.O_PATH | os.O_DIRECTORY) as directory:
        fd = open_file(directory, name)
    try:
        return os.pread(fd, CHUNK_BYTES, at)
    finally:
        os.close(fd)


def offset_of_tail(logs: Path, stream: str, lines: int) -> int:
    """Return where the last lines begin; a line that has no end yet is one. 0: there are no more than these, or the
    others were not kept."""
    left = lines + 1  # ends of lines to pass: the one before the first wanted line, too
    newest = True
    for start, block in _blocks_backwards(logs, stream):
        end = len(block)
        if newest and not block.endswith(b"\n"):
            left -= 1
        newest = False
        while left > 0 and (at := block.rfind(b"\n", 0, end)) >= 0:
            left -= 1
            end = at
            if left == 0:
                return start + at + 1
        if left <= 0:
            return start + end
    return 0


def offset_since(logs: Path, stream: str, since_ms: int) -> int:
    """Return where the first line begins of which no byte is older. 0: all of it, as far as is known."""
    files = stream_files(logs, stream)
    for number, (base, name) in reversed(list(enumerate(files))):
        begun_ms = begins_at_ms(logs, name)
        if begun_ms >= since_ms or (not begun_ms and _written_ms(logs, name) >= since_ms):
            continue  # the whole file is new enough, or may be
        found = first_since(logs, name, since_ms)
        if found is not None:
            return _line_start(logs, base, name, found.offset)
        if number + 1 == len(files):
            return _end(logs, base, name)
        return _first_line(logs, (base, name), files[number + 1])
    return 0


def cut_line(data: bytes) -> int:
    """Return how many bytes are the rest of a line that has lost its beginning; 0 where no more than that is there."""
    return data.find(b"\n", 0, len(data) - 1) + 1


def _blocks_backwards(logs: Path, stream: str) -> Iterator[tuple[int, bytes]]:
    """Yield the blocks of a stream that have any byte, the last one first, with the offset of their first byte."""
    for base, name in reversed(stream_files(logs, stream)):
        with suppress(FileNotFoundError, NotAFile):  # rotated away meanwhile, as are those before it
            size = _size(logs, name)
            for at in reversed(range(0, size, CHUNK_BYTES)):
                if block := read_block(logs, name, at)[: size - at]:
                    yield base + at, block


def _line_start(logs: Path, base: int, name: str, offset: int) -> int:
    """Return the start of the first line that begins there or behind: the one that is cut began too early. A line that
    is longer than a block is cut."""
    with suppress(FileNotFoundError, NotAFile):
        if offset > base:
            block = read_block(logs, name, offset - base - 1)
            at = block.find(b"\n")
            return offset + at if at >= 0 else offset
    return offset


def _first_line(logs: Path, before: tuple[int, str], file: tuple[int, str]) -> int:
    """Return where the first line begins that begins in a file: the file before may end within one."""
    base, name = file
    last = _end(logs, *before) - 1
    with suppress(FileNotFoundError, NotAFile):
        if last < before[0] or last + 1 < base or read_block(logs, before[1], last - before[0]) != b"\n":
            return base + cut_line(read_block(logs, name, 0))
    return base


def _end(logs: Path, base: int, name: str) -> int:
    with suppress(FileNotFoundError, NotAFile):
        return base + _size(logs, name)
    return base


def _size(logs: Path, name: str) -> int:
    with opened(logs, os.O_PATH | os.O_DIRECTORY) as directory:
        fd = open_file(directory, name)
    try:
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def _written_ms(logs: Path, name: str) -> int:
    """Return when a file was written to last; 0: it has gone."""
    with suppress(OSError):
        return os.lstat(logs / name).st_mtime_ns // 1_000_000
    return 0
