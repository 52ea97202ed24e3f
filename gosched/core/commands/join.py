"""Commands about tokens to join with, and about nodes that joined."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.join import JoinToken


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateJoinToken:
    """Adds a token to join with, and forgets those that have ended."""

    token: JoinToken


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeJoinToken:
    """Removes a token to join with. A node that joined with it stays."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UseJoinToken:
    """Uses a token up, for the holder of one key, before that gets its certificate."""

    id: str
    #: SHA-256 of the secret, in hex.
    digest: str
    #: SHA-256 of the public key, in hex.
    key: str
    #: Name of the node.
    node: str
    #: Hosts that the certificate will name; sorted.
    hosts: tuple[str, ...] = ()
    #: When the certificate will end, in ms since 1970.
    ends_at_ms: int
    #: Its serial number.
    certificate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewJoinedNode:
    """Notes that a joined node gets a new certificate for one that it has."""

    name: str
    #: Hosts that the certificate will name; sorted.
    hosts: tuple[str, ...] = ()
    #: When the certificate will end, in ms since 1970.
    ends_at_ms: int
    #: The new one's serial number.
    certificate: str
    #: Serial number of the one that the agent has.
    shown: str
