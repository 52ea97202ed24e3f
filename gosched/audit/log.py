"""The audit log of a running master: records are taken at once and written by a thread.

Calls never wait for it. A record is on the disk `GATHER_S` after its call, plus one sync; where the disk takes none,
records wait, and beyond `MAX_WAITING` of them the newest are lost and counted.

Invariant: the next record that is written after a loss says how many were lost.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from gosched.audit.chain import Head
from gosched.audit.record import AuditRecord, How, Outcome
from gosched.audit.repeats import BULK_S, Bulk, Repeats

GATHER_S = 0.25  # so that a disk that the replicated log is on, too, has few syncs more
RETRY_S = 1.0
MAX_WAITING = 10_000
MAX_BATCH = 100
CLOSE_S = 5.0
STARTED = "AuditLog/Start"


class Target(Protocol):
    """Where lines go. `append` writes all or none, and raises OSError."""

    head: Head

    @property
    def torn(self) -> str: ...

    def open(self) -> None: ...

    def append(self, records: Sequence[AuditRecord]) -> None: ...

    def close(self) -> None: ...


class AuditLog:
    """`put` may be called by any thread. `failed` is told once why records cannot be written, and again after it went
    well; `lost` how many were lost: both by the log's thread, or by the caller of `put`."""

    def __init__(
        self,
        target: Target,
        master: str,
        *,
        failed: Callable[[str], None] = lambda why: None,
        lost: Callable[[int], None] = lambda count: None,
        batch: int = MAX_BATCH,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self._target = target
        self._master = master
        self._failed = failed
        self._lost = lost
        self._batch = batch
        self._max_waiting = max_waiting
        self._waiting: deque[AuditRecord] = deque()
        self._lost_since = 0  # the last record that was written
        self._repeats, self._bulk = Repeats(), Bulk()
        self._wake = threading.Condition()
        self._ends = threading.Event()
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Open the target, and note the start. Raises OSError."""
        self._target.open()
        note = "the log goes on here" if self._target.head.seq else "the log begins here"
        if self._target.torn:
            note = "a line was torn by a crash, and is kept here"
        now_ms = time.time_ns() // 1_000_000
        self.put(
            AuditRecord(
                time_ms=now_ms,
                master=self._master,
                user=self._master,
                authenticated=How.MASTER,
                action=STARTED,
                reason=note,
                outcome=Outcome.ALLOWED,
                torn=self._target.torn,
            )
        )
        self._thread.start()

    def put(self, record: AuditRecord) -> None:
        """Take a record; it is written soon."""
        with self._wake:
            now_s = time.monotonic()
            if record.authenticated is How.MASTER:
                taken = [record]
            elif record.outcome is not Outcome.ALLOWED or record.unchanged:
                kept = self._repeats.take(record, now_s)
                taken = [kept] if kept is not None else []
            else:
                taken = self._bulk.take(record, now_s)
            for one in taken:
                self._add(one)
            if not taken:
                self._wake.notify()

    def close(self) -> None:
        """Write what waits, for CLOSE_S at most, and close the target."""
        with self._wake:
            self._ends.set()
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def _add(self, record: AuditRecord) -> None:
        if len(self._waiting) >= self._max_waiting:
            self._lost_since += 1
            self._lost(1)
            return
        self._waiting.append(record)
        self._wake.notify()

    def _run(self) -> None:
        while self._wait():
            ok = self._write()
            if self._ends.is_set() and not ok:
                with self._wake:
                    self._give_up()
                break
            # Together with what comes in this moment. No record wakes the thread meanwhile: that costs its caller more
            # than to hand it over.
            self._ends.wait(GATHER_S if ok else RETRY_S)
        self._target.close()

    def _wait(self) -> bool:
        """Wait until there is something to write, or the end of it; return whether there is."""
        with self._wake:
            while True:
                now_s, is_last = time.monotonic(), self._ends.is_set()
                for record in [
                    *self._bulk.due(now_s, all_of_them=is_last),
                    *self._repeats.due(now_s, all_of_them=is_last),
                ]:
                    self._add(record)
                if self._waiting:
                    return True
                if self._ends.is_set():
                    return False
                self._wake.wait(BULK_S if self._repeats.are_open or self._bulk.are_open else None)

    def _write(self) -> bool:
        """Write the records that wait now, and return whether that went well."""
        left = len(self._waiting)
        while left:
            with self._wake:
                records = [self._waiting[i] for i in range(min(self._batch, left))]
                lost = self._lost_since
            first = replace(records[0], lost=lost) if lost else records[0]
            try:
                self._target.append([first, *records[1:]])
            except Exception as error:  # whatever it is: records wait, and it is tried again
                if not self._is_failing:
                    self._is_failing = True
                    self._failed((error.strerror if isinstance(error, OSError) else "") or repr(error))
                return False
            self._is_failing = False
            with self._wake:
                self._lost_since -= lost
                for _ in records:
                    self._waiting.popleft()
            left -= len(records)
        return True

    def _give_up(self) -> None:
        """Count what could not be written until the end."""
        if self._waiting:
            self._lost(len(self._waiting))
            self._failed(f"{len(self._waiting)} records are lost at the end")
            self._waiting.clear()
