"""Nodes and their usage as NodeService answers them, as records."""

from __future__ import annotations

from dataclasses import fields

from gosched.api.details import NodeDetail
from gosched.api.usage import HostUsage, LiveUsage, NodeUsage, TaskUsage
from gosched.core.records.node import Node
from gosched.core.resources import Resources
from gosched.wire.codec import to_record
from gosched.wire.v1 import node_pb2


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
