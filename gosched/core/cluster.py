"""The cluster's own records: nodes, allocations, queues, tenants, masters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.job import Named, StringMap
from gosched.core.resources import Resources


class NodeState(Named):
    UNSPECIFIED = 0
    READY = 1
    CORDONED = 2
    DRAINING = 3
    DEAD = 4


class QueueType(IntEnum):
    UNSPECIFIED = 0
    FIFO = 1
    FAIR = 2
    CAPACITY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine with an agent. `incarnation` names one boot of that agent."""

    id: str
    name: str
    address: str
    capacity: Resources
    gpu_model: str = ""
    labels: StringMap = ()
    state: NodeState = NodeState.READY
    reason: str = ""
    incarnation: str
    registered_at_ms: int
    changed_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What a task holds on a node, from the commit of its placement to its end."""

    id: str
    task_id: str
    job_id: str
    node_id: str
    resources: Resources
    gpus: tuple[int, ...] = ()
    placed_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    path: str
    type: QueueType = QueueType.FIFO
    weight: int = 1
    capacity_pct: int = 0
    max_pct: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Who is charged. Made by the first job that names it."""

    name: str
    created_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Master:
    """Where a master's front listens, as it said itself."""

    id: str
    grpc_address: str
    http_address: str
