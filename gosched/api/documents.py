"""The JSON documents of HTTP and of `goschedctl -o json`, one for each record that users see.

`json_mapping` says how a member is written. Invariant: keys keep their meaning and their order; new ones may come
(tests/api/documents.json has them as they are).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gosched.api.details import JobDetail, NodeDetail
from gosched.api.explanation import Holder, JobExplanation, NodeTasks, Refused, Victim
from gosched.api.forecast import JobPlan, MovedStart, PlannedJob, Reserved
from gosched.api.json_mapping import Document, all_amounts, made, optional, part, using
from gosched.api.json_values import Json
from gosched.api.status import BackupStatus, MasterMember, MasterStatus, QueueStatus, QuotaStatus, Status
from gosched.api.usage import GpuUsage, NodeUsage, TaskUsage
from gosched.core.records.fence import Fence
from gosched.core.records.job import Job
from gosched.core.records.node import Hardware
from gosched.core.records.reservation import Reservation
from gosched.core.records.task import Task
from gosched.core.records.usage import MIB, Spent
from gosched.core.records.window import Window
from gosched.core.resources import Resources
from gosched.core.spec.dependency import Dependency
from gosched.core.spec.placement_rules import Taint


def _memory_byte_s(spent: Spent) -> int:
    return spent.memory_mib_s * MIB


spent_json = Document(Spent, "cpu_ms", "gpu_s=gpu_milli_s", made("memory_byte_s", _memory_byte_s), measured=True)


# Jobs


def _parent(job: Job) -> str | None:
    return job.parent or None


def _element(job: Job) -> int | None:
    return job.element if job.parent else None


def _is_array(job: Job) -> bool:
    return bool(job.spec.array.size) and not job.spec.cron


def _timezone(job: Job) -> str:
    return job.spec.timezone or "UTC"


_CHILDREN = ("children.made", "children.live", "children.succeeded", "children.failed", "children.cancelled")
Document(Dependency)

#: A job without its tasks. `array`, `schedule`: of a parent, else null.
job_json = Document(
    Job,
    "id",
    "spec.name",
    "spec.queue",
    "spec.tenant",
    "spec.priority",
    "spec.labels",
    "state=shown_state",
    "reason",
    "detail",
    "attempt",
    "restarts",
    "preemptions",
    "spec.task_count",
    "running",
    "succeeded",
    "failed",
    "exit_code",
    made("parent", _parent),
    made("element", _element),
    part("array", "spec.array.size", *_CHILDREN, when=_is_array),
    part(
        "schedule",
        "spec.cron",
        made("timezone", _timezone),
        "spec.overlap",
        "next_run_at=children.next_run_at_ms",
        *_CHILDREN,
        when=lambda job: bool(job.spec.cron),
    ),
    "held",
    "frozen",
    "waits_for",
    "deadline=deadline_ms",
    "deadline_missed",
    "spec.estimate_ms",
    "spec.timeout_ms",
    "checkpoint_at_ms",
    "evictable_from=until_ms",
    "spent",
    "submitted_at_ms",
    "started_at_ms",
    "ended_at_ms",
)

#: What a task uses. `cpu`: CPUs in use now; `*_stalled_s`: how long at least one of its processes waited.
task_usage_json = Document(
    TaskUsage, "id=task_id", "job=job_id", "node=node_id", "cpu=cpu_milli", "usage.*", measured=True
)
usage_json = Document(TaskUsage, "cpu=cpu_milli", "usage.*", measured=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TaskLine:
    """A task in the document of its job."""

    task: Task
    #: What its group asks for.
    resources: Resources
    usage: TaskUsage

    @property
    def node(self) -> str | None:
        return self.task.node_id or None


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobWithTasks:
    """A job with its tasks. `reason` and `detail`: its own, or why it waits."""

    job: Job
    reason: str
    detail: str
    failed_elements: tuple[str, ...]
    tasks: tuple[_TaskLine, ...]


Document(
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
    "task.attempt",
    "task.started_at_ms",
    "task.ended_at_ms",
    "cpus=resources.cpu_millis",
    "task.gpus",
    using("usage", usage_json),
)
_job_with_tasks = Document(
    _JobWithTasks,
    *job_json.under("job"),
    "reason",
    "detail",
    part(
        "array",
        "job.spec.array.size",
        *[f"job.{name}" for name in _CHILDREN],
        "failed_elements",
        when=lambda shown: _is_array(shown.job),
    ),
    "tasks",
)


def job_detail_json(detail: JobDetail, live: Iterable[TaskUsage] = ()) -> Json:
    """Return a job with its tasks; `live`: what those of them use that hold a place now."""
    job, why = detail.job, detail.waiting_for
    uses = {use.task_id: use for use in live}
    asked = {group.name: group.resources for group in job.spec.groups}
    shown = _JobWithTasks(
        job=job,
        reason=job.reason or (why.code if why else ""),
        detail=why.message if why and not job.reason else job.detail,
        failed_elements=detail.failed_elements,
        tasks=tuple([_task_line(task, asked[task.group], uses.get(task.id)) for task in detail.tasks]),
    )
    return _job_with_tasks(shown)


def _task_line(task: Task, resources: Resources, live: TaskUsage | None) -> _TaskLine:
    if live is None or not task.state.is_active:
        live = TaskUsage(task_id=task.id, job_id=task.job_id, node_id=task.node_id, cpu_milli=0, usage=task.usage)
    return _TaskLine(task=task, resources=resources, usage=live)


# Nodes

Document(Taint)
Document(Hardware)

node_json = Document(
    NodeDetail,
    "node.id",
    "node.name",
    "node.address",
    "node.state",
    "node.reason",
    "node.labels",
    "node.taints",
    "node.gpu_model",
    "node.closed_by",
    "drain_by=node.drain_by_ms",
    "node.failing",
    "node.isolation",
    "node.hardware",
    part("resources", "total=node.capacity", "used"),
    "tasks",
    "heartbeat_age_ms",
    "node.registered_at_ms",
    measured=True,
)


def _cpu_pressure(usage: NodeUsage) -> float | None:
    return _share(usage.cpu_pressure_milli)


def _memory_pressure(usage: NodeUsage) -> float | None:
    return _share(usage.memory_pressure_milli)


def _io_pressure(usage: NodeUsage) -> float | None:
    return _share(usage.io_pressure_milli)


def _share(milli: int) -> float | None:
    return None if milli < 0 else milli / 1000


Document(GpuUsage, measured=True)

#: What a node uses now. Pressure: the share of the last 10 s in which some task waited; null: not known.
node_usage_json = Document(
    NodeUsage,
    "cpu_milli",
    "memory_bytes",
    "disk_bytes",
    part("pressure", made("cpu", _cpu_pressure), made("memory", _memory_pressure), made("io", _io_pressure)),
    "gpus",
    "age_ms",
    measured=True,
)


# Queues, quotas and the cluster

#: 0 and empty: no such rule.
queue_json = Document(
    QueueStatus,
    "id=path",
    "name=path",
    "type",
    "rules.order",
    "rules.weight",
    "rules.capacity_pct",
    "rules.max_pct",
    "rules.guaranteed",
    "rules.limit",
    "rules.max_running_jobs",
    "rules.tenants",
    "rules.half_life_ms",
    "rules.preemption",
    "pending",
    "running",
    all_amounts("used"),
    all_amounts("demand"),
    "fair_share",
    "ceiling",
)
#: Short: clients read the status to find the masters.
_queue_line = Document(QueueStatus, "name=path", "type", "pending", "running", all_amounts("used"))

quota_json = Document(
    QuotaStatus,
    "id=quota.tenant",
    "quota.tenant",
    "quota.limit",
    "quota.max_running_jobs",
    all_amounts("used"),
    "running_jobs",
    "spent",
)

Document(MasterStatus, measured=True)
Document(BackupStatus, "last_success_at=last_success_ms", "last_bytes", "failures", "problem")
member_json = Document(MasterMember, "name=id", "id", "address", "role", "healthy", "behind", "grpc_address")

status_json = Document(
    Status,
    "leader",
    "epoch",
    "revision",
    "masters",
    "nodes",
    "nodes_ready",
    "jobs",
    "pending",
    "running",
    part("resources", "total", "used"),
    using("queues", _queue_line),
    "state_bytes",
    "state_bytes_limit",
    optional("digest"),
    "version",
    part("clock", "at=clock_ms", "problem=clock_problem"),
    "feature_level",
    "newest_feature_level",
    "backup",
)


# Explanations and plans


def _position(explanation: JobExplanation) -> int | None:
    return explanation.position or None


def _by_node(record: JobExplanation | PlannedJob) -> tuple[NodeTasks, ...]:
    """Return each node once; several task groups may run on it."""
    tasks: dict[str, int] = {}
    for node, count in record.nodes:
        tasks[node] = tasks.get(node, 0) + count
    return tuple([NodeTasks(node, count) for node, count in tasks.items()])


Document(Refused)
Document(NodeTasks, "node=node_id", "tasks")
Document(Holder, "id=job_id", "name", "queue", "held", "until=until_ms")
Document(Victim, "id=job_id", "name", "tasks", "whole", "cause", "lost_ms")

_why = Document(
    JobExplanation,
    "code",
    "message",
    made("position", _position),
    "limit",
    "refused",
    "nearest",
    "holders",
    "estimated_start=start_ms",
    "estimated_from=start_from",
    "change",
    "would_evict=victims",
)
explanation_json = Document(
    JobExplanation,
    "job.id",
    "job.spec.name",
    "state=job.shown_state",
    "job.spec.queue",
    "job.spec.tenant",
    *_why.members,
    made("nodes", _by_node),
    part(
        "queue_use",
        all_amounts("queue.used"),
        "queue.fair_share",
        "queue.ceiling",
        when=lambda explanation: explanation.queue is not None,
    ),
    "job.reason",
    "job.detail",
    "job.exit_code",
    "job.submitted_at_ms",
    "job.started_at_ms",
    "job.placed_at_ms",
    "job.ended_at_ms",
)

Document(
    PlannedJob,
    "name",
    "outcome",
    made("nodes", _by_node),
    "victims",
    "start=start_ms",
    using("explanation", _why),
    "warnings",
)
Document(MovedStart, "id=job_id", "name", "before=before_ms", "after=after_ms")
plan_json = Document(JobPlan, "revision", "jobs", "moved")


# Reservations


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reservation:
    """One shape for all kinds: a window that an operator made, the reserved start of a job, the fence around the
    capacity for a job whose victims have not ended."""

    #: The window's name, or the job's id.
    id: str
    #: window, start or fence.
    kind: str
    start_ms: int
    #: 0: open.
    end_ms: int = 0
    nodes: tuple[str, ...]
    #: Of a window: what may run there. Neither queues nor tenants: nothing may.
    queues: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    reason: str


_reservation = Document(
    _Reservation, "id", "kind", "start=start_ms", "end=end_ms", "nodes", "queues", "tenants", "reason"
)


def reserved_json(reserved: Reserved) -> list[Json]:
    return [
        *(window_json(window) for window in reserved.windows),
        *(_reservation(_start(start)) for start in reserved.reservations),
        *(_reservation(_fence(fence)) for fence in reserved.fences),
    ]


def window_json(window: Window) -> Json:
    own = {name: getattr(window, name) for name in ("start_ms", "end_ms", "nodes", "queues", "tenants", "reason")}
    return _reservation(_Reservation(id=window.name, kind="window", **own))


def _start(start: Reservation) -> _Reservation:
    return _Reservation(
        id=start.job_id,
        kind="start",
        start_ms=start.start_ms,
        end_ms=start.end_ms,
        nodes=tuple(sorted({share.node_id for share in start.shares})),
        reason="deadline" if start.for_deadline else "",
    )


def _fence(fence: Fence) -> _Reservation:
    return _Reservation(
        id=fence.job_id,
        kind="fence",
        start_ms=fence.made_at_ms,
        nodes=tuple(sorted({task.node_id for task in fence.tasks})),
        reason="its victims have not ended yet",
    )
