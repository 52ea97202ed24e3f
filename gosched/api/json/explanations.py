"""The JSON of explanations and plans."""

from __future__ import annotations

from gosched.api.explanation import Holder, JobExplanation, NodeTasks, Victim
from gosched.api.forecast import JobPlan, MovedStart, PlannedJob
from gosched.api.json.document import Document, all_amounts, made, part


def _position(explanation: JobExplanation) -> int | None:
    return explanation.position or None


def _by_node(record: JobExplanation | PlannedJob) -> tuple[NodeTasks, ...]:
    """Return each node once; several task groups may run on it."""
    tasks: dict[str, int] = {}
    for node, count in record.nodes:
        tasks[node] = tasks.get(node, 0) + count
    return tuple([NodeTasks(node, count) for node, count in tasks.items()])


_node_tasks = Document(NodeTasks, "node=node_id", "tasks")
_holder = Document(Holder, "id=job_id", "name", "queue", "held", "until=until_ms")
_victim = Document(Victim, "id=job_id", "name", "tasks", "whole", "cause", "lost_ms")

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
    nested=(_holder, _victim),
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
    "expected_end=expected_end_ms",
    "likely_end=likely_end_ms",
    "job.ended_at_ms",
    nested=(_node_tasks,),
)

_planned = Document(
    PlannedJob,
    "name",
    "outcome",
    made("nodes", _by_node),
    "victims",
    "start=start_ms",
    "expected_end=expected_end_ms",
    "likely_end=likely_end_ms",
    "explanation",
    "warnings",
    nested=(_node_tasks, _victim, _why),
)
_moved = Document(MovedStart, "id=job_id", "name", "before=before_ms", "after=after_ms")
plan_json = Document(JobPlan, "revision", "jobs", "moved", nested=(_planned, _moved))
