"""Revoked certificates, as the API answers them."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.revocation import Revocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """What came of revoking a certificate."""

    revocation: Revocation
    #: It was revoked before.
    unchanged: bool
    revision: int
