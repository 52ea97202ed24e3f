"""Identities: who makes a call, as its credential says.

Invariant: an identity says what was proven and by what; what it may do is decided elsewhere
(gosched.core.access.decide).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Proof(Enum):
    """By what an identity was proven."""

    CERTIFICATE = "certificate"
    TOKEN = "token"
    JWT = "jwt"
    #: The peer credentials of a Unix socket.
    SOCKET = "socket"
    #: Nothing: a caller of a private address, on a cluster without TLS. Its name is what its program says.
    NONE = "none"


class Part(Enum):
    """What kind of caller it is."""

    PERSON = "person"  # or a program that acts for one
    AGENT = "agent"
    MASTER = "master"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenScope:
    """The most that a token may be used for, whatever its owner may do. Empty: no bound of that kind."""

    #: A role's name.
    role: str = ""
    #: Queues and all below them.
    queues: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    #: A user's name, a node's name or id, or a master's member id. Empty: not known.
    name: str
    part: Part = Part.PERSON
    #: Sorted; as the certificate (its OUs) or the issuer of the JWT says.
    groups: tuple[str, ...] = ()
    proof: Proof = Proof.NONE
    #: Of a token; None: no bound.
    scope: TokenScope | None = None
    #: The end of the credential, in ms since 1970; 0: unknown. Streams end then.
    ends_at_ms: int = 0
    #: Id of the token, for the audit log and for revocation; empty: none.
    token_id: str = ""
