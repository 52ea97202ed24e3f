"""Secrets of tenants, as they are replicated: sealed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A value that tasks of a tenant may get. Only the masters' keys open it."""

    #: Whose jobs may name it.
    tenant: str
    #: Unique in the tenant.
    name: str
    #: Base64 of a nonce and the ciphertext.
    sealed: str = field(repr=False)
    #: Name of the key that opens it.
    key_id: str
    #: Id of the cluster in which it was sealed; it is authenticated together with the value.
    cluster_id: str
    #: How often it was set since it was made; from 1 on.
    version: int
    #: When it was set last, in ms since 1970.
    changed_at_ms: int
    #: Name of the user that set it last; empty: the cluster has no TLS.
    changed_by: str = ""

    @property
    def key(self) -> str:
        return secret_key(self.tenant, self.name)


def secret_key(tenant: str, name: str) -> str:
    """Return the key of a secret in its table; names hold no slash."""
    return f"{tenant}/{name}"
