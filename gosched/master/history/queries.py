"""What is asked of the history: filters, and pages of events, attempts and jobs.

Invariant: a page of events never splits a revision; what a caller may not see is left out before pages are counted, so
neither their length nor where they end tells of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gosched.api.history import Attempt, FinishedJob, HistoryEvent, TaskAttempt
from gosched.core.access import Object, Scope, Scopes
from gosched.core.records.job import JobState
from gosched.master.history.database import Database
from gosched.master.history.rows import ATTEMPTS, EVENTS, JOBS, TASKS, Row, event_of, finished_of, task_of

MAX_TASKS_SHOWN = 50_000  # rows of tasks in one answer, of the newest attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events are wanted; empty: any."""

    #: Id or name.
    job: str = ""
    #: Id.
    node: str = ""
    kinds: frozenset[str] = frozenset()
    since_ms: int = 0
    queue: str = ""
    tenant: str = ""
    #: Whether the caller sees jobs like this; None: it sees all.
    sees: Callable[[Object], bool] | None = field(default=None, compare=False)
    #: The same for queries.
    scopes: Scopes = None

    @property
    def is_open(self) -> bool:
        """Return whether it lets everything through."""
        return self == _OPEN and self.sees is None

    def shows(self, event: HistoryEvent) -> bool:
        """Return whether the caller sees the job that an event is about."""
        on = Object(tenant=event.tenant, queue=event.queue, owner=event.user)
        return self.sees is None or not event.job_id or self.sees(on)

    def takes(self, event: HistoryEvent) -> bool:
        return (
            (not self.job or self._names(event))
            and (not self.node or event.node_id == self.node)
            and (not self.kinds or event.kind in self.kinds)
            and event.at_ms >= self.since_ms
            and (not self.queue or event.queue == self.queue)
            and (not self.tenant or event.tenant == self.tenant)
            and self.shows(event)
        )

    def where(self) -> Where:
        where = Where()
        tenant, slash, name = self.job.rpartition("/")
        if slash:
            where.add("job_name = ? AND tenant = ?", name, tenant)
        elif self.job:
            where.add("(job_id = ? OR job_name = ?)", self.job, self.job)
        for column, value in (("node_id", self.node), ("queue", self.queue), ("tenant", self.tenant)):
            if value:
                where.add(f"{column} = ?", value)
        if self.kinds:
            where.add(f"kind IN ({', '.join('?' * len(self.kinds))})", *sorted(self.kinds))
        if self.since_ms:
            where.add("at_ms >= ?", self.since_ms)
        where.add_scopes(self.scopes, or_else="job_id = ''")
        return where

    def _names(self, event: HistoryEvent) -> bool:
        """Return whether `job` names the job of an event."""
        tenant, slash, name = self.job.rpartition("/")
        return event.job_name == name and event.tenant == tenant if slash else name in (event.job_id, event.job_name)


_OPEN = EventFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs that have ended are wanted; empty: any."""

    since_ms: int = 0
    #: 0: now.
    until_ms: int = 0
    tenant: str = ""
    queue: str = ""
    user: str = ""
    states: frozenset[int] = frozenset()
    #: What the caller sees.
    scopes: Scopes = None

    def where(self) -> Where:
        where = Where()
        for column, value in (("tenant", self.tenant), ("queue", self.queue), ("user", self.user)):
            if value:
                where.add(f"{column} = ?", value)
        if self.states:
            where.add(f"state IN ({', '.join('?' * len(self.states))})", *sorted(self.states))
        if self.since_ms:
            where.add("ended_at_ms >= ?", self.since_ms)
        if self.until_ms:
            where.add("ended_at_ms < ?", self.until_ms)
        where.add_scopes(self.scopes)
        return where


@dataclass(slots=True)
class Where:
    """Conditions of a query, with their values."""

    terms: list[str] = field(default_factory=list)
    values: list[object] = field(default_factory=list)

    def add(self, term: str, *values: object) -> None:
        self.terms.append(term)
        self.values += values

    def add_scopes(self, scopes: Scopes, *, or_else: str = "0") -> None:
        """Leave only what all scopes of one of the parts reach; None: all. `or_else`: what is left besides."""
        if scopes is None:
            return
        parts = [" AND ".join(filter(None, [_reached(scope) for scope in part])) or "1" for part in scopes]
        texts = [names for part in scopes for scope in part for names in (scope.tenants, scope.queues) if names]
        self.add(_any_of([or_else, *parts]), *map(json.dumps, texts))

    def __str__(self) -> str:
        return " AND ".join(self.terms) or "1"


@dataclass(frozen=True, slots=True)
class Found:
    """Events of a page: up to `revision` they are all there, and with `more` others follow."""

    events: Sequence[HistoryEvent]
    revision: int
    more: bool


def events_after(database: Database, wanted: EventFilter, after: int, upto: int, size: int) -> Found:
    """Return the first events after a revision, up to another."""
    where = wanted.where()
    where.add("revision > ? AND revision <= ?", after, upto)
    rows = _events(database, where, "revision, number", size + 1)
    if len(rows) <= size:
        return Found([event_of(row) for row in rows], upto, False)
    whole = _without(database, wanted, rows)
    return Found([event_of(row) for row in whole], whole[-1][0], True)


def newest_events(database: Database, wanted: EventFilter, upto: int, size: int) -> Found:
    """Return the last events up to a revision, the oldest first."""
    where = wanted.where()
    where.add("revision <= ?", upto)
    rows = _events(database, where, "revision DESC, number DESC", size + 1)
    if len(rows) > size:
        rows = _without(database, wanted, rows)
    return Found(sorted([event_of(row) for row in rows], key=lambda e: (e.revision, e.number)), upto, False)


def attempts_of(database: Database, job_id: str) -> dict[int, tuple[Attempt | None, list[tuple[int, TaskAttempt]]]]:
    """Return what is kept of each attempt: how it ended, and its tasks with their ranks."""
    query = f"SELECT {_all(ATTEMPTS.names)} FROM {ATTEMPTS.name} WHERE job_id = ? ORDER BY attempt"
    found: dict[int, tuple[Attempt | None, list[tuple[int, TaskAttempt]]]] = {}
    for row in database.read(query, (job_id,)):
        attempt = _attempt_of(row)
        found[attempt.number] = (attempt, [])
    query = (
        f"SELECT {_all(TASKS.names)} FROM {TASKS.name} WHERE job_id = ? ORDER BY attempt DESC, task_rank, moves LIMIT ?"
    )
    for row in database.read(query, (job_id, MAX_TASKS_SHOWN)):
        number, rank, task = task_of(row)
        found.setdefault(number, (None, []))[1].append((rank, task))
    return found


def newest_job(database: Database, job: str, scopes: Scopes = None) -> FinishedJob | None:
    """Return the job of an id, TENANT/NAME or a name, the newest of those that have ended and that the caller sees."""
    tenant, _, name = job.rpartition("/")
    for term, values in (("job_id = ?", (job,)), ("name = ? AND (? = '' OR tenant = ?)", (name, tenant, tenant))):
        where = Where()
        where.add(term, *values)
        where.add_scopes(scopes)
        query = f"SELECT {_all(JOBS.names)} FROM {JOBS.name} WHERE {where} ORDER BY ended_at_ms DESC LIMIT 1"
        for row in database.read(query, where.values):
            return finished_of(row)
    return None


def finished_jobs(
    database: Database, wanted: JobFilter, before: tuple[int, str] | None, size: int
) -> tuple[Sequence[FinishedJob], bool]:
    """Return jobs, the newest first, from the place of a page token on; and whether there are more."""
    where = wanted.where()
    if before is not None:
        where.add("(ended_at_ms, job_id) < (?, ?)", *before)
    query = f"SELECT {_all(JOBS.names)} FROM {JOBS.name} WHERE {where} ORDER BY ended_at_ms DESC, job_id DESC LIMIT ?"
    rows = database.read(query, (*where.values, size + 1))
    return [finished_of(row) for row in rows[:size]], len(rows) > size


def _events(database: Database, where: Where, order: str, limit: int) -> list[Row]:
    query = f"SELECT {_all(EVENTS.names)} FROM {EVENTS.name} WHERE {where} ORDER BY {order} LIMIT ?"
    return database.read(query, (*where.values, limit))


def _without(database: Database, wanted: EventFilter, rows: list[Row]) -> list[Row]:
    """Return the rows without those of the last one's revision, which is cut; a page that has no other gets all of
    it."""
    cut = rows[-1][0]
    whole = [row for row in rows if row[0] != cut]
    if whole:
        return whole
    where = wanted.where()
    where.add("revision = ?", cut)
    return _events(database, where, "revision, number", -1)


def _reached(scope: Scope) -> str:
    """Return the condition that a row is in a scope; its values are the tenants and the queues as JSON, if there are
    any."""
    terms = []
    if scope.tenants:
        terms.append("tenant IN (SELECT value FROM json_each(?))")
    if scope.queues:
        below = "substr(queue, 1, length(value) + 1) = value || '.'"
        terms.append(f"EXISTS (SELECT 1 FROM json_each(?) WHERE queue = value OR {below})")
    return " AND ".join(terms)


def _any_of(terms: Sequence[str]) -> str:
    """Return their disjunction, as a tree: SQLite bounds how deep an expression is."""
    if len(terms) == 1:
        return f"({terms[0]})"
    half = len(terms) // 2
    return f"({_any_of(terms[:half])} OR {_any_of(terms[half:])})"


def _all(names: Sequence[str]) -> str:
    return ", ".join(names)


def _attempt_of(row: Row) -> Attempt:
    found = dict(zip(ATTEMPTS.names, row, strict=True))
    return Attempt(
        number=found["attempt"],
        state=JobState(found["state"]),
        reason=found["reason"],
        detail=found["detail"],
        exit_code=found["exit_code"],
        placed_at_ms=found["placed_at_ms"],
        ended_at_ms=found["ended_at_ms"],
    )
