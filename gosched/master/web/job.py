"""The first page of a job: what it is, where it runs or why it waits, its attempts, its tasks, its events."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace

from gosched.api.explanation import JobExplanation
from gosched.api.history import Attempt, EventPage, HistoryEvent
from gosched.api.spark import SparkProgress
from gosched.core.records.job import Job
from gosched.core.records.task import Task, TaskState
from gosched.core.spec.task_group import Runtime
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.access import Wording
from gosched.master.history.attempts import attempts
from gosched.master.history.words import node_name
from gosched.master.web.gang_timeline import Timeline, draw
from gosched.master.web.job_head import JobHead, find_job, head_of
from gosched.master.web.page import Asked
from gosched.master.web.sources import Sources
from gosched.wire.codec import to_record
from gosched.wire.v1 import history_pb2, node_pb2, scheduler_pb2

TASKS = 100  # of one page
EVENTS = 100  # the newest
_MAX_TASK_PAGE = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """A task, and the name of its node."""

    task: Task
    node_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """A page of the list of tasks."""

    rows: tuple[TaskRow, ...]
    #: By state, those that there are.
    counts: tuple[tuple[TaskState, int], ...]
    #: Only tasks of this state are listed; UNSPECIFIED: all.
    state: TaskState
    page: int
    pages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPageView:
    """A job and what belongs to it."""

    head: JobHead
    #: None: it does not wait, or the leader does not answer.
    explanation: JobExplanation | None
    #: The newest first.
    attempts: tuple[Attempt, ...]
    #: None: nothing was placed yet.
    timeline: Timeline | None
    tasks: TaskPage
    #: The newest first.
    events: tuple[HistoryEvent, ...]
    #: None: it is none of Spark, or does not answer.
    spark: SparkProgress | None


async def job_page(sources: Sources, asked: Asked) -> JobPageView:
    """Return the page of the job that the path names. Raises NoSuchPage."""
    job_id = find_job(sources, asked.caller, asked.params["job"]).id
    named = scheduler_pb2.GetJobRequest(job=job_id)
    why, past, happened, spark = await asyncio.gather(
        sources.ask("ExplainJob", named, asked.caller),
        sources.ask("ListAttempts", history_pb2.ListAttemptsRequest(job=job_id), asked.caller),
        sources.ask("ListEvents", history_pb2.ListEventsRequest(job=job_id, page_size=EVENTS), asked.caller),
        _spark(sources, asked, job_id),
    )
    known = await asyncio.to_thread(_attempts, past) if past else ()  # of a large gang they are many
    state = sources.state
    job = find_job(sources, asked.caller, job_id)
    tasks = state.tasks_of(job)
    listed = known or tuple(attempts(state, job, {}))
    explanation = to_record(why, JobExplanation) if why and not job.state.is_final else None
    events = to_record(happened, EventPage).events if happened else ()
    return JobPageView(
        head=_head(state, job, explanation, asked.words),
        explanation=explanation,
        attempts=listed[::-1],
        timeline=draw(job, listed, sources.now_ms()),
        tasks=_task_page(state, asked, tasks),
        events=events[::-1],
        spark=spark,
    )


async def _spark(sources: Sources, asked: Asked, job_id: str) -> SparkProgress | None:
    """Return what the application says, where it is one of Spark and its driver has a place."""
    job = sources.state.jobs[job_id]
    if not job.active or all(group.runtime is not Runtime.SPARK for group in job.spec.groups):
        return None
    told = await sources.ask("ListUsage", node_pb2.ListUsageRequest(job=job_id), asked.caller)
    said = [view.spark for view in told.tasks if view.HasField("spark")] if told else []
    return to_record(said[0], SparkProgress) if said else None


def _attempts(answer: history_pb2.ListAttemptsResponse) -> tuple[Attempt, ...]:
    return tuple([to_record(attempt, Attempt) for attempt in answer.attempts])


def _task_page(state: ClusterState, asked: Asked, tasks: list[Task]) -> TaskPage:
    """Return the page that the address asks for."""
    chosen = asked.query.choice("tasks", [one.name.lower() for one in TaskState if one])
    only = TaskState[chosen.upper()] if chosen else TaskState.UNSPECIFIED
    listed = [task for task in tasks if only in (TaskState.UNSPECIFIED, task.state)]
    pages = max(1, -(-len(listed) // TASKS))
    page = min(asked.query.number("page", 1, least=1, most=_MAX_TASK_PAGE), pages)
    counts = Counter(task.state for task in tasks)
    return TaskPage(
        rows=tuple([_row(state, task) for task in listed[(page - 1) * TASKS : page * TASKS]]),
        counts=tuple([(one, counts[one]) for one in TaskState if counts[one]]),
        state=only,
        page=page,
        pages=pages,
    )


def _head(state: ClusterState, job: Job, explanation: JobExplanation | None, words: Wording) -> JobHead:
    """Return the head, with what the leader knows of the reason."""
    head = head_of(state, job, words)
    if explanation and explanation.code:
        return replace(head, code=explanation.code, message=explanation.message)
    return head


def _row(state: ClusterState, task: Task) -> TaskRow:
    return TaskRow(task=task, node_name=node_name(state, task.node_id))
