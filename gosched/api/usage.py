"""What nodes and tasks use now, by the agents' newest heartbeats."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.api.spark import SparkProgress
from gosched.core.records.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUsage:
    """One GPU of a node."""

    #: Its number on the node.
    gpu: int
    name: str
    uuid: str
    #: Thousandths of the time.
    busy_milli: int
    memory_bytes: int
    #: Why it takes no work; empty: it does.
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUsage:
    """What an agent measures of its host. Pressure: thousandths of the last 10 s in which some task waited; -1: not
    known."""

    #: CPUs in use, in thousandths.
    cpu_milli: int
    memory_bytes: int
    #: Of the file system that tasks write to.
    disk_bytes: int
    cpu_pressure_milli: int
    memory_pressure_milli: int
    io_pressure_milli: int
    gpus: tuple[GpuUsage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUsage(HostUsage):
    """What a node uses."""

    node_id: str
    name: str
    #: How old the figures are.
    age_ms: int
    #: The release of its agent; empty: one that does not say.
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUsage:
    """What a task uses that holds a place."""

    task_id: str
    job_id: str
    node_id: str
    #: CPUs in use, in thousandths, by its node's last two heartbeats.
    cpu_milli: int
    usage: Usage
    #: Of the driver of an application of Spark. None: it is none, or the application does not answer.
    spark: SparkProgress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveUsage:
    """What is used now. A node whose agent has sent no heartbeat to this leader is not named."""

    nodes: tuple[NodeUsage, ...]
    tasks: tuple[TaskUsage, ...]
