"""The output of a pod's container, as it comes, in a thread of its own.

Invariant: each line is given out once, whatever breaks in between.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from gosched.integrations.pods.api import LogStream, PodApi
from gosched.integrations.pods.cursor import Cursor
from gosched.integrations.pods.errors import PodError
from gosched.integrations.pods.reading import CONTAINER

_PAUSE_S = 1.0
#: For what is under way when the container has ended.
DRAIN_S = 10.0


class Output:
    def __init__(self, api: PodApi, name: str, write: Callable[[bytes], None], wake: threading.Event) -> None:
        """`write` takes what the container has written; `wake` is set whenever the log ends or breaks."""
        self._api = api
        self._name = name
        self._write = write
        self._wake = wake
        self._cursor = Cursor()
        self._closed = threading.Event()
        self._stream: LogStream | None = None
        self._failure: Exception | None = None  # of `write`
        #: Whether there is a connection over which the log comes.
        self.is_open = False
        self._thread = threading.Thread(target=self._follow, name="output", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Give out the rest of a container's log that has ended. Raises PodError, where it may be asked for again, and
        what `write` has raised."""
        self._closed.set()
        self._thread.join(DRAIN_S)
        while self._thread.is_alive():
            if self._stream is not None:
                self._stream.close()
            self._thread.join(_PAUSE_S)
        self.check()
        self._read(follows=False)

    def check(self) -> None:
        """Raise what `write` has raised."""
        if self._failure is not None:
            raise self._failure

    def _follow(self) -> None:
        while not self._closed.is_set():
            try:
                self._read(follows=True)
            except PodError:  # how the API server is, is said by whoever looks at the pod
                pass
            except Exception as error:
                self._failure = error
                self._closed.set()
            self._wake.set()
            self._closed.wait(_PAUSE_S)

    def _read(self, *, follows: bool) -> None:
        stream = self._stream = self._api.log(self._name, CONTAINER, since=self._cursor.resume(), follows=follows)
        try:
            self.is_open = follows
            for data in stream.read():
                if new := self._cursor.take(data):
                    self._write(new)
            if rest := self._cursor.end():
                self._write(rest)
        finally:
            self.is_open, self._stream = False, None
            stream.free()
