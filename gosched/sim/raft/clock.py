"""Virtual time: a queue of what happens next, and the library's clock, randomness and sockets taken from it.

Invariant: nothing that runs inside `virtual` can see the real time, the network or an unseeded random number.
"""

from __future__ import annotations

import contextlib
import gc
import heapq
import logging
from collections.abc import Callable, Iterator, MutableMapping
from random import Random
from typing import Any

import pysyncobj.syncobj as library
import structlog

from gosched.replication import storage
from gosched.replication.disk import journal, stamped
from gosched.replication.members import member_changes, membership
from gosched.replication.raft import elections
from gosched.replication.snapshots import snapshots


class Clock:
    """Global seconds. `local` is what the member that runs now reads on its own clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.local: Callable[[], float] = lambda: self.now
        self.receive: Callable[[], None] = lambda: None
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, time: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (max(time, self.now), self._count, action))

    def after(self, delay: float, action: Callable[[], None]) -> None:
        self.at(self.now + delay, action)

    def run_until(self, time: float, done: Callable[[], bool] = lambda: False) -> None:
        while self._queue and self._queue[0][0] <= time and not done():
            self.now, _, action = heapq.heappop(self._queue)
            action()


class _NoPoller:
    """A poller that, where the library waits for sockets, lets the member that runs take what the simulated links have
    for it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def subscribe(self, descriptor: int, callback: Any, mask: int) -> None:
        raise AssertionError("a simulated member has no sockets")

    def poll(self, timeout: float) -> None:
        self._clock.receive()


class _Told(logging.Handler):
    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        self._note(record.getMessage())


@contextlib.contextmanager
def virtual(clock: Clock, rng: Random, note: Callable[[str], None], *, chunk_bytes: int) -> Iterator[None]:
    """Run the block in virtual time. `note` gets what the code under test logs. Small chunks make snapshots travel in
    many parts."""

    def logged(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Any:
        note(" ".join(f"{value}" for value in event.values()))
        raise structlog.DropEvent

    silent = structlog.wrap_logger(structlog.PrintLogger(), processors=[logged])
    patches: list[tuple[Any, str, Any]] = [
        (library, "monotonicTime", lambda: clock.local()),
        (library, "random", rng),
        (library, "createPoller", lambda _kind: _NoPoller(clock)),
        (elections, "random", rng),
        (snapshots, "CHUNK_BYTES", chunk_bytes),
        (snapshots, "MAX_BACKLOG_BYTES", 4 * chunk_bytes),
        (snapshots, "log", silent),
        *((module, "log", silent) for module in (journal, member_changes, membership, stamped, storage)),
    ]
    library_log, told = logging.getLogger("pysyncobj.syncobj"), _Told(note)
    library_log.addHandler(told)
    propagated, library_log.propagate = library_log.propagate, False
    saved = [(module, name, getattr(module, name)) for module, name, _ in patches]
    for module, name, value in patches:
        setattr(module, name, value)
    try:
        yield
    finally:
        library_log.removeHandler(told)
        library_log.propagate = propagated
        for module, name, value in saved:
            setattr(module, name, value)
        gc.unfreeze()  # loading a snapshot freezes; a process that runs many seeds must get that memory back
