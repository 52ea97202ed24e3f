"""Syncs a file beside the thread that wrote it, so that a disk that takes its time does not silence a member.

Invariant: one sync at a time, and its error reaches the caller; after an error there is no other.
"""

from __future__ import annotations

import os
import threading
from queue import Empty, SimpleQueue


class SyncThread:
    """The thread is made with the first sync; it waits for the next one until the process ends."""

    def __init__(self) -> None:
        self._orders: SimpleQueue[int] = SimpleQueue()
        self._results: SimpleQueue[Exception | None] = SimpleQueue()
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None

    def begin(self, fd: int) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sync", daemon=True)
            self._thread.start()
        self._orders.put(fd)

    def ended(self, wait_s: float) -> bool:
        """Wait so long for the end. Raises what the sync raised, then and ever after."""
        try:
            self._check(self._results.get(timeout=wait_s) if wait_s > 0 else self._results.get_nowait())
        except Empty:
            self._check(self._failure)
            return False
        return True

    def wait(self) -> None:
        self._check(self._failure)
        self._check(self._results.get())

    def _check(self, failure: Exception | None) -> None:
        if failure is not None:
            self._failure = failure
            raise failure

    def _run(self) -> None:
        while True:
            fd = self._orders.get()
            try:
                os.fdatasync(fd)
            except Exception as error:  # it is raised where it is waited for
                self._results.put(error)
            else:
                self._results.put(None)
