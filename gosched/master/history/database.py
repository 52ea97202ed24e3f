"""The history on disk: one SQLite file. Everything here blocks, and runs in threads of the store.

The log holds what the file does, so a commit need not be on the platter when it returns: after a crash of the machine
the file is whole, and what its end lacks is derived or fetched again.

Invariant: a file that cannot be read is set aside, under another name; it never keeps a master from running.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from gosched.master.history.rows import EVENTS, JOBS, TABLES, TASKS, Row, Table
from gosched.master.history.span import Span

SCHEMA = 1
APPLICATION = 0x676F7368  # "gosh", in the file's header
SET_ASIDE = ".set-aside"
_ENDINGS = ("", "-wal", "-shm")
_INDEXES = (
    "CREATE INDEX IF NOT EXISTS events_of_job ON events (job_id) WHERE job_id <> ''",
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
)
_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
WRITE_WAIT_S = 5.0  # for a lock that another process holds
READ_WAIT_S = 0.5  # for a lock that another process holds: another master has the same rows
MAX_ROWS_IN_MEMORY = 10_000  # of each table, where no file can be written

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much is kept. What is beyond goes, the oldest first."""

    events: int
    tasks: int
    jobs: int
    #: Of the file.
    size: int

    def of(self, table: Table) -> int:
        return {EVENTS.name: self.events, TASKS.name: self.tasks}.get(table.name, self.jobs)


class Database:
    """An open history. `path` is None where it is kept in memory, for want of a file."""

    def __init__(self, path: Path | None, bounds: Bounds, why: str = "") -> None:
        """Raises sqlite3.Error, ValueError."""
        in_memory = MAX_ROWS_IN_MEMORY
        self.path = path
        self.bounds = bounds if path else Bounds(events=in_memory, tasks=in_memory, jobs=in_memory, size=bounds.size)
        self.why = why
        self._lock = threading.Lock()
        self._writer = _connected(path, WRITE_WAIT_S)
        try:
            self.span = self._prepare()
            self._reader = _connected(path, READ_WAIT_S) if path else self._writer
        except BaseException:
            self._writer.close()
            raise
        self._read_lock = threading.Lock() if path else self._lock
        self._rows = {table.name: self._count(table) for table in TABLES}

    def close(self) -> None:
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._writer.close()
        if self.path:
            with self._read_lock:
                self._reader.close()

    def write(self, rows: Iterable[tuple[Table, Row]], span: str, cluster: str) -> int:
        """Write rows, and what the span is with them; then drop what is beyond the bounds. Return the last revision
        whose events were dropped; 0: none. Raises sqlite3.Error, with nothing written."""
        by_table: dict[str, list[Row]] = {}
        for table, row in rows:
            by_table.setdefault(table.name, []).append(row)
        with self._lock, _transaction(self._writer) as connection:
            for table in TABLES:
                if found := by_table.get(table.name):
                    self._rows[table.name] += connection.executemany(table.insert(), found).rowcount
            connection.executemany(_META, (("span", span), ("cluster", cluster)))
        return self._prune()

    def insert(self, table: Table, names: Sequence[str], rows: Sequence[Row]) -> None:
        """Add rows of another master; those that are there already stay as they are. Raises sqlite3.Error."""
        known = [place for place, name in enumerate(names) if name in table.names]
        chosen = [tuple([row[place] for place in known]) for row in rows]
        with self._lock, _transaction(self._writer) as connection:
            statement = table.insert([names[place] for place in known])
            self._rows[table.name] += connection.executemany(statement, chosen).rowcount

    def read(self, query: str, values: Sequence[object] = ()) -> list[Row]:
        """Return the rows of a query. Raises sqlite3.Error."""
        with self._read_lock:
            return self._reader.execute(query, values).fetchall()

    def _prepare(self) -> Span:
        """Make what the file lacks, and return its span. Raises ValueError for a file of something else."""
        connection = self._writer
        (version,), (application,) = (
            connection.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "application_id")
        )
        if version not in (0, SCHEMA) or application not in (0, APPLICATION):
            raise ValueError(f"it is of schema {version} of application {application:#x}")
        with _transaction(connection):
            for table in TABLES:
                connection.execute(table.create())
                names = [row[1] for row in connection.execute(f"PRAGMA table_info({table.name})")]
                if tuple(names) != table.names:
                    raise ValueError(f"its table {table.name} has the columns {', '.join(names)}")
            for statement in _INDEXES:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
        meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
        self.cluster = meta.get("cluster", "")
        return Span.from_json(meta["span"]) if "span" in meta else Span()

    def _count(self, table: Table) -> int:
        count: int = self._writer.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0]
        return count

    def _prune(self) -> int:
        """Drop the oldest rows beyond the bounds, a tenth more than need be, so that it is not done all the time."""
        dropped = 0
        too_large = self._size() > self.bounds.size
        for table in TABLES:
            bound = self.bounds.of(table)
            rows = self._rows[table.name]
            if rows > bound or (too_large and rows):
                dropped = max(dropped, self._drop_oldest(table, rows - min(bound, rows) + rows // 10 + 1))
        return dropped

    def _drop_oldest(self, table: Table, rows: int) -> int:
        """Drop so many rows; return up to which revision, for events."""
        order = "ended_at_ms" if table is JOBS else "revision"
        with self._lock, _transaction(self._writer) as connection:
            query = f"SELECT {order} FROM {table.name} ORDER BY {order} LIMIT 1 OFFSET ?"
            (upto,) = connection.execute(query, (max(rows - 1, 0),)).fetchone() or (0,)
            gone = connection.execute(f"DELETE FROM {table.name} WHERE {order} <= ?", (upto,)).rowcount
            self._rows[table.name] -= gone
        return int(upto) if table is EVENTS else 0

    def _size(self) -> int:
        with self._lock:
            pages, free, size = (
                self._writer.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * size)


def opened(path: Path, bounds: Bounds) -> Database:
    """Open the file, or a new one in its place, or, where none can be written, a history in memory."""
    for _ in range(2):
        try:
            return Database(path, bounds)
        except sqlite3.OperationalError as error:
            why = str(error)
            break
        except (sqlite3.DatabaseError, ValueError) as error:
            why = str(error)
            set_aside(path, why)
    log.warning("the history is kept in memory only, until this master is started again", path=str(path), why=why)
    return Database(None, bounds, why)


def set_aside(path: Path, why: str) -> None:
    """Give a file that cannot be read another name; an earlier one of that name is replaced."""
    aside = path.with_name(path.name + SET_ASIDE)
    log.warning("the history cannot be read and is set aside: it begins anew", path=str(aside), why=why)
    for ending in _ENDINGS:
        with contextlib.suppress(OSError):
            os.replace(f"{path}{ending}", f"{aside}{ending}")


def _connected(path: Path | None, wait_s: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path or ":memory:", timeout=wait_s, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -8000")
    return connection


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
