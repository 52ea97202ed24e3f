"""Commands about access: bindings and tokens."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.access import Binding, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBindings:
    """Replaces all bindings, or changes nothing."""

    #: All of them; empty: only what the masters' own config grants.
    bindings: tuple[Binding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateToken:
    """Adds a token, and forgets those that have ended."""

    token: Token


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeToken:
    """Removes a token."""

    id: str
