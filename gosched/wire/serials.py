"""The serial number by which a certificate is known where it is revoked, and what else is said of it there.

Invariant: what is compared is what an authority signed. A fingerprint is of the signature, too, and anybody makes a
second valid one of an ECDSA signature: the same certificate has another fingerprint then.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gosched.core.rules.revocation import SERIAL

MAX_CERTIFICATE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """A certificate that is at hand."""

    serial: str
    subject: str
    ends_at_ms: int
    is_authority: bool
    pem: bytes


@lru_cache(maxsize=4096)
def serial_of_pem(certificate: bytes) -> str:
    """Return the serial number of the first certificate of a text (PEM) in hex; empty where it cannot be read."""
    first, end, _ = certificate.partition(b"-----END CERTIFICATE-----")
    try:
        return serial_of(ssl.PEM_cert_to_DER_cert((first + end).decode("ascii").strip()))
    except ValueError:
        return ""


def serial_of_call(auth_context: Mapping[str, Sequence[bytes]]) -> str:
    """Return the same of the certificate with which a gRPC call came."""
    return serial_of_pem(b"".join(auth_context.get("x509_pem_cert", ())[:1]))


@lru_cache(maxsize=4096)
def serial_of(certificate: bytes) -> str:
    """Return the same of a certificate (DER)."""
    from cryptography import x509  # takes long to import

    try:
        return f"{x509.load_der_x509_certificate(certificate).serial_number:x}"
    except ValueError:
        return ""


def serial_in(text: str) -> str:
    """Return the serial number that programs print so (`AB:CD:...`, `0xabcd`, `serial=ABCD`); empty: it is none."""
    digits = text.strip().lower().removeprefix("serial=").removeprefix("0x").replace(":", "")
    found = digits.lstrip("0") or digits[:1]
    return found if SERIAL.fullmatch(found) else ""


def facts_of(pem: bytes) -> CertificateFacts | None:
    """Return what is said of the first certificate of a text (PEM); None: there is none."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    from gosched.wire.signing import is_authority

    if len(pem) > MAX_CERTIFICATE_BYTES:
        return None
    try:
        found = x509.load_pem_x509_certificates(pem)[0]
        return CertificateFacts(
            serial=serial_of(found.public_bytes(Encoding.DER)),
            subject=found.subject.rfc4514_string(),
            ends_at_ms=int(found.not_valid_after_utc.timestamp() * 1000),
            is_authority=is_authority(found),
            pem=found.public_bytes(Encoding.PEM),
        )
    except ValueError:
        return None
