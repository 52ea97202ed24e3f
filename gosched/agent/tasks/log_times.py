"""Reads when output was written: the indexes that the supervisor writes beside the files of a log.

Invariant: what a task with the agent's own rights may have put in the place of an index costs no more than wrong times.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path

from gosched.agent.beneath import open_file, opened
from gosched.agent.supervisor.log_times import ENTRY, index_name

_LATEST = (1 << 62) - 1  # of an index that is no index: what is larger cannot be sent


@dataclass(frozen=True, slots=True)
class LogTime:
    """When the output from an offset on was read from the task."""

    #: Since the start of the stream.
    offset: int
    #: By the node's clock, since the epoch.
    at_ms: int


def times_of(logs: Path, name: str, start: int, end: int) -> list[LogTime]:
    """Return the times of the bytes from `start` to `end` of a log's file: the first one's, and each later one that
    differs. Empty: they are not known."""
    with _index(logs, name) as index:
        first = max(0, bisect_right(index.positions, start, key=lambda i: index.entry(i).offset) - 1)
        found = (index.entry(i) for i in index.positions[first:])
        return list(islice(takewhile(lambda entry: entry.offset < end, found), end - start))


def first_since(logs: Path, name: str, since_ms: int) -> LogTime | None:
    """Return the first entry that is not older; None: there is none."""
    with _index(logs, name) as index:
        at = bisect_left(index.positions, since_ms, key=lambda i: index.entry(i).at_ms)
        return index.entry(at) if at < len(index.positions) else None


def begins_at_ms(logs: Path, name: str) -> int:
    """Return when the file's first byte was read; 0: that is not known."""
    with _index(logs, name) as index:
        return index.entry(0).at_ms if index.positions else 0


class _Index:
    """The entries of an open file, read one by one."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.positions = range(os.fstat(file).st_size // ENTRY.size if file >= 0 else 0)

    def entry(self, at: int) -> LogTime:
        data = os.pread(self._file, ENTRY.size, at * ENTRY.size)
        offset, at_ms = ENTRY.unpack(data) if len(data) == ENTRY.size else (_LATEST, _LATEST)
        return LogTime(min(offset, _LATEST), min(at_ms, _LATEST))


@contextmanager
def _index(logs: Path, name: str) -> Iterator[_Index]:
    """Open the index of a log's file; one that is not there is empty."""
    file = -1
    with suppress(OSError), opened(logs, os.O_PATH | os.O_DIRECTORY) as directory:
        file = open_file(directory, index_name(name))
    try:
        yield _Index(file)
    finally:
        if file >= 0:
            os.close(file)
