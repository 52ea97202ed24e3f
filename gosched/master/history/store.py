"""The history of one master: what was derived is written in batches by a thread of its own.

The loop of the front hands over what each command made, and never waits for a disk. Where writing fails (a full disk)
the history has a gap from there on, which is fetched from another master when it can be written again.

Invariant: all methods are called on the loop; only the database is used by threads.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import structlog

from gosched.master.base.cancel import cancel_all
from gosched.master.base.errors import unavailable
from gosched.master.history.database import Bounds, Database, opened, set_aside
from gosched.master.history.derive import Derived
from gosched.master.history.rows import Row, Table, rows_of
from gosched.master.history.span import Span
from gosched.observe.faults import Faults

FLUSH_S = 0.25  # the longest that what was derived is not written
MAX_WAITING = 50_000  # commands whose rows are not written yet; more are not kept, and fetched later
READERS = 2

log = structlog.get_logger()

T = TypeVar("T")


class HistoryStore:
    """`written`: the last revision that reads see."""

    def __init__(self, path: Path, bounds: Bounds, faults: Faults) -> None:
        self._path = path
        self._bounds = bounds
        self._faults = faults
        self._database: Database | None = None
        self.span = Span()
        self.written = 0
        #: The id of the cluster; empty: not known yet.
        self.cluster = ""
        #: What is missing is being fetched from another master.
        self.is_fetching = False
        self._waiting: list[Derived] = []
        self._wake = asyncio.Event()
        self._hurry = asyncio.Event()
        self._done = asyncio.Event()
        #: What is derived cannot be written now, and is missing.
        self.fails = False
        self._work: list[asyncio.Task[None]] = []
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="history")
        self._readers = ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="history-read")

    async def start(self) -> None:
        """Open the file; a broken one is set aside."""
        self._database = await self._in_thread(lambda: opened(self._path, self._bounds))
        self.span = self._database.span
        self.written = self.span.last
        self._work = [asyncio.ensure_future(self._faults.keep("history writer", self._run))]

    async def stop(self) -> None:
        """Write what is left, and close the file."""
        await cancel_all(self._work)
        if self._database is not None:
            await self._flush()
            self._database.close()
        self._thread.shutdown()
        self._readers.shutdown()

    def put(self, revision: int, derived: Derived | None) -> None:
        """Take what the command of this revision made; None: nothing. One that is known is ignored."""
        span = self.span
        if revision <= span.last:
            return
        span.lose(span.last, revision - 1)
        span.last = revision
        if derived is not None:
            self._waiting.append(derived)
            if len(self._waiting) > MAX_WAITING:
                self._waiting.clear()
                span.lose(self.written, revision)
        if not self._wake.is_set():
            self._wake.set()

    def belong_to(self, cluster_id: str) -> None:
        """Set the file aside if it is of another cluster, whose revisions mean nothing here; to be called while the
        master starts, for it blocks."""
        database = self._database
        if database is None or database.cluster in ("", cluster_id):
            self.cluster = cluster_id
            return
        database.close()
        set_aside(self._path, f"it is of cluster {database.cluster}")
        self._database = opened(self._path, self._bounds)
        self.cluster, self.span, self.written = cluster_id, self._database.span, 0
        self._waiting.clear()

    def skip_to(self, revision: int) -> None:
        """Note that the state was replaced by a later one: what led to it is missing here."""
        if revision > self.span.last:
            self.span.lose(self.span.last, revision)
            self.span.last = revision
            self._wake.set()

    async def until_written(self, revision: int, timeout_s: float = 5.0) -> None:
        """Wait until reads see everything up to a revision. Raises ApiError."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.written < min(revision, self.span.last):
                    self._hurry.set()
                    self._wake.set()
                    self._done.clear()
                    await self._done.wait()
        except TimeoutError:
            why = "its file is locked, or its disk is slow"
            raise unavailable(f"this master's history is not written in time ({why}); try again") from None

    async def read(self, query: Callable[[Database], T]) -> T:
        """Return what a query finds, in a thread. Raises ApiError."""
        database = self._database
        if database is None:
            raise unavailable("this master is starting; try again")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, query, database)
        except sqlite3.Error as error:
            raise unavailable(f"this master's history cannot be read ({error})") from error

    async def insert(self, table: Table, names: Sequence[str], rows: Sequence[Row]) -> None:
        """Add rows of another master. Raises sqlite3.Error."""
        database = self._database
        if database is not None:
            await self._in_thread(lambda: database.insert(table, names, rows))

    async def fetched(self, first: int) -> None:
        """Note that all was added that another master has, which is complete from a revision on."""
        self.span.fetched(first)
        self._wake.set()
        await self._flush()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            try:
                async with asyncio.timeout(FLUSH_S):
                    await self._hurry.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            self._hurry.clear()
            await self._flush()

    async def _flush(self) -> None:
        database = self._database
        if database is None:
            return
        waiting, self._waiting = self._waiting, []
        upto, span, cluster = self.span.last, self.span.to_json(), self.cluster
        try:
            pruned = await self._in_thread(lambda: database.write(self._rows(waiting), span, cluster))
        except sqlite3.Error as error:
            await self._failed(database, error, upto)
        except Exception as error:  # of whatever kind: it is a bug, and is told
            self._faults.caught("history writer", error)
            self.span.lose(self.written, upto)
        else:
            if self.fails:
                log.info("the history is written again", since_revision=self.span.first)
            self.fails = False
            if pruned:
                self.span.pruned(pruned)
        self.written = max(self.written, upto)
        self._done.set()

    async def _failed(self, database: Database, error: sqlite3.Error, upto: int) -> None:
        """Go on without what was to be written; a file that is broken is replaced by a new one."""
        self.span.lose(self.written, upto)
        if not self.fails:
            log.warning("the history cannot be written and has a gap", why=str(error), after_revision=self.written)
        self.fails = True
        if isinstance(error, sqlite3.OperationalError) or database.path is None:
            return  # a full disk, say: the next one may be written
        path = database.path
        database.close()
        set_aside(path, str(error))
        self._database = await self._in_thread(lambda: opened(path, self._bounds))
        self.span = Span(first=upto + 1, last=self.span.last, missing_after=0)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _rows(self, waiting: Sequence[Derived]) -> Iterator[tuple[Table, Row]]:
        for derived in waiting:
            rows: list[tuple[Table, Row]] = []
            with self._faults.guarded("history writer"):  # what one command did is missing then
                rows = [*rows_of(derived)]
            yield from rows
