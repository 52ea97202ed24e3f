"""The marks by which a certificate is known where it is revoked, and what else is said of it there.

Invariant: a mark is of one certificate: its SHA-256 fingerprint, or (of one authority) its serial number.
"""

from __future__ import annotations

import hashlib
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gosched.core.records.revocation import SERIAL
from gosched.core.rules.revocation import MARK

MAX_CERTIFICATE_BYTES = 64 * 1024
_SERIAL_DIGITS = re.compile(r"[0-9a-f]{1,42}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """A certificate that is at hand."""

    marks: tuple[str, ...]
    subject: str
    ends_at_ms: int
    is_authority: bool
    pem: bytes


@lru_cache(maxsize=4096)
def marks_of_pem(certificate: bytes) -> tuple[str, ...]:
    """Return the marks of a certificate (PEM); none where it cannot be read."""
    try:
        return marks_of(ssl.PEM_cert_to_DER_cert(certificate.decode("ascii").strip()))
    except ValueError:
        return ()


def marks_of_call(certificate: Mapping[str, Sequence[bytes]]) -> tuple[str, ...]:
    """Return the marks of the certificate of a gRPC call, of which `certificate` is the auth context."""
    return marks_of_pem(b"".join(certificate.get("x509_pem_cert", ())[:1]))


@lru_cache(maxsize=4096)
def marks_of(certificate: bytes) -> tuple[str, ...]:
    """Return the marks of a certificate (DER), its fingerprint first."""
    from cryptography import x509  # takes long to import

    fingerprint = hashlib.sha256(certificate).hexdigest()
    try:
        return fingerprint, f"{SERIAL}{x509.load_der_x509_certificate(certificate).serial_number:x}"
    except ValueError:
        return (fingerprint,)


def mark_in(text: str) -> str:
    """Return the mark that a fingerprint or a serial number is, as programs print them (`AB:CD:...`, `sha256:`,
    `0x`); empty: it is neither."""
    bare = text.strip().lower()
    digits = bare.removeprefix("sha256:").removeprefix(SERIAL).removeprefix("0x").replace(":", "")
    if len(digits) == 64 and not bare.startswith(SERIAL):
        return digits if MARK.fullmatch(digits) else ""
    if bare.startswith("sha256:") or not _SERIAL_DIGITS.fullmatch(digits):
        return ""
    mark = f"{SERIAL}{digits.lstrip('0') or '0'}"
    return mark if MARK.fullmatch(mark) else ""


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
            marks=marks_of(found.public_bytes(Encoding.DER)),
            subject=found.subject.rfc4514_string(),
            ends_at_ms=int(found.not_valid_after_utc.timestamp() * 1000),
            is_authority=is_authority(found),
            pem=found.public_bytes(Encoding.PEM),
        )
    except ValueError:
        return None
