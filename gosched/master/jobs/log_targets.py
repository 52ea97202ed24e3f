"""Which logs a request asks for: the newest of each task, or those of one attempt. Pure, but for the history.

Invariant: a log is asked for by its allocation, whose id follows from task and attempt; where the history does not know
any more on which node that was, the archive may still have it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from gosched.api.history import Attempt, TaskAttempt
from gosched.core.reasons import Reason
from gosched.core.records.job import Job
from gosched.core.records.task import Task, allocation_id, attempt_of
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.errors import invalid, not_found
from gosched.master.jobs.task_names import named_tasks
from gosched.wire.v1 import scheduler_pb2

MAX_TAIL = 100_000  # lines of each stream
MAX_READERS = 1000  # of one stream, and of all streams of one caller

#: The attempts of a job, by its id; of one that the history does not know, none.
AttemptsOf = Callable[[str], Awaitable[Sequence[Attempt]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTarget:
    """The log of one allocation."""

    task_id: str
    allocation_id: str
    #: Empty: not known any more.
    node_id: str
    #: As people know the node; empty: by its id.
    node_name: str = ""
    #: Why it never started, in one line; empty: it has, or may.
    never_started: str = ""

    @property
    def attempt(self) -> int:
        return attempt_of(self.allocation_id)


def check_request(request: scheduler_pb2.StreamJobLogsRequest) -> None:
    """Check what is asked for. Raises ApiError."""
    if request.attempt < 0:
        raise invalid(f"attempt {request.attempt}: attempts count from 1")
    if request.attempt and request.previous:
        raise invalid("name an attempt, or ask for the previous one, not both")
    if not 0 <= request.tail <= MAX_TAIL:
        raise invalid(f"tail {request.tail}: it must be from 0 to {MAX_TAIL} lines")
    if request.since_ms < 0:
        raise invalid(f"since_ms {request.since_ms}: it must not be before 1970")


def newest(state: ClusterState, job: Job, wanted: str) -> list[LogTarget]:
    """Return the newest log of each chosen task that has had a place. Raises ApiError."""
    found = [_of_task(state, task) for task in _chosen(state, job, wanted) if task.allocation_id]
    return _without_unneeded(found)


async def of_attempt(
    state: ClusterState, job: Job, request: scheduler_pb2.StreamJobLogsRequest, attempts_of: AttemptsOf
) -> list[LogTarget]:
    """Return the logs of the attempt that the request names. Raises ApiError."""
    tasks = _chosen(state, job, request.task)
    number = _number(state, job, request)
    known = {attempt.number: attempt.tasks for attempt in await attempts_of(job.id)}
    names = {task.id for task in tasks}
    found = {t.allocation_id: _of_attempt(t) for t in known.get(number, ()) if t.task_id in names and t.allocation_id}
    current = [task for task in tasks if task.allocation_id and attempt_of(task.allocation_id) == number]
    for task in current:
        found.setdefault(task.allocation_id, _of_task(state, task))
    if not found and number not in known:
        ids = [(task.id, allocation_id(task.id, number)) for task in tasks]
        return [LogTarget(task_id=task, allocation_id=allocation, node_id="") for task, allocation in ids]
    return _without_unneeded(list(found.values()))


def _without_unneeded(found: list[LogTarget]) -> list[LogTarget]:
    """Leave out the tasks whose job had succeeded before they started, unless there are no others."""
    return [target for target in found if target.never_started != Reason.NOT_NEEDED] or found


def _number(state: ClusterState, job: Job, request: scheduler_pb2.StreamJobLogsRequest) -> int:
    """Return the attempt that is asked for. Raises ApiError for one that there was not."""
    started = max((attempt_of(t.allocation_id) for t in state.tasks_of(job) if t.allocation_id), default=0)
    if not started:
        raise never_started(job)
    number = request.attempt or started - 1
    if not 0 < number <= started:
        many = f"{started} attempts" if started > 1 else "one attempt only"
        raise not_found(f"job {job.spec.name} has had {many}: there is no {asked_attempt(request)}")
    return number


def never_started(job: Job) -> Exception:
    """Return the error for a job of which nothing has had a place."""
    waits = "" if job.state.is_final else " yet"
    why = f": {job.detail}" if job.detail else ""
    return not_found(f"job {job.spec.name} has no logs: it is {job.shown_state.name} and has not started{waits}{why}")


def asked_attempt(request: scheduler_pb2.StreamJobLogsRequest) -> str:
    """Return the attempt that is asked for, in words; empty: the newest."""
    return f"attempt {request.attempt}" if request.attempt else "attempt before it" if request.previous else ""


def _chosen(state: ClusterState, job: Job, wanted: str) -> list[Task]:
    tasks = named_tasks(state, job, wanted)
    if len(tasks) > MAX_READERS:
        raise invalid(f"{len(tasks)} tasks; at most {MAX_READERS} logs can be read together: choose a task")
    return tasks


def _of_task(state: ClusterState, task: Task) -> LogTarget:
    node = state.nodes.get(task.node_id)
    fresh = attempt_of(task.allocation_id) == task.attempt
    failed = fresh and task.state.is_final and not task.started_at_ms
    return LogTarget(
        task_id=task.id,
        allocation_id=task.allocation_id,
        node_id=task.node_id,
        node_name=node.name if node is not None else "",
        never_started=_reason(task.reason, task.detail) if failed else "",
    )


def _of_attempt(task: TaskAttempt) -> LogTarget:
    failed = task.state.is_final and not task.started_at_ms
    return LogTarget(
        task_id=task.task_id,
        allocation_id=task.allocation_id,
        node_id=task.node_id,
        node_name=task.node_name,
        never_started=_reason(task.reason, task.detail) if failed else "",
    )


def _reason(code: str, detail: str) -> str:
    return detail or code or "it was ended before"
