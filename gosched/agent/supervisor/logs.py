"""Writes the two streams of a task into files that are capped and rotated, each with an index of its times.

Invariant: a task is never held up for longer than a write takes, and a gap is seen as one.
"""

from __future__ import annotations

import os
import time

from gosched.agent.supervisor.log_times import LogTimes, index_name
from gosched.agent.supervisor.records import RETRY_S

CHUNK = 65536
DRAIN_BYTES = 1 << 20  # at most so much is read once the task is gone: only a stranger can still write to the pipe


def open_logs(max_bytes: int, keep: int) -> tuple[list[Log], list[int]]:
    """Return the logs of stdout and stderr, and the descriptors for the task to write to."""
    logs: list[Log] = []
    writers: list[int] = []
    for name in ("stdout", "stderr"):
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        logs.append(Log(name, read_end, max_bytes, keep))
        writers.append(write_end)
    return logs, writers


class Log:
    """One stream of the task, in files named by the offset of their first byte. The newest `keep` files stay.

    Where a disk is full, bytes are dropped and the next file begins behind them: a reader sees the gap.
    """

    def __init__(self, name: str, fd: int, max_bytes: int, keep: int) -> None:
        self.name = name
        self.fd = fd
        self.max_bytes = max_bytes
        self.keep = keep
        self.offset = 0
        self.file = -1
        self.left_bytes = 0
        self.names: list[str] = []
        self.retry_at = 0.0
        self.times = LogTimes(max_bytes)

    def pump(self) -> bool:
        """Write at most one chunk of what is there; return False at the end of the stream."""
        try:
            data = os.read(self.fd, CHUNK)
        except BlockingIOError:
            return True
        self.write(data)
        return bool(data)

    def drain(self) -> None:
        for _ in range(DRAIN_BYTES // CHUNK):
            before = self.offset
            self.pump()
            if self.offset == before:
                return

    def close(self) -> None:
        """Close all descriptors of it; the task has ended."""
        for fd in (self.fd, self.file, self.times.file):
            if fd >= 0:
                os.close(fd)

    def write(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data) and time.monotonic() >= self.retry_at:
                if self.left_bytes <= 0 or self.times.is_full:
                    self.rotate(self.offset + written)
                self.times.note(self.offset + written)
                count = os.write(self.file, data[written : written + self.left_bytes])
                self.left_bytes -= count
                written += count
        except OSError:
            self.left_bytes = 0
            self.retry_at = time.monotonic() + RETRY_S
        self.offset += len(data)
        if written < len(data):
            self.left_bytes = 0  # what comes next begins a file of its own

    def rotate(self, base: int) -> None:
        name = f"{self.name}-{base:020d}.log"
        self.times.begin(f"logs/{index_name(name)}")
        file = os.open(f"logs/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        if self.file >= 0:
            os.close(self.file)
        self.file = file
        self.left_bytes = self.max_bytes
        if name not in self.names:
            self.names.append(name)
        while len(self.names) > self.keep:
            oldest = self.names.pop(0)
            os.unlink(f"logs/{oldest}")
            os.unlink(f"logs/{index_name(oldest)}")
