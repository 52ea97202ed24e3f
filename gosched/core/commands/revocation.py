"""Commands about certificates that are refused."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.revocation import Revocation


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeCertificate:
    """Has a certificate refused, and forgets those that have ended."""

    revocation: Revocation


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrevokeCertificate:
    """Has a certificate taken again."""

    #: Its mark.
    certificate: str
