"""An event of the history before it has its place: its kind, what it is about, and its line."""

from __future__ import annotations

from dataclasses import dataclass, field

from gosched.api.history import HistoryEvent
from gosched.core.events import TaskChanged
from gosched.core.records.job import Job
from gosched.core.records.task import TaskState
from gosched.master.history.kinds import Kind


@dataclass(slots=True)
class Draft:
    """An event without its number. Not frozen: it is made for each event of the log, and lives for a moment."""

    kind: Kind
    message: str
    #: None: it is not about a job that is known.
    job: Job | None = None
    #: In place of a job that is not known.
    job_id: str = ""
    #: None: the job's.
    attempt: int | None = None
    task_id: str = ""
    node_id: str = ""
    code: str = ""

    def event(self, revision: int, number: int, at_ms: int) -> HistoryEvent:
        job = self.job
        return HistoryEvent(
            revision=revision,
            number=number,
            at_ms=at_ms,
            kind=self.kind.value,
            job_id=job.id if job else self.job_id,
            job_name=job.spec.name if job else self.job_id,
            queue=job.spec.queue if job else "",
            tenant=job.spec.tenant if job else "",
            user=job.user if job else "",
            task_id=self.task_id,
            node_id=self.node_id,
            attempt=self.attempt if self.attempt is not None else job.attempt if job else 0,
            code=self.code,
            message=self.message,
        )


@dataclass(slots=True)
class JobTasks:
    """The changes of one job's tasks by one command."""

    placed: list[TaskChanged] = field(default_factory=list)
    #: They run now, and did not before.
    started: list[TaskChanged] = field(default_factory=list)
    stopping: list[TaskChanged] = field(default_factory=list)
    ended: list[TaskChanged] = field(default_factory=list)
    #: They wait again.
    moved: list[TaskChanged] = field(default_factory=list)
    #: How many were RUNNING, and are not any more.
    ran: int = 0
    #: Of those that have ended, how many the job counts as succeeded or failed.
    counted: int = 0

    def take(self, event: TaskChanged) -> None:
        after = event.after
        if after is TaskState.RUNNING:
            self.started.append(event)
        elif after is TaskState.PLACED:
            self.placed.append(event)
        elif after is TaskState.STOPPING:
            self.stopping.append(event)
        elif after is TaskState.PENDING:
            self.moved.append(event)
        elif after.is_final:
            self.ended.append(event)
            self.counted += after is not TaskState.KILLED
        if event.before is TaskState.RUNNING and after is not TaskState.RUNNING:
            self.ran += 1
