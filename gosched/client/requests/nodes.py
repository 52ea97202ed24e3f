"""Nodes: what they are and use, and their control by operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gosched.client import records
from gosched.client.answers import NodeControlled
from gosched.client.calls import NODES, Call, Pages, names, rpc
from gosched.client.errors import Misused, NotFound, Refused
from gosched.wire.codec import to_message
from gosched.wire.v1 import node_pb2, types_pb2

NODES_PAGE = 500


def list_nodes(*, labels: Mapping[str, str] | None = None) -> Pages[records.NodeDetail]:
    """Return the nodes that have all of these labels."""
    return Pages(
        rpc(NODES, "ListNodes"),
        node_pb2.ListNodesRequest(labels=labels or {}),
        lambda answer: [records.node_detail(view) for view in answer.nodes],
        sizes=(NODES_PAGE, NODES_PAGE),
    )


def get_node(node: str) -> Call[records.NodeDetail]:
    """Return a node by its id or name. Raises Refused when several nodes have that name."""

    def read(answer: node_pb2.ListNodesResponse) -> records.NodeDetail:
        views = answer.nodes
        found = [v for v in views if v.node.id == node] or [v for v in views if v.node.name == node]
        if not found:
            raise NotFound(f"there is no node {node!a}")
        if len(found) > 1:
            ids = ", ".join(sorted(v.node.id for v in found))
            raise Refused(f"{len(found)} nodes are named {node!a}: say which by its id: {ids}")
        return records.node_detail(found[0])

    return Call(rpc=rpc(NODES, "ListNodes"), request=node_pb2.ListNodesRequest(node=node), read=read)


def list_usage(*, job: str = "", node: str = "", tasks: bool = False) -> Call[records.LiveUsage]:
    """Return what is used now: by all nodes, or by one with this id; with `tasks` by their tasks, too. Or by the
    tasks of one job, by its id or name."""
    request = node_pb2.ListUsageRequest(job=job, node=node, tasks=tasks)
    return Call(rpc=rpc(NODES, "ListUsage"), request=request, read=records.live_usage)


def cordon(node: str, *, reason: str = "", request_id: str | None = None) -> Call[NodeControlled]:
    """Close a node, by its id or name: it gets no new work; what runs there goes on."""
    return _control("CordonNode", node, reason, request_id)


def uncordon(node: str, *, request_id: str | None = None) -> Call[NodeControlled]:
    """Open a node again, by its id or name, whatever closed it."""
    return _control("UncordonNode", node, "", request_id)


def drain(
    node: str, *, reason: str = "", deadline_s: float | None = None, request_id: str | None = None
) -> Call[NodeControlled]:
    """Empty a node, by its id or name: it gets no new work, and what can start again elsewhere is evicted at once.
    What cannot runs until it ends, or is stopped after `deadline_s`."""
    if deadline_s is not None and deadline_s < 0:
        raise Misused(f"drain(): deadline_s must not be negative, got {deadline_s:g}")
    return _control("DrainNode", node, reason, request_id, deadline_s)


def remove_node(node: str, *, request_id: str | None = None) -> Call[NodeControlled]:
    """Forget a node that is DEAD, by its id, or by a name that no other node has."""
    return _control("RemoveNode", node, "", request_id)


def label_node(
    node: str,
    *,
    labels: Mapping[str, str] | None = None,
    drop_labels: Sequence[str] = (),
    taints: Sequence[records.Taint] = (),
    drop_taints: Sequence[str] = (),
    request_id: str | None = None,
) -> Call[NodeControlled]:
    """Set and drop labels and taints of a node, by its id or name; those of its agent's config stay as they are.
    `drop_taints`: `key` or `key:effect`."""
    request = node_pb2.LabelNodeRequest(
        **names(request_id),
        node=node,
        labels=labels or {},
        drop_labels=drop_labels,
        taints=[to_message(taint, types_pb2.Taint) for taint in taints],
        drop_taints=drop_taints,
    )
    return Call(rpc=rpc(NODES, "LabelNode"), request=request, read=_controlled, is_change=True)


def _control(
    method: str, node: str, reason: str, request_id: str | None, deadline_s: float | None = None
) -> Call[NodeControlled]:
    request = node_pb2.ControlNodeRequest(
        **names(request_id),
        node=node,
        reason=reason,
        drain_in_ms=0 if deadline_s is None else max(1, int(deadline_s * 1000)),
    )
    return Call(rpc=rpc(NODES, method), request=request, read=_controlled, is_change=True)


def _controlled(answer: Any) -> NodeControlled:
    return NodeControlled(
        node_id=answer.node_id, unchanged=answer.unchanged, staying=tuple(getattr(answer, "staying", ()))
    )
