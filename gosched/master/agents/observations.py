"""What agents send in registrations and heartbeats, as records.

Invariant: whatever an agent sends is bounded here, in number, length and size; beyond this module it is taken as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from gosched.core.commands.nodes import RegisterNode, TaskReport
from gosched.core.limits import MAX_AMOUNT, MAX_DETAIL_LENGTH, MAX_GPUS, MAX_NAME_LENGTH
from gosched.core.records.task import TaskState
from gosched.core.records.usage import Usage
from gosched.master.base.errors import invalid, parsed
from gosched.wire.codec import to_record
from gosched.wire.v1 import node_pb2, types_pb2

MAX_TASKS_OBSERVED = 100_000
MAX_SPARK_STAGES = 8
MAX_SPARK_NAME_LENGTH = 120

_REPORTED = frozenset(
    {TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING}
    | {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED, TaskState.LOST}
)


def observations(messages: Iterable[types_pb2.TaskReport]) -> list[TaskReport]:
    """Return the reports, bounded. Raises ApiError."""
    observed = [_observation(message) for message in messages]
    if len(observed) > MAX_TASKS_OBSERVED:
        raise invalid(f"{len(observed)} tasks on one node; at most {MAX_TASKS_OBSERVED} can be reported")
    return observed


def registration(request: node_pb2.RegisterNodeRequest) -> RegisterNode:
    """Return the command that registers the node, bounded. Raises ApiError."""
    described = parsed(request, RegisterNode)
    return replace(described, isolation=_line(described.isolation, MAX_DETAIL_LENGTH))


def node_usage(message: node_pb2.NodeUsage) -> node_pb2.NodeUsage:
    """Return a bounded copy to keep: it goes out again as it came in."""
    kept = node_pb2.NodeUsage()
    kept.CopyFrom(message)
    del kept.gpus[MAX_GPUS:]
    for gpu in kept.gpus:
        gpu.name, gpu.uuid = _line(gpu.name, MAX_NAME_LENGTH), _line(gpu.uuid, MAX_NAME_LENGTH)
        gpu.problem = _line(gpu.problem, MAX_DETAIL_LENGTH)
    return kept


def spark_progress(
    said: Mapping[str, node_pb2.SparkProgress], observed: Iterable[TaskReport]
) -> dict[str, node_pb2.SparkProgress]:
    """Return bounded copies to keep, of tasks that run. An address that is no web page's is left out."""
    running = [report.allocation_id for report in observed if not report.state.is_final]
    return {id: _bounded_progress(said[id]) for id in running if id in said}


def _bounded_progress(message: node_pb2.SparkProgress) -> node_pb2.SparkProgress:
    kept = node_pb2.SparkProgress(
        application=_line(message.application, MAX_NAME_LENGTH),
        ui=_address(message.ui),
        history=_address(message.history),
        more_stages=max(0, message.more_stages),
        executors=max(0, message.executors) if message.HasField("executors") else None,
    )
    for stage in message.stages[:MAX_SPARK_STAGES]:
        kept.stages.add(  # field by field: what this release does not know may be of any size
            id=stage.id,
            attempt=stage.attempt,
            name=_line(stage.name, MAX_SPARK_NAME_LENGTH),
            tasks=stage.tasks,
            done=stage.done,
            running=stage.running,
            failed=stage.failed,
        )
    return kept


def _address(text: str) -> str:
    is_good = text.startswith(("http://", "https://")) and len(text) <= MAX_DETAIL_LENGTH
    return text if is_good and text.isprintable() and not set(text) & set(' "<>') else ""


def _observation(message: types_pb2.TaskReport) -> TaskReport:
    if int(message.state) not in _REPORTED:
        raise invalid(f"task {message.allocation_id!a} is reported in a state that no agent can see")
    seen = to_record(message, TaskReport)
    return replace(
        seen,
        reason=_line(seen.reason, MAX_NAME_LENGTH),
        detail=_line(seen.detail, MAX_DETAIL_LENGTH),
        usage=_bounded(seen.usage) if seen.state.is_final else seen.usage,
    )


def _line(text: str, limit: int) -> str:
    """Return one line that can be printed: texts of runtimes and of tasks may hold anything."""
    return "".join(c if c.isprintable() else " " for c in text[:limit])


def _bounded(usage: Usage) -> Usage:
    """Return counters of a kernel: what cannot be one gets neither into the log nor into a tenant's account."""
    return Usage(**{f.name: min(max(getattr(usage, f.name), 0), MAX_AMOUNT) for f in fields(Usage)})
