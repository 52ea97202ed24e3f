"""When certificates end, and which authority signed them. Imports `cryptography`, which takes long.

Invariant: when a certificate should be renewed is said here alone, for logs, metrics and alerts.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes

WEEK_S = 7 * 24 * 3600.0
MAX_AUTHORITIES = 16  # of one file, in metrics
_ID_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The time of one certificate."""

    is_authority: bool
    #: Of the certificate: the first digits of its SHA-256 fingerprint.
    id: str
    #: Id of the authority that signed it, in the file of authorities; an authority's own; empty: none of them did.
    authority: str
    #: Seconds since 1970.
    begins_s: float
    #: Seconds since 1970.
    ends_s: float

    @property
    def renewal_s(self) -> float:
        """When it should be renewed: when a tenth of its life is left, or a week, which is at most a quarter of it."""
        life_s = self.ends_s - self.begins_s
        return self.ends_s - max(life_s / 10, min(WEEK_S, life_s / 4))

    def is_due(self, now_s: float) -> bool:
        return now_s >= self.renewal_s

    @property
    def ends_text(self) -> str:
        return f"{datetime.fromtimestamp(self.ends_s, UTC):%Y-%m-%dT%H:%M:%SZ}"


@functools.lru_cache(maxsize=4)
def expiries(cert: bytes, ca: bytes) -> tuple[Expiry, ...]:
    """Return the times of the own certificate, and of each authority; both are PEM. Raises ValueError."""
    authorities = x509.load_pem_x509_certificates(ca)
    chain = x509.load_pem_x509_certificates(cert)
    own = _expiry(chain[0], authority=signer_of(chain, authorities))
    return own, *(_expiry(found, authority=id_of(found), is_authority=True) for found in authorities[:MAX_AUTHORITIES])


def id_of(certificate: x509.Certificate) -> str:
    """Return the first digits of the SHA-256 fingerprint."""
    return certificate.fingerprint(hashes.SHA256()).hex()[:_ID_DIGITS]


def signer_of(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]) -> str:
    """Return the id of the authority that signed the first certificate of a chain, perhaps by way of the others;
    empty: none of these did."""
    for certificate in chain:
        for authority in authorities:
            if signed_by(certificate, authority):
                return id_of(authority)
    return ""


def signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _expiry(certificate: x509.Certificate, *, authority: str, is_authority: bool = False) -> Expiry:
    return Expiry(
        is_authority=is_authority,
        id=id_of(certificate),
        authority=authority,
        begins_s=certificate.not_valid_before_utc.timestamp(),
        ends_s=certificate.not_valid_after_utc.timestamp(),
    )
