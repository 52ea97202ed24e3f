"""Commands about secrets. Values travel in them sealed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSecret:
    """Makes a secret, or replaces its value."""

    tenant: str
    name: str
    #: As those of the record `Secret`.
    sealed: str = field(repr=False)
    key_id: str
    cluster_id: str
    #: Name of the user that sets it; empty: the cluster has no TLS.
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSecret:
    """Removes a secret."""

    tenant: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResealSecret:
    """Replaces the ciphertext of a secret whose value stays, unless it was set meanwhile."""

    tenant: str
    name: str
    #: Of the secret whose value was sealed again.
    version: int
    sealed: str = field(repr=False)
    key_id: str
    cluster_id: str
