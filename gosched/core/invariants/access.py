"""Bindings and tokens: in their places, and as the rules allow."""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.limits import MAX_TOKENS
from gosched.core.rules.access import check_bindings, check_token
from gosched.core.state.cluster_state import ClusterState


def access_problems(state: ClusterState) -> Iterator[str]:
    if found := check_bindings([*state.bindings.values()]):
        yield f"the bindings break a rule: {found}"
    if len(state.tokens) > MAX_TOKENS:
        yield f"there are {len(state.tokens)} tokens"
    for table in (state.bindings, state.tokens):
        for key, record in table.items():
            if key != getattr(record, "name" if table is state.bindings else "id"):
                yield f"{type(record).__name__} {key} is in the wrong place"
    for token in state.tokens.values():
        if found := check_token(token):
            yield f"token {token.id} breaks a rule: {found}"
