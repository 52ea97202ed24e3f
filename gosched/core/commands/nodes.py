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
    """What is done to a node."""

    UNSPECIFIED = 0
    #: It takes no new work.
    CORDON = 1
    #: It takes work again.
    UNCORDON = 2
    #: It takes no new work, and what can start again elsewhere is evicted at once.
    DRAIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNode:
    """Adds a node, or news of one. Its agent has no task that the state does not know."""

    #: Chosen by the agent, and kept across its restarts.
    node_id: str
    #: For people; empty: the id.
    name: str
    #: host:port of the agent.
    address: str
    #: Names one boot of the agent.
    incarnation: str
    #: All that the node offers.
    capacity: Resources
    #: Of all its GPUs; empty: none.
    gpu_model: str = ""
    #: Sorted by key.
    labels: StringMap = ()
    taints: tuple[Taint, ...] = ()
    hardware: Hardware = UNKNOWN_HARDWARE
    #: What the agent cannot enforce, in one line; empty: nothing.
    isolation: str = ""
    #: Whether the agent tells registrations apart by their numbers.
    numbered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlNode:
    """Closes a node, or opens it."""

    #: Id or name.
    node_id: str
    action: NodeAction
    #: What asks; a node that something else has closed stays closed, but to an OPERATOR.
    by: ClosedBy
    #: One line for people; may be empty.
    reason: str = ""
    #: Of a drain, when what is still there is stopped; 0: never.
    drain_by_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkNodeDead:
    """Says that the lease of a node is over."""

    node_id: str
    #: Refused if the node has registered anew meanwhile.
    incarnation: str
    #: One line for people.
    reason: str = ""
    #: Refused if it is not that of the node; 0: it is not compared.
    registration: int = 0
    #: When masters last heard of it, in ms since 1970 by the clock of the state; 0: it is not known.
    heard_at_ms: int = 0
    #: How long it has been silent beyond its lease. Members that may live on there for longer, and that their gangs do
    #: without, keep their places, and the node is closed; 0: all is lost.
    waited_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitNode:
    """Says that the agent of a node was stopped, and for how long the node's tasks wait for it to come back."""

    node_id: str
    #: Refused unless it is that of the node, as `registration`.
    incarnation: str
    registration: int
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveNode:
    """Forgets a node. Refused unless it is DEAD."""

    #: Id or name.
    node_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelNode:
    """Sets and drops labels and taints of an operator. Those of the agent's config are not changed by it."""

    #: Id or name.
    node_id: str
    #: Labels to set.
    labels: StringMap = ()
    #: Keys of labels to drop.
    drop_labels: tuple[str, ...] = ()
    #: Taints to set; one of the same key and effect is replaced.
    taints: tuple[Taint, ...] = ()
    #: Taints to drop: `key` or `key:effect`.
    drop_taints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What an agent saw of a task: RUNNING, a checkpoint, or an end."""

    #: Names the start of the task.
    allocation_id: str
    #: As the agent sees it.
    state: TaskState
    #: None: it has not ended, or it is not known.
    exit_code: int | None = None
    #: One code; empty: there is none.
    reason: str = ""
    #: One line for people; may be empty.
    detail: str = ""
    #: By the clock of the node; 0: it has not started.
    started_at_ms: int = 0
    #: By the clock of the node; 0: it has not ended.
    ended_at_ms: int = 0
    #: When it last saved itself; a task that does so while it is STOPPING has saved itself. 0: never.
    checkpoint_at_ms: int = 0
    #: Of a live task it does not enter the log.
    usage: Usage = NO_USAGE
    #: It stands still. Does not enter the log.
    frozen: bool = False
    #: It ended badly, and not by its own fault.
    blames_node: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTasks:
    """Reports of an agent, on tasks of its node."""

    node_id: str
    #: Refused unless it is that of the node.
    incarnation: str
    #: In the order in which it saw them.
    reports: tuple[TaskReport, ...]
    #: Refused if it is not that of the node; 0: the agent knows of no such number.
    registration: int = 0
