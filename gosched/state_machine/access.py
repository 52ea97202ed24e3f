"""Bindings and tokens.

Invariant: bindings are replaced together or not at all; a token that has ended is forgotten when another one needs its
place, and not before: the state's clock, by which it has ended, may be set back.
"""

from __future__ import annotations

from gosched.core.commands.access import CreateToken, RevokeToken, SetBindings
from gosched.core.events import AccessChanged, Event
from gosched.core.limits import MAX_NAME_LENGTH, MAX_TOKENS, MAX_TOKENS_PER_USER
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.rules.access import check_bindings, check_token
from gosched.core.state.cluster_state import ClusterState


def set_bindings(state: ClusterState, command: SetBindings, events: list[Event]) -> Outcome:
    found = check_bindings(command.bindings)
    if found:
        return Rejected(code=Code.INVALID, detail=str(found))
    wanted = {binding.name: binding for binding in command.bindings}
    if wanted == state.bindings:
        return Accepted(unchanged=True)
    for name in [name for name in state.bindings if name not in wanted]:
        state.drop_binding(name)
    for name, binding in wanted.items():
        if state.bindings.get(name) != binding:
            state.put_binding(binding)
    events.append(AccessChanged())
    return Accepted()


def create_token(state: ClusterState, command: CreateToken, events: list[Event]) -> Outcome:
    token = command.token
    found = check_token(token)
    if found:
        return Rejected(code=Code.INVALID, detail=str(found))
    if token.id in state.tokens:
        return Rejected(code=Code.CONFLICT, detail=f"there is a token {token.id} already")
    live = [known for known in state.tokens.values() if known.expires_at_ms > state.clock_ms]
    if len(live) >= MAX_TOKENS:
        return Rejected(code=Code.EXHAUSTED, detail=f"there are {MAX_TOKENS} tokens, the limit: revoke one first")
    if len([known for known in live if known.user == token.user]) >= MAX_TOKENS_PER_USER:
        detail = f"{token.user} has {MAX_TOKENS_PER_USER} tokens, the limit: revoke one first"
        return Rejected(code=Code.EXHAUSTED, detail=detail)
    if len(state.tokens) >= MAX_TOKENS:  # not all of them live
        state.drop_token(min(state.tokens.values(), key=lambda known: (known.expires_at_ms, known.id)).id)
    state.put_token(token)
    events.append(AccessChanged())
    return Accepted(subject=token.id)


def revoke_token(state: ClusterState, command: RevokeToken, events: list[Event]) -> Outcome:
    if command.id not in state.tokens:
        return Rejected(code=Code.NOT_FOUND, detail=f"there is no token {command.id[:MAX_NAME_LENGTH]!a}")
    state.drop_token(command.id)
    events.append(AccessChanged())
    return Accepted(subject=command.id)
