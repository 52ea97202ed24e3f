"""The client's calls about nodes: what they are and use, and their control by operators."""

from __future__ import annotations

from collections.abc import Mapping

from gosched.api.details import NodeDetail
from gosched.api.usage import LiveUsage
from gosched.client.answers import NodeControlled, live_usage, node_detail
from gosched.client.calls import Calls
from gosched.client.errors import NotFound, Refused
from gosched.wire.v1 import node_pb2
from gosched.wire.v1.node_pb2_grpc import NodeServiceStub


class NodeCalls(Calls):
    """What the NodeService answers to users."""

    def list_nodes(self, *, labels: Mapping[str, str] | None = None) -> list[NodeDetail]:
        request = node_pb2.ListNodesRequest(labels=labels or {})
        return [node_detail(view) for view in self._call(NodeServiceStub, "ListNodes", request).nodes]

    def get_node(self, node: str) -> NodeDetail:
        """Return a node by its id or name. Raises Refused when several nodes have that name."""
        nodes = self.list_nodes()
        found = [n for n in nodes if n.node.id == node] or [n for n in nodes if n.node.name == node]
        if not found:
            raise NotFound(f"there is no node {node!a}")
        if len(found) > 1:
            ids = ", ".join(sorted(n.node.id for n in found))
            raise Refused(f"{len(found)} nodes are named {node!a}: say which by its id: {ids}")
        return found[0]

    def list_usage(self, *, job: str = "", node: str = "", tasks: bool = False) -> LiveUsage:
        """Return what is used now: by all nodes, or by one with this id; with `tasks` by their tasks, too. Or by the
        tasks of one job, by its id or name."""
        request = node_pb2.ListUsageRequest(job=job, node=node, tasks=tasks)
        return live_usage(self._call(NodeServiceStub, "ListUsage", request))

    def cordon(self, node: str, *, reason: str = "", request_id: str | None = None) -> NodeControlled:
        """Close a node, by its id or name: it gets no new work; what runs there goes on."""
        return self._control_node("CordonNode", node, reason, request_id)

    def uncordon(self, node: str, *, request_id: str | None = None) -> NodeControlled:
        """Open a node again, by its id or name, whatever closed it."""
        return self._control_node("UncordonNode", node, "", request_id)

    def drain(
        self, node: str, *, reason: str = "", deadline_s: float | None = None, request_id: str | None = None
    ) -> NodeControlled:
        """Empty a node, by its id or name: it gets no new work, and what can start again elsewhere is evicted at once.
        What cannot runs until it ends, or is stopped after `deadline_s`."""
        return self._control_node("DrainNode", node, reason, request_id, deadline_s)

    def remove_node(self, node: str, *, request_id: str | None = None) -> NodeControlled:
        """Forget a node that is DEAD, by its id, or by a name that no other node has."""
        return self._control_node("RemoveNode", node, "", request_id)

    def _control_node(
        self, method: str, node: str, reason: str, request_id: str | None, deadline_s: float | None = None
    ) -> NodeControlled:
        request = node_pb2.ControlNodeRequest(
            **self._identity(request_id),
            node=node,
            reason=reason,
            drain_in_ms=0 if deadline_s is None else max(1, int(deadline_s * 1000)),
        )
        answer = self._change(NodeServiceStub, method, request)
        return NodeControlled(node_id=answer.node_id, unchanged=answer.unchanged, staying=tuple(answer.staying))
