"""Who may do what, as the API answers it."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.access import Binding, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Bindings:
    """All bindings, by name."""

    bindings: tuple[Binding, ...] = ()
    #: What the leader's config grants; without users and groups: nothing.
    from_config: Binding
    etag: str
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessCheck:
    """What a user is, and whether it may do what was asked."""

    #: Empty: the cluster has no TLS, and every caller may do everything.
    user: str
    groups: tuple[str, ...] = ()
    allowed: bool
    #: The binding that grants it; empty: none does.
    by: str = ""
    #: Of all its bindings.
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token that was made."""

    token: Token
    #: To be kept by its user: it cannot be had again.
    secret: str
    revision: int
