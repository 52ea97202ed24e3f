"""Tokens to join with, and the nodes whose agents joined with them.

Invariant: a token is used for one key and one name; no token gives away the name of a node that is there, or is about
to register, unless it names that node exactly, and then the certificates that the name had are renewed no more. The
record of a node that joined outlives it for as long as a certificate of its name may be valid, so an agent that comes
back has the labels of its token still. Nothing is forgotten for having ended by the state's clock, which may be set
back, but when another one needs its place.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from gosched.core.commands.join import CreateJoinToken, RenewJoinedNode, RevokeJoinToken, UseJoinToken
from gosched.core.events import Event, NodeJoined
from gosched.core.limits import MAX_JOIN_REPEAT_MS, MAX_JOIN_TOKENS, MAX_NAME_LENGTH, MAX_NODES
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.records.join import JoinedNode, JoinToken, is_pattern
from gosched.core.records.node import Node
from gosched.core.replace import replace
from gosched.core.rules.finding import text_of
from gosched.core.rules.join import check_hosts, check_join_token
from gosched.core.rules.revocation import check_serial
from gosched.core.rules.values import check_moment, check_name
from gosched.core.state.cluster_state import ClusterState

_AGAIN = "remove `tls` in the agent's data directory, and join again, with a token"


def create(state: ClusterState, command: CreateJoinToken) -> Outcome:
    token = command.token
    found = check_join_token(token)
    if found:
        return Rejected(code=Code.INVALID, detail=str(found))
    if token.used_key or token.used_by or token.used_at_ms:
        return Rejected(code=Code.INVALID, detail=f"join token {token.name} is new and cannot have been used already")
    if token.id in state.join_tokens:
        return Rejected(code=Code.CONFLICT, detail=f"there is a join token {token.id} already")
    if len(state.join_tokens) >= MAX_JOIN_TOKENS:
        first = min(state.join_tokens.values(), key=lambda known: (known.expires_at_ms, known.id))
        if first.expires_at_ms > state.clock_ms:
            detail = f"there are {MAX_JOIN_TOKENS} join tokens, the limit: revoke some"
            return Rejected(code=Code.EXHAUSTED, detail=detail)
        state.drop_join_token(first.id)
    state.put_join_token(token)
    return Accepted(subject=token.id)


def revoke(state: ClusterState, command: RevokeJoinToken) -> Outcome:
    if command.id not in state.join_tokens:
        return Rejected(code=Code.NOT_FOUND, detail=f"there is no join token {command.id[:MAX_NAME_LENGTH]!a}")
    state.drop_join_token(command.id)
    return Accepted(subject=command.id)


def use(state: ClusterState, command: UseJoinToken, events: list[Event]) -> Outcome:
    """Use a token up. The same key may use it again for the same name: its answer was lost."""
    token = state.join_tokens.get(command.id)
    problem = why_unusable(state, command.id, command.digest, command.key, command.node, state.clock_ms)
    if problem or token is None:
        return Rejected(code=Code.NOT_FOUND, detail=problem)
    found = (
        check_name("node", command.node)
        or check_hosts(command.hosts)
        or check_serial(command.certificate)
        or _check_moment(command.ends_at_ms)
    )
    if found:
        return Rejected(code=Code.INVALID, detail=str(found))
    refused = _refusal(state, token, command.node)
    if refused is not None:
        return refused
    if command.node not in state.joined_nodes and len(state.joined_nodes) >= MAX_NODES:
        forgettable = _ended_first(state)
        if forgettable is None:
            return Rejected(code=Code.EXHAUSTED, detail=f"{MAX_NODES} nodes have joined, the limit")
        state.drop_joined_node(forgettable)
    at_ms = token.used_at_ms or state.clock_ms
    before = state.joined_nodes.get(command.node)
    state.put_join_token(replace(token, used_key=command.key, used_by=command.node, used_at_ms=at_ms))
    state.put_joined_node(
        JoinedNode(
            name=command.node,
            labels=token.labels,
            hosts=command.hosts,
            token_id=token.id,
            joined_at_ms=at_ms,
            ends_at_ms=max(before.ends_at_ms if before is not None else 0, command.ends_at_ms),
            certificates=(command.certificate,),
        )
    )
    if not token.used_key:
        events.append(NodeJoined(name=command.node, token_id=token.id))
    return Accepted(subject=command.node, unchanged=bool(token.used_key))


def renew(state: ClusterState, command: RenewJoinedNode) -> Outcome:
    joined = state.joined_nodes.get(command.name)
    if joined is None:
        detail = f"node {command.name[:MAX_NAME_LENGTH]!a} did not join with a token, or was removed"
        return Rejected(code=Code.NOT_FOUND, detail=detail)
    if problem := why_shut_out(state, joined, command.shown):
        return Rejected(code=Code.CONFLICT, detail=problem)
    found = check_hosts(command.hosts) or check_serial(command.certificate) or _check_moment(command.ends_at_ms)
    if found:
        return Rejected(code=Code.INVALID, detail=str(found))
    ends_at_ms = max(joined.ends_at_ms, command.ends_at_ms)
    renewable = (command.certificate, command.shown)
    state.put_joined_node(
        replace(joined, hosts=command.hosts, ends_at_ms=ends_at_ms, removed=False, certificates=renewable)
    )
    return Accepted(subject=joined.name)


def joined_node(state: ClusterState, name: str) -> JoinedNode | None:
    """Return what is known of a node that joined; None: nothing, or its certificates have ended and it is not there."""
    joined = state.joined_nodes.get(name)
    if joined is None or (joined.ends_at_ms <= state.clock_ms and name not in state.nodes):
        return None
    return joined


def why_unusable(state: ClusterState, token_id: str, digest: str, key: str | None, node: str, now_ms: int) -> str:
    """Return why this key may not use a token, for the audit log; empty: it may. `key`: None: it is not known yet."""
    token = state.join_tokens.get(token_id)
    if token is None:
        return (
            f"there is no join token {token_id[:MAX_NAME_LENGTH]!a}: it was revoked, has ended, or is another cluster's"
        )
    if token.digest != digest:  # digests of long secrets: how long this takes tells nothing that is of use
        return f"the secret of join token {token.id} is another one"
    if token.expires_at_ms <= now_ms:
        return f"join token {token.id} has ended"
    if state.is_revoked(token.certificate):
        return f"join token {token.id} was made with certificate {token.certificate}, which is revoked"
    if token.used_key and key is not None and (token.used_key, token.used_by) != (key, node):
        return f"join token {token.id} was used by node {token.used_by} already"
    return ""


def why_shut_out(state: ClusterState, joined: JoinedNode, shown: str) -> str:
    """Return why an agent with this certificate is not taken for a node that joined; empty: it is."""
    if joined.ends_at_ms <= state.clock_ms:
        return ""  # all that it joined with has ended
    if shown not in joined.certificates:
        return f"node {joined.name} has another certificate since: {_AGAIN}"
    if any(map(state.is_revoked, joined.certificates)):
        return f"a certificate of node {joined.name} is revoked: {_AGAIN}"
    return ""


def forgotten(state: ClusterState, node: Node) -> None:
    """Note that a node was forgotten: its name is free, and its labels stay for as long as its certificate may."""
    joined = state.joined_nodes.get(node.id)
    if joined is not None:
        state.put_joined_node(replace(joined, removed=True))


def _refusal(state: ClusterState, token: JoinToken, node: str) -> Rejected | None:
    """Return why the token gives this name to nobody; None: it may."""
    if token.node and not fnmatchcase(node, token.node):
        return Rejected(code=Code.CONFLICT, detail=f"the token is for the node {token.node}, not for {node}")
    joined = joined_node(state, node)
    if token.used_key:
        return _repeat_refusal(state, token, joined)
    if token.node == node and not is_pattern(token.node):
        return None
    is_there = node in state.nodes or any(known.name == node for known in state.nodes.values())
    if not is_there and (joined is None or joined.removed):
        return None
    advice = f"remove it first, or name it: goschedctl node join-token create --node {node}"
    return Rejected(code=Code.ALREADY_EXISTS, detail=f"there is a node {node} already: {advice}")


def _repeat_refusal(state: ClusterState, token: JoinToken, joined: JoinedNode | None) -> Rejected | None:
    """Return why a token is not used again by the key that used it, whose answer may have been lost; None: it is. The
    key and the token may lie on a node's disk for long: they are no way around a revocation or a removal."""
    if joined is None or joined.removed or joined.token_id != token.id:
        return Rejected(code=Code.ALREADY_EXISTS, detail=f"node {token.used_by} was removed, or has joined again since")
    if state.clock_ms - token.used_at_ms > MAX_JOIN_REPEAT_MS or any(map(state.is_revoked, joined.certificates)):
        return Rejected(code=Code.NOT_FOUND, detail=f"join token {token.id} was used by node {token.used_by} already")
    return None


def _ended_first(state: ClusterState) -> str | None:
    """Return the name of the node that joined and is not there, whose certificates have ended longest ago; or None."""
    over = [
        one for one in state.joined_nodes.values() if one.ends_at_ms <= state.clock_ms and one.name not in state.nodes
    ]
    return min(over, key=lambda one: (one.ends_at_ms, one.name)).name if over else None


def _check_moment(ends_at_ms: int) -> str:
    return text_of(check_moment("the end of the certificate", ends_at_ms))
