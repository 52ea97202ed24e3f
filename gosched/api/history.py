"""What has happened: events, the attempts of jobs, and jobs that have ended."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState
from gosched.core.records.usage import Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEvent:
    """One thing that happened."""

    #: Of the state, when it happened; with `number` it names the event.
    revision: int
    #: Among the events of that revision, from 0.
    number: int = 0
    at_ms: int
    #: Such as job_submitted; `gosched/master/history/kinds.py` has them all.
    kind: str
    #: Empty: it is not about a job.
    job_id: str = ""
    job_name: str = ""
    queue: str = ""
    tenant: str = ""
    #: Who submitted the job.
    user: str = ""
    #: Empty: it is not about one task.
    task_id: str = ""
    #: Empty: it is not about one node.
    node_id: str = ""
    #: 0: it is not about an attempt.
    attempt: int = 0
    #: A reason such as NODE_LOST; empty: there is none.
    code: str = ""
    #: One line for people; may be empty.
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Events, the oldest first."""

    events: tuple[HistoryEvent, ...] = ()
    #: Everything up to it is in the page, if it fits the filter; what follows is asked for with it.
    revision: int
    #: There are later ones already.
    more: bool = False
    #: From this revision on all events are kept.
    oldest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAttempt:
    """One start of one task."""

    task_id: str
    group: str
    #: Within its group, from 0.
    index: int
    allocation_id: str
    node_id: str
    #: As people know the node, also after it is forgotten.
    node_name: str
    state: TaskState
    #: One code; empty: there is none.
    reason: str = ""
    #: One line for people; may be empty.
    detail: str = ""
    #: None: it has not ended, or it is not known.
    exit_code: int | None = None
    placed_at_ms: int = 0
    #: 0: it never ran.
    started_at_ms: int = 0
    #: 0: it has not ended.
    ended_at_ms: int = 0
    #: Indexes on the node.
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of a gang."""

    #: From 1.
    number: int
    #: RUNNING, or how it ended.
    state: JobState
    #: One code; empty: there is none.
    reason: str = ""
    #: One line for people; may be empty.
    detail: str = ""
    #: Of the task that decided the end; None: there is none.
    exit_code: int | None = None
    placed_at_ms: int = 0
    #: When its first task ran; 0: none did.
    started_at_ms: int = 0
    #: 0: it has not ended.
    ended_at_ms: int = 0
    #: In order of rank. Empty: they are not kept any more.
    tasks: tuple[TaskAttempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedJob:
    """A job that has ended, as accounting keeps it: it outlives the job's record."""

    job_id: str
    name: str
    queue: str
    tenant: str
    #: Who submitted it; empty: not known.
    user: str = ""
    state: JobState
    #: One code; empty: there is none.
    reason: str = ""
    #: Of the task that decided the end; None: there is none.
    exit_code: int | None = None
    attempts: int
    tasks: int
    submitted_at_ms: int
    #: 0: it never started.
    started_at_ms: int = 0
    ended_at_ms: int
    spent: Spent
