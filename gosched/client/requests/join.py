"""Tokens with which agents join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gosched.client import records
from gosched.client.calls import JOIN, Call, names, rpc
from gosched.wire.codec import to_record
from gosched.wire.v1 import join_pb2


def create_join_token(
    name: str,
    lasts_ms: int,
    *,
    node: str = "",
    labels: Mapping[str, str] | None = None,
    hosts: Sequence[str] = (),
    request_id: str | None = None,
) -> Call[records.NewJoinToken]:
    """Make a token that one agent trades for a certificate. `node`: the name that it must have, or a pattern; empty:
    any that no node has. `labels`: of the node, whatever its agent says. `hosts`: that the certificate may name beside
    those that the agent calls from. Its secret is in this answer alone."""
    request = join_pb2.CreateJoinTokenRequest(
        **names(request_id), name=name, lasts_ms=lasts_ms, node=node, labels=labels or {}, hosts=hosts
    )
    return Call(
        rpc=rpc(JOIN, "CreateJoinToken"),
        request=request,
        read=lambda answer: to_record(answer, records.NewJoinToken),
        is_change=True,
    )


def list_join_tokens() -> Call[list[records.JoinToken]]:
    """Return the tokens to join with that have not ended."""
    return Call(
        rpc=rpc(JOIN, "ListJoinTokens"),
        request=join_pb2.ListJoinTokensRequest(),
        read=lambda answer: [to_record(token, records.JoinToken) for token in answer.tokens],
    )


def revoke_join_token(token_id: str, *, request_id: str | None = None) -> Call[None]:
    """End a token to join with at once. A node that joined with it stays."""
    request = join_pb2.RevokeJoinTokenRequest(**names(request_id), id=token_id)
    return Call(rpc=rpc(JOIN, "RevokeJoinToken"), request=request, read=lambda answer: None, is_change=True)
