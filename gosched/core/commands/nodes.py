"""Commands about nodes, and the reports of their agents."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.primitives import StringMap
from gosched.core.records.node import UNKNOWN_HARDWARE, ClosedBy, Hardware
from gosched.core.records.task import TaskState
from gosched.core.records.usage import NO_USAGE, Usage
from gosched.core.resources import Resources
from gosched.core.spec.placement_rules import Taint


class NodeAction(IntEnum):
    """CORDON: no new work. DRAIN: and what is there leaves, what can start again elsewhere at once. UNCORDON ends
    both."""

    UNSPECIFIED = 0
    CORDON = 1
    UNCORDON = 2
    DRAIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNode:
    """The agent has no task that the state does not know: its leftovers are gone."""

    node_id: str
    name: str
    address: str
    incarnation: str
    capacity: Resources
    gpu_model: str = ""
    labels: StringMap = ()
    taints: tuple[Taint, ...] = ()
    hardware: Hardware = UNKNOWN_HARDWARE
    isolation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlNode:
    """`node_id`: id or name. `by`: who wants it; one that another has closed stays closed, but to an OPERATOR.
    `drain_by_ms`: of a drain, when what is still there is stopped; 0: never."""

    node_id: str
    action: NodeAction
    by: ClosedBy
    reason: str = ""
    drain_by_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkNodeDead:
    """Refused when the node has registered anew meanwhile (other incarnation)."""

    node_id: str
    incarnation: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveNode:
    """`node_id`: id or name. Refused unless the node is DEAD."""

    node_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What an agent saw: RUNNING, a checkpoint, or an end. A task that checkpoints while it is STOPPING has saved
    itself. `usage` of a live task, and `frozen`, do not enter the log. `blames_node`: it ended badly, and not by its
    own fault."""

    allocation_id: str
    state: TaskState
    exit_code: int | None = None
    reason: str = ""
    detail: str = ""
    started_at_ms: int = 0
    ended_at_ms: int = 0
    checkpoint_at_ms: int = 0
    usage: Usage = NO_USAGE
    frozen: bool = False
    blames_node: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTasks:
    node_id: str
    incarnation: str
    reports: tuple[TaskReport, ...]
