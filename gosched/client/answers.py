"""What the client's calls return beside the records of `gosched.api`: mostly what became of a change."""

from __future__ import annotations

from dataclasses import dataclass, fields

from gosched.api.details import NodeDetail
from gosched.api.usage import HostUsage, LiveUsage, NodeUsage, TaskUsage
from gosched.core.records.node import Node
from gosched.core.records.window import Window
from gosched.core.resources import Resources
from gosched.wire.codec import to_record
from gosched.wire.v1 import node_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReset:
    """What the state's clock was and is."""

    from_ms: int
    to_ms: int
    #: It was right already.
    unchanged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded:
    """The cluster's feature level."""

    feature_level: int
    #: It was so already.
    unchanged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A job that was taken."""

    job_id: str
    warnings: tuple[str, ...]
    #: A live job of this name and spec was there already.
    unchanged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Controlled:
    """A job that was held, released, suspended, resumed, requeued or frozen."""

    job_id: str
    #: It was so already.
    unchanged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeControlled:
    """A node that was cordoned, uncordoned, drained or removed."""

    node_id: str
    #: It was so already.
    unchanged: bool
    #: Of a drain: ids of jobs that cannot start again elsewhere. They stay until they end, or the drain's deadline.
    staying: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSet:
    """A window that was made or changed."""

    #: With the nodes that were chosen.
    window: Window
    #: Ids of running jobs that may not have ended by its start, and cannot be evicted.
    in_the_way: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Bytes that one task wrote to one stream; or a note for people, without data."""

    task_id: str
    allocation_id: str
    #: stdout or stderr; empty: of a note.
    stream: str
    #: Of the first byte, since the start of the stream.
    offset: int
    data: bytes
    note: str = ""


def node_detail(message: node_pb2.NodeView) -> NodeDetail:
    """Return the record of a message whose age is negative when there is none."""
    return NodeDetail(
        node=to_record(message.node, Node),
        used=to_record(message.used, Resources),
        tasks=message.tasks,
        heartbeat_age_ms=None if message.heartbeat_age_ms < 0 else message.heartbeat_age_ms,
    )


def live_usage(message: node_pb2.ListUsageResponse) -> LiveUsage:
    return LiveUsage(
        nodes=tuple([node_usage(view) for view in message.nodes]),
        tasks=tuple([to_record(view, TaskUsage) for view in message.tasks]),
    )


def node_usage(view: node_pb2.NodeUsageView) -> NodeUsage:
    host = to_record(view.usage, HostUsage)
    measured = {field.name: getattr(host, field.name) for field in fields(HostUsage)}
    own = {field.name: getattr(view, field.name) for field in fields(NodeUsage) if field.name not in measured}
    return NodeUsage(**measured, **own)
