"""Listings of nodes, in pages by id.

A page is filled in slices of time, between which the event loop turns; so is an answer with all nodes, for callers that
ask for no pages.

Invariant: pages that follow one another by tokens show no node twice, and leave none out that was there all the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.records.node import Node
from gosched.core.resources import ZERO
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.errors import invalid
from gosched.master.base.turns import sliced
from gosched.wire.codec import fill, map_pairs
from gosched.wire.v1 import node_pb2

MAX_PAGE = 1000


async def list_nodes(
    state: Callable[[], ClusterState], request: node_pb2.ListNodesRequest, age_ms: Callable[[str], int]
) -> node_pb2.ListNodesResponse:
    """Return the nodes that are asked for, each as it is when its turn comes. `age_ms`: of a node's last heartbeat.
    Raises ApiError."""
    size = _page_size(request)
    wanted = map_pairs(request.labels)
    answer = node_pb2.ListNodesResponse(revision=state().revision)
    async for node_id in sliced(_ids(state(), request)):
        node = state().nodes.get(node_id)  # it may have been removed since
        if node is None or not all(pair in node.labels for pair in wanted):
            continue
        if len(answer.nodes) == size:
            answer.next_page_token = answer.nodes[-1].node.id
            break
        _fill(answer, state(), node, age_ms(node_id))
    return answer


def _page_size(request: node_pb2.ListNodesRequest) -> int:
    """Return how many nodes the answer has at most; -1: all."""
    if request.page_size < 0:
        raise invalid(f"page_size {request.page_size} must not be negative")
    if len(request.page_token) > MAX_NAME_LENGTH:
        raise invalid("page_token is not one that this cluster gave: begin with the first page")
    return min(request.page_size, MAX_PAGE) or -1


def _ids(state: ClusterState, request: node_pb2.ListNodesRequest) -> Iterable[str]:
    """Return the ids of nodes that may be meant, in order."""
    if request.node in state.nodes:
        return [request.node]
    if request.node:
        return sorted([node.id for node in state.nodes.values() if node.name == request.node])
    return sorted([node_id for node_id in state.nodes if node_id > request.page_token])


def _fill(answer: node_pb2.ListNodesResponse, state: ClusterState, node: Node, age_ms: int) -> None:
    view = answer.nodes.add(tasks=len(state.node_allocations[node.id]), heartbeat_age_ms=age_ms)
    fill(node, view.node)
    fill(state.usage.get(node.id, ZERO), view.used)
