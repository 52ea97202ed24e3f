"""How agents become nodes, as it is replicated: tokens to join with, and the nodes that did."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.primitives import StringMap

_PATTERN = ("*", "?")


def is_pattern(node: str) -> bool:
    """Return whether this stands for several names."""
    return any(mark in node for mark in _PATTERN)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinToken:
    """A secret that one agent trades for a certificate. Never the secret."""

    #: In the secret, too, so that it is found.
    id: str
    #: What it is for, in the words of its maker.
    name: str
    #: The name that the node must have, or a pattern with `*` and `?`; empty: any name that no node has.
    node: str = ""
    #: Labels that the node has, whatever its agent says; sorted by key.
    labels: StringMap = ()
    #: Hosts that the certificate may name without the agent calling from them; sorted.
    hosts: tuple[str, ...] = ()
    #: SHA-256 of the secret, in hex.
    digest: str
    #: When it was made, in ms since 1970.
    created_at_ms: int
    #: When it ends, in ms since 1970.
    expires_at_ms: int
    #: SHA-256 of the public key that used it, in hex; empty: it was not used.
    used_key: str = ""
    #: Name of the node that used it; empty: it was not used.
    used_by: str = ""
    #: When it was used first, in ms since 1970; 0: it was not.
    used_at_ms: int = 0
    #: Serial number of the certificate with which it was made: once that is revoked, it is worth nothing. Empty: it was
    #: made otherwise.
    certificate: str = ""

    @property
    def state_word(self) -> str:
        return "used" if self.used_key else "unused"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedNode:
    """A node whose agent has its certificate from the masters. It is there before the node registers, and for as long
    as a certificate of that name is valid."""

    #: The node's id, as the certificate names it.
    name: str
    #: Labels that the node has, whatever its agent says; sorted by key.
    labels: StringMap = ()
    #: Hosts that its certificate names; sorted.
    hosts: tuple[str, ...] = ()
    #: Of the token that it joined with.
    token_id: str
    #: When it joined, in ms since 1970.
    joined_at_ms: int
    #: When the newest certificate ends, in ms since 1970.
    ends_at_ms: int
    #: The node was forgotten since: another token may give its name away.
    removed: bool = False
    #: Serial numbers of the certificates that count: the newest, and the one that it was made for, whose holder
    #: may have been killed before it stored the newest.
    certificates: tuple[str, ...] = ()
