"""The JSON of jobs and their tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gosched.api.details import JobDetail
from gosched.api.job_row import JobRow, row_of
from gosched.api.json.document import Document, made, part
from gosched.api.json.usage import spent_json, usage_json
from gosched.api.json.values import Json
from gosched.api.spark import SparkProgress
from gosched.api.usage import TaskUsage
from gosched.core.records.task import Task
from gosched.core.resources import Resources


def _parent(job: JobRow) -> str | None:
    return job.parent or None


def _element(job: JobRow) -> int | None:
    return job.element if job.parent else None


def _timezone(job: JobRow) -> str:
    return job.timezone or "UTC"


_CHILDREN = ("children.made", "children.live", "children.succeeded", "children.failed", "children.cancelled")

#: A job without its tasks. `array`, `schedule`: of a parent, else null.
_JOB = Document(
    JobRow,
    "id",
    "name",
    "queue",
    "tenant",
    "user",
    "authenticated",
    "priority",
    "labels",
    "state",
    "reason",
    "detail",
    "attempt",
    "restarts",
    "preemptions",
    "task_count",
    "wanted",
    "running",
    "succeeded",
    "failed",
    "exit_code",
    made("parent", _parent),
    made("element", _element),
    part("array", "size=array_size", *_CHILDREN, when=lambda job: bool(job.array_size)),
    part(
        "schedule",
        "cron",
        made("timezone", _timezone),
        "overlap",
        "next_run_at=children.next_run_at_ms",
        *_CHILDREN,
        when=lambda job: bool(job.cron),
    ),
    "held",
    "frozen",
    "waits_for",
    "begin=begin_ms",
    "deadline=deadline_ms",
    "deadline_missed",
    "estimate_ms",
    "timeout_ms",
    "checkpoint_at_ms",
    "evictable_from=until_ms",
    "spent",
    "submitted_at_ms",
    "placed_at_ms",
    "started_at_ms",
    "ended_at_ms",
    nested=(spent_json,),
)
#: A row of a listing. `wait`: why it waits, and since when; null where it does not.
job_json = Document(
    JobRow,
    *_JOB.members,
    part(
        "wait",
        "code=wait_code",
        "message=wait_message",
        "since=waits_since_ms",
        "estimated_start=start_ms",
        when=lambda job: bool(job.wait_code),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TaskLine:
    """A task in the document of its job."""

    task: Task
    #: What its group asks for.
    resources: Resources
    usage: TaskUsage
    #: Of its job.
    attempt: int

    @property
    def node(self) -> str | None:
        return self.task.node_id or None


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobWithTasks:
    """A job with its tasks. `reason` and `detail`: its own, or why it waits."""

    job: JobRow
    reason: str
    detail: str
    failed_elements: tuple[str, ...]
    expected_end_ms: int
    likely_end_ms: int
    tasks: tuple[_TaskLine, ...]
    #: None: it is none of Spark, or does not answer.
    spark: SparkProgress | None


_task_json = Document(
    _TaskLine,
    "task.id",
    "task.group",
    "task.index",
    "task.rank",
    "task.state",
    "node",
    "task.exit_code",
    "task.reason",
    "task.detail",
    "attempt",
    "task.started_at_ms",
    "task.ended_at_ms",
    "cpus=resources.cpu_millis",
    "task.gpus",
    "usage",
    nested=(usage_json,),
)
#: What `job_detail_json` makes.
job_with_tasks = Document(
    _JobWithTasks,
    *_JOB.under("job"),
    "reason",
    "detail",
    part(
        "array",
        "size=job.array_size",
        *[f"job.{name}" for name in _CHILDREN],
        "failed_elements",
        when=lambda shown: bool(shown.job.array_size),
    ),
    "expected_end=expected_end_ms",
    "likely_end=likely_end_ms",
    "tasks",
    "spark",
    nested=(_task_json,),
)


def job_detail_json(detail: JobDetail, live: Iterable[TaskUsage] = ()) -> Json:
    """Return a job with its tasks; `live`: what those of them use that hold a place now."""
    job, why = detail.job, detail.waiting_for
    uses = {use.task_id: use for use in live}
    asked = {group.name: group.resources for group in job.spec.groups}
    shown = _JobWithTasks(
        job=row_of(job),
        reason=job.reason or (why.code if why else ""),
        detail=why.message if why and not job.reason else job.detail,
        failed_elements=detail.failed_elements,
        expected_end_ms=detail.expected_end_ms,
        likely_end_ms=detail.likely_end_ms,
        tasks=tuple(
            [_task_line(task, asked[task.group], uses.get(task.id), job.shown_attempt) for task in detail.tasks]
        ),
        spark=next((use.spark for use in uses.values() if use.spark is not None), None),
    )
    return job_with_tasks(shown)


def _task_line(task: Task, resources: Resources, live: TaskUsage | None, attempt: int) -> _TaskLine:
    if live is None or not task.state.is_active:
        live = TaskUsage(task_id=task.id, job_id=task.job_id, node_id=task.node_id, cpu_milli=0, usage=task.usage)
    return _TaskLine(task=task, resources=resources, usage=live, attempt=attempt)
