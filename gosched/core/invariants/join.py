"""Tokens to join with and nodes that joined: in their places, and as the rules allow."""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.limits import MAX_JOIN_TOKENS, MAX_NODES
from gosched.core.rules.join import check_hosts, check_join_token
from gosched.core.state.cluster_state import ClusterState


def join_problems(state: ClusterState) -> Iterator[str]:
    if len(state.join_tokens) > MAX_JOIN_TOKENS:
        yield f"there are {len(state.join_tokens)} join tokens"
    if len(state.joined_nodes) > MAX_NODES:
        yield f"there are {len(state.joined_nodes)} nodes that joined"
    for key, token in state.join_tokens.items():
        if key != token.id:
            yield f"join token {key} is in the wrong place"
        if found := check_join_token(token):
            yield f"join token {token.id} breaks a rule: {found}"
        if bool(token.used_key) != bool(token.used_by):
            yield f"join token {token.id} was used by a key without a node, or by a node without a key"
    for key, joined in state.joined_nodes.items():
        if key != joined.name:
            yield f"joined node {key} is in the wrong place"
        if found := check_hosts(joined.hosts):
            yield f"joined node {key} breaks a rule: {found}"
