"""What agents say in registrations and heartbeats, as records.

Rule: whatever an agent sends is bounded here, in number, length and size; beyond this module it is taken as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from gosched.core.commands.nodes import RegisterNode, TaskReport
from gosched.core.limits import MAX_AMOUNT, MAX_DETAIL_LENGTH, MAX_GPUS, MAX_NAME_LENGTH
from gosched.core.records.node import Hardware
from gosched.core.records.task import TaskState
from gosched.core.records.usage import NO_USAGE, Usage
from gosched.core.resources import Resources
from gosched.core.spec.placement_rules import Taint
from gosched.master.base.errors import invalid, parsed
from gosched.wire.codec import map_pairs, to_record
from gosched.wire.v1 import node_pb2, types_pb2

MAX_TASKS_OBSERVED = 100_000

_REPORTED = frozenset(
    {TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING}
    | {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED, TaskState.LOST}
)


def observations(messages: Iterable[node_pb2.TaskObservation]) -> list[TaskReport]:
    """Raises ApiError."""
    observed = [_observation(message) for message in messages]
    if len(observed) > MAX_TASKS_OBSERVED:
        raise invalid(f"{len(observed)} tasks on one node; at most {MAX_TASKS_OBSERVED} can be reported")
    return observed


def registration(request: node_pb2.RegisterNodeRequest) -> RegisterNode:
    """Raises ApiError."""
    return RegisterNode(
        node_id=request.node_id,
        name=request.name,
        address=request.address,
        incarnation=request.incarnation,
        capacity=parsed(request.capacity, Resources),
        gpu_model=request.gpu_model,
        labels=map_pairs(request.labels),
        taints=tuple([parsed(taint, Taint) for taint in request.taints]),
        hardware=parsed(request.hardware, Hardware),
        isolation=_line(request.isolation, MAX_DETAIL_LENGTH),
    )


def node_usage(message: node_pb2.NodeUsage) -> node_pb2.NodeUsage:
    """A copy to keep: it goes out again as it came in."""
    kept = node_pb2.NodeUsage()
    kept.CopyFrom(message)
    del kept.gpus[MAX_GPUS:]
    for gpu in kept.gpus:
        gpu.name, gpu.uuid = _line(gpu.name, MAX_NAME_LENGTH), _line(gpu.uuid, MAX_NAME_LENGTH)
        gpu.problem = _line(gpu.problem, MAX_DETAIL_LENGTH)
    return kept


def _observation(message: node_pb2.TaskObservation) -> TaskReport:
    state = int(message.state)
    if state not in _REPORTED:
        raise invalid(f"task {message.allocation_id!a} is reported in a state that no agent can see")
    return TaskReport(
        allocation_id=message.allocation_id,
        state=TaskState(state),
        exit_code=message.exit_code if message.HasField("exit_code") else None,
        reason=_line(message.reason, MAX_NAME_LENGTH),
        detail=_line(message.detail, MAX_DETAIL_LENGTH),
        started_at_ms=message.started_at_ms,
        ended_at_ms=message.ended_at_ms,
        checkpoint_at_ms=message.checkpoint_at_ms,
        usage=_usage(message.usage, TaskState(state)) if message.HasField("usage") else NO_USAGE,
        frozen=message.frozen,
        blames_node=message.blames_node,
    )


def _line(text: str, limit: int) -> str:
    """Texts of runtimes and of tasks may hold anything: what comes of them is one line that can be printed."""
    return "".join(c if c.isprintable() else " " for c in text[:limit])


def _usage(message: types_pb2.Usage, state: TaskState) -> Usage:
    """Counters of a kernel: what cannot be one does not get into the log, and so into a tenant's account."""
    usage = to_record(message, Usage)
    if not state.is_final:
        return usage
    return Usage(**{f.name: min(max(getattr(usage, f.name), 0), MAX_AMOUNT) for f in fields(Usage)})
