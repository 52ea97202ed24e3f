"""What a daemon writes to stderr, kept in memory and written by a thread: a reader that stalls holds nothing up.

Beyond a bound lines are dropped and counted, and the count is written once the rest has gone out. Invariant: `write`
never waits for the descriptor.
"""

from __future__ import annotations

import atexit
import io
import os
import threading
from collections import deque
from collections.abc import Callable

MAX_BYTES = 1024 * 1024
LAST_WORDS_S = 2.0  # at the end of the process


class BufferedStderr(io.TextIOBase):
    """`dropped` counts lines; `told` makes the line that says how many."""

    encoding = "utf-8"

    def __init__(self, fd: int, told: Callable[[int], str]) -> None:
        self._fd = fd
        self._told = told
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._untold = 0  # of the dropped
        self.dropped = 0
        threading.Thread(target=self._drain, name="stderr", daemon=True).start()

    def write(self, text: str) -> int:
        data = text.encode("utf-8", "replace")
        with self._changed:
            if self._bytes + len(data) > MAX_BYTES:
                lines = max(1, data.count(b"\n"))
                self.dropped += lines
                self._untold += lines
            else:
                self._waiting.append(data)
                self._bytes += len(data)
                if len(self._waiting) == 1:  # else it is told already
                    self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Nothing: a log line is followed by a flush, which must not wait either."""

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def writable(self) -> bool:
        return True

    def last_words(self, timeout_s: float = LAST_WORDS_S) -> None:
        """Waits so long until all is written."""
        with self._changed:
            self._changed.wait_for(lambda: self._bytes == 0, timeout_s)

    def _drain(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._untold)
                data = b"".join(self._waiting)
                self._waiting.clear()
                if self._untold:
                    data += f"{self._told(self._untold)}\n".encode()
                    self._untold = 0
            self._write(data)
            with self._changed:
                self._bytes = sum(map(len, self._waiting))
                self._changed.notify_all()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:  # its reader is gone: as nobody reads, nothing is lost
            return


_of_process: BufferedStderr | None = None


def open_stderr(fd: int, told: Callable[[int], str]) -> BufferedStderr:
    """Return the one of this process, on a descriptor that stays its own; called once, when its log begins."""
    global _of_process
    _of_process = BufferedStderr(fd, told)
    atexit.register(_of_process.last_words)
    return _of_process


def dropped_lines() -> int:
    """Return how many lines this process has dropped."""
    return _of_process.dropped if _of_process is not None else 0
