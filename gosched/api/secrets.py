"""Secrets of tenants, as the API answers them: by name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretInfo:
    """What is told of a secret. No answer has its value."""

    tenant: str
    name: str
    #: Name of the key that it is sealed with.
    key_id: str
    #: How often it was set since it was made.
    version: int
    #: When it was set last, in ms since 1970.
    changed_at_ms: int
    #: Name of the user that set it last; empty: the cluster has no TLS.
    changed_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """What came of sealing all secrets again."""

    #: Name of the key that all are sealed with now.
    key_id: str
    #: How many were sealed with another one before.
    resealed: int
    revision: int
