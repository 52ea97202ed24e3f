"""Writes when the output of a task was read: an index of (offset, time) beside each file of a log.

An entry says at what time the byte at its offset was read from the task. What was read within RESOLUTION_MS after it
has no entry of its own. A file of the log whose index is full is ended: an index takes at most a quarter of a log.

Invariant: offsets and times of an index ascend; a clock that is set back stands still here until it has caught up.
"""

from __future__ import annotations

import os
import struct

from gosched.agent.supervisor.records import now_ms

ENTRY = struct.Struct(">QQ")  # offset since the start of the stream, ms since 1970
PREFIX = "times-"
RESOLUTION_MS = 10
SHARE = 4  # a log's file is at least so many times as large as its index may become


def index_name(log_name: str) -> str:
    """Return `times-stdout-00000000000000000000` of `stdout-00000000000000000000.log`."""
    return PREFIX + log_name.removesuffix(".log")


class LogTimes:
    """The index of one stream, in the file that belongs to the stream's newest file."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: of the log's file."""
        self.file = -1
        self.max_entries = max(1, max_bytes // SHARE // ENTRY.size)
        self.left = 0
        self.last_ms = 0

    @property
    def is_full(self) -> bool:
        return self.left <= 0

    def begin(self, path: str) -> None:
        """Begin the index of another file of the log. Raises OSError."""
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        if self.file >= 0:
            os.close(self.file)
        self.file = file
        self.left = self.max_entries

    def note(self, offset: int) -> None:
        """Note that what begins at `offset` was read now. Raises OSError."""
        at_ms = max(self.last_ms, now_ms())
        if self.left < self.max_entries and at_ms - self.last_ms < RESOLUTION_MS:
            return
        if os.write(self.file, ENTRY.pack(offset, at_ms)) < ENTRY.size:
            raise OSError("the disk is full")
        self.left -= 1
        self.last_ms = at_ms
