"""What the client returns of nodes and tasks at work: who stays on a drained node, and what is used now."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.usage import Usage
from gosched.wire.codec import to_record
from gosched.wire.v1 import node_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeControlled:
    """`unchanged`: it was so already. `staying`: ids of jobs that a drain leaves there until they end, or its deadline
    comes: they cannot start again elsewhere."""

    node_id: str
    unchanged: bool
    staying: tuple[str, ...]

    @staticmethod
    def of(message: node_pb2.ControlNodeResponse) -> NodeControlled:
        return NodeControlled(node_id=message.node_id, unchanged=message.unchanged, staying=tuple(message.staying))


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUsage:
    """`busy_milli`: thousandths of the time. `problem`: why it takes no work."""

    gpu: int
    name: str
    uuid: str
    busy_milli: int
    memory_bytes: int
    problem: str

    @staticmethod
    def of(message: node_pb2.GpuUsage) -> GpuUsage:
        return GpuUsage(
            gpu=message.gpu,
            name=message.name,
            uuid=message.uuid,
            busy_milli=message.busy_milli,
            memory_bytes=message.memory_bytes,
            problem=message.problem,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUsage:
    """What a node uses now, `age_ms` ago. Pressure: thousandths of the last 10 s in which some task waited; -1: not
    known. `version`: of its agent; empty: of a release that does not say."""

    node_id: str
    name: str
    cpu_milli: int
    memory_bytes: int
    disk_bytes: int
    cpu_pressure_milli: int
    memory_pressure_milli: int
    io_pressure_milli: int
    gpus: tuple[GpuUsage, ...]
    age_ms: int
    version: str = ""

    @staticmethod
    def of(message: node_pb2.NodeUsageView) -> NodeUsage:
        usage = message.usage
        return NodeUsage(
            node_id=message.node_id,
            name=message.name,
            cpu_milli=usage.cpu_milli,
            memory_bytes=usage.memory_bytes,
            disk_bytes=usage.disk_bytes,
            cpu_pressure_milli=usage.cpu_pressure_milli,
            memory_pressure_milli=usage.memory_pressure_milli,
            io_pressure_milli=usage.io_pressure_milli,
            gpus=tuple(GpuUsage.of(gpu) for gpu in usage.gpus),
            age_ms=message.age_ms,
            version=message.version,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUsage:
    """A task that holds a place, and what it uses. `cpu_milli`: CPUs in use, by its node's last two heartbeats."""

    task_id: str
    job_id: str
    node_id: str
    cpu_milli: int
    usage: Usage

    @staticmethod
    def of(message: node_pb2.TaskUsageView) -> TaskUsage:
        return TaskUsage(
            task_id=message.task_id,
            job_id=message.job_id,
            node_id=message.node_id,
            cpu_milli=message.cpu_milli,
            usage=to_record(message.usage, Usage),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveUsage:
    """By the agents' newest heartbeats; a node whose agent has sent none to this leader is not named."""

    nodes: tuple[NodeUsage, ...]
    tasks: tuple[TaskUsage, ...]

    @staticmethod
    def of(message: node_pb2.ListUsageResponse) -> LiveUsage:
        return LiveUsage(
            nodes=tuple(NodeUsage.of(view) for view in message.nodes),
            tasks=tuple(TaskUsage.of(view) for view in message.tasks),
        )
