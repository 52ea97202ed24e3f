"""What Ctrl-C and the like do to a job that is followed: the first one cancels it, the second one leaves it alone.

Invariant: nothing is called on the cluster from within a signal handler, whose thread may hold a lock of the library.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gosched.cli.output import say
from gosched.client import GoSchedClient, GoSchedError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C; kill, timeout(1); the terminal is gone


class Interruption:
    """A job that is cancelled by a signal. `code`: what the program returns then; None: there was none."""

    def __init__(self, client: GoSchedClient, job: str) -> None:
        self.code: int | None = None
        self._client = client
        self._job = job
        self._cancelling: threading.Thread | None = None

    def take(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal. Raises KeyboardInterrupt at the second one."""
        if self._cancelling is not None:
            raise KeyboardInterrupt
        self.code = 128 + number
        hint = "; its tasks have their stop_grace to end, Ctrl-C again leaves at once"
        self._cancelling = threading.Thread(target=self.cancel, args=("interrupted", hint), daemon=True)
        self._cancelling.start()

    def cancel(self, why: str, hint: str = "") -> None:
        """Cancel the job, and say what came of it on stderr."""
        try:
            self._client.cancel(self._job, reason=why)
        except GoSchedError as error:
            say(f"{why}, but {self._job} could not be cancelled: {error}; it goes on")
        else:
            say(f"{why}: {self._job} is cancelled{hint}")

    def left(self) -> str:
        """Return a line for a program that ends before the job does."""
        state = "is being cancelled" if self._cancelling is not None else "goes on"
        end = "" if self._cancelling is not None else f", goschedctl job cancel {self._job} ends it"
        return f"{self._job} {state}; goschedctl logs -f {self._job} follows it{end}"


@contextmanager
def cancelling(client: GoSchedClient, job: str) -> Iterator[Interruption]:
    """Let signals cancel the job while the body follows it to its end. Outside of the main thread, where signals do not
    come, nothing is handled."""
    interruption = Interruption(client, job)
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = {number: signal.signal(number, interruption.take) for number in _SIGNALS}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
