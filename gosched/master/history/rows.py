"""The tables of the history, and its records as their rows.

Invariant: each table's key names a fact of the log, so a row that is written twice is there once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gosched.api.history import FinishedJob, HistoryEvent, TaskAttempt
from gosched.core.records.job import Job, JobState
from gosched.core.records.task import TaskState
from gosched.core.records.usage import Spent
from gosched.master.history.derive import Derived, EndedAttempt, EndedTask
from gosched.master.history.job_events import BY_OTHERS

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name, its columns with their types, and how many of them are its key. `revision` is among them."""

    name: str
    columns: tuple[str, ...]
    key: int

    @property
    def names(self) -> tuple[str, ...]:
        return tuple([column.partition(" ")[0] for column in self.columns])

    @property
    def key_names(self) -> tuple[str, ...]:
        return self.names[: self.key]

    def create(self) -> str:
        columns = ", ".join(f"{column} NOT NULL" if " null" not in column else column for column in self.columns)
        keys = ", ".join(self.key_names)
        return f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}, PRIMARY KEY ({keys})) WITHOUT ROWID"

    def insert(self, names: Iterable[str] | None = None) -> str:
        chosen = [*(names or self.names)]
        marks = ", ".join("?" * len(chosen))
        return f"INSERT OR IGNORE INTO {self.name} ({', '.join(chosen)}) VALUES ({marks})"


EVENTS = Table(
    "events",
    (
        "revision INTEGER",
        "number INTEGER",
        "at_ms INTEGER",
        "kind TEXT",
        "job_id TEXT",
        "job_name TEXT",
        "queue TEXT",
        "tenant TEXT",
        "user TEXT",
        "task_id TEXT",
        "node_id TEXT",
        "attempt INTEGER",
        "code TEXT",
        "message TEXT",
    ),
    key=2,
)
TASKS = Table(
    "task_attempts",
    (
        "job_id TEXT",
        "attempt INTEGER",
        "task_rank INTEGER",
        "moves INTEGER",
        "revision INTEGER",
        "task_id TEXT",
        "group_name TEXT",
        "task_index INTEGER",
        "allocation_id TEXT",
        "node_id TEXT",
        "node_name TEXT",
        "state INTEGER",
        "reason TEXT",
        "detail TEXT",
        "exit_code INTEGER null",
        "placed_at_ms INTEGER",
        "started_at_ms INTEGER",
        "ended_at_ms INTEGER",
        "gpus TEXT",
    ),
    key=4,
)
ATTEMPTS = Table(
    "attempts",
    (
        "job_id TEXT",
        "attempt INTEGER",
        "revision INTEGER",
        "state INTEGER",
        "reason TEXT",
        "detail TEXT",
        "exit_code INTEGER null",
        "placed_at_ms INTEGER",
        "ended_at_ms INTEGER",
    ),
    key=2,
)
JOBS = Table(
    "jobs",
    (
        "ended_at_ms INTEGER",
        "job_id TEXT",
        "revision INTEGER",
        "name TEXT",
        "queue TEXT",
        "tenant TEXT",
        "user TEXT",
        "state INTEGER",
        "reason TEXT",
        "exit_code INTEGER null",
        "attempts INTEGER",
        "tasks INTEGER",
        "submitted_at_ms INTEGER",
        "started_at_ms INTEGER",
        "cpu_ms INTEGER",
        "gpu_milli_s INTEGER",
        "memory_mib_s INTEGER",
    ),
    key=2,
)
TABLES = (EVENTS, TASKS, ATTEMPTS, JOBS)
BY_NAME = {table.name: table for table in TABLES}


def rows_of(derived: Derived) -> Iterator[tuple[Table, Row]]:
    """Yield all rows of what a command makes."""
    revision = derived.revision
    for event in derived.events:
        yield EVENTS, event_row(event)
    for ended in derived.tasks:
        yield TASKS, _task_row(revision, ended)
    for attempt in derived.attempts:
        yield ATTEMPTS, _attempt_row(revision, derived.at_ms, attempt)
    for job in derived.jobs:
        yield JOBS, _job_row(revision, job)


def event_row(event: HistoryEvent) -> Row:
    return (
        event.revision,
        event.number,
        event.at_ms,
        event.kind,
        event.job_id,
        event.job_name,
        event.queue,
        event.tenant,
        event.user,
        event.task_id,
        event.node_id,
        event.attempt,
        event.code,
        event.message,
    )


def event_of(row: Row) -> HistoryEvent:
    """Return the event of a row of all columns."""
    return HistoryEvent(**dict(zip(EVENTS.names, row, strict=True)))


def task_of(row: Row) -> tuple[int, int, TaskAttempt]:
    """Return the attempt of the gang, the rank, and the record of a row of all columns."""
    found = dict(zip(TASKS.names, row, strict=True))
    gpus = tuple([int(gpu) for gpu in found["gpus"].split(",") if gpu])
    record = TaskAttempt(
        task_id=found["task_id"],
        group=found["group_name"],
        index=found["task_index"],
        allocation_id=found["allocation_id"],
        node_id=found["node_id"],
        node_name=found["node_name"],
        state=TaskState(found["state"]),
        reason=found["reason"],
        detail=found["detail"],
        exit_code=found["exit_code"],
        placed_at_ms=found["placed_at_ms"],
        started_at_ms=found["started_at_ms"],
        ended_at_ms=found["ended_at_ms"],
        gpus=gpus,
    )
    return found["attempt"], found["task_rank"], record


def finished_of(row: Row) -> FinishedJob:
    """Return the record of a row of all columns."""
    found = dict(zip(JOBS.names, row, strict=True))
    del found["revision"]
    spent = Spent(**{name: found.pop(name) for name in ("cpu_ms", "gpu_milli_s", "memory_mib_s")})
    return FinishedJob(**{**found, "state": JobState(found["state"]), "spent": spent})


def ended_state(was: Job, job: Job) -> JobState:
    """Return how an attempt ended: a stop by order is CANCELLED, with the reason."""
    if job.state.is_final:
        return job.state
    return JobState.CANCELLED if was.reason in BY_OTHERS else JobState.FAILED


def _task_row(revision: int, ended: EndedTask) -> Row:
    task = ended.task
    return (
        task.job_id,
        task.attempt,
        task.rank,
        task.moves,
        revision,
        task.id,
        task.group,
        task.index,
        task.allocation_id,
        task.node_id,
        ended.node_name,
        int(task.state),
        task.reason,
        task.detail,
        task.exit_code,
        task.placed_at_ms,
        task.started_at_ms,
        task.ended_at_ms,
        ",".join(map(str, task.gpus)),
    )


def _attempt_row(revision: int, at_ms: int, ended: EndedAttempt) -> Row:
    was, job = ended.was, ended.job
    final = job.state.is_final
    return (
        job.id,
        was.attempt,
        revision,
        int(ended_state(was, job)),
        job.reason if final else was.reason,
        job.detail if final else was.detail,
        job.exit_code if final else was.exit_code,
        was.placed_at_ms,
        at_ms,
    )


def _job_row(revision: int, job: Job) -> Row:
    spent = job.spent
    return (
        job.ended_at_ms,
        job.id,
        revision,
        job.spec.name,
        job.spec.queue,
        job.spec.tenant,
        job.user,
        int(job.state),
        job.reason,
        job.exit_code,
        job.shown_attempt,
        job.spec.task_count,
        job.submitted_at_ms,
        job.started_at_ms,
        spent.cpu_ms,
        spent.gpu_milli_s,
        spent.memory_mib_s,
    )
