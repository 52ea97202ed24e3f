"""Reads certificates: this program's own, and that of a server it is about to talk to.

gRPC shows a server its client's certificate, but does not show a client its server's. So a client that must know looks
first, and then trusts only the certificate that it saw.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from gosched.wire.roles import BadCertificate, CertificateHolder, identity_of
from gosched.wire.tls_files import check_files, shake_hands, why_untrusted, words_of
from gosched.wire.tls_rules import trusting


def own_identity(cert: str, key: str, ca: str) -> CertificateHolder:
    """Return what this program's own certificate says. It is shown to itself, so that one that others would refuse is
    noticed at start. Raises BadCertificate."""
    check_files(cert, key, ca)
    try:
        server = _context(ssl.Purpose.CLIENT_AUTH, cert, key, ca)
        client = _context(ssl.Purpose.SERVER_AUTH, cert, key, ca)
        return holder_of(shake_hands(server, client))
    except ssl.SSLCertVerificationError as error:
        raise BadCertificate(why_untrusted(error, "the certificate", cert, ca)) from error
    except OSError as error:  # ssl.SSLError is one
        raise BadCertificate(f"cannot use the certificate {cert} with {key} and {ca}: {words_of(error)}") from error


async def server_identity(address: tuple[str, int], context: ssl.SSLContext) -> tuple[CertificateHolder, bytes]:
    """Return what the certificate of the server at this address says, and the certificate itself (PEM).

    Raises OSError when it cannot be reached or is not trusted, and BadCertificate.
    """
    host, port = address
    _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
    try:
        found: ssl.SSLObject = writer.get_extra_info("ssl_object")
        certificate = ssl.DER_cert_to_PEM_cert(found.getpeercert(binary_form=True) or b"")
        return holder_of(found.getpeercert()), certificate.encode()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def dialling_context(cert: str, key: str, ca: str) -> ssl.SSLContext:
    """Return the context for `server_identity`. Raises OSError."""
    context = _context(ssl.Purpose.SERVER_AUTH, cert, key, ca)
    context.check_hostname = True
    context.set_alpn_protocols(["h2"])  # what servers of gRPC ask for
    return context


def serving_context(cert: str, key: str, ca: str, *, guests: bool = False) -> ssl.SSLContext:
    """Return the context of a server that asks its callers for certificates; `guests`: it serves those who have none,
    too. Raises OSError."""
    context = _context(ssl.Purpose.CLIENT_AUTH, cert, key, ca)
    if guests:
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def holder_of(certificate: Mapping[str, Any] | None) -> CertificateHolder:
    """Return what a certificate says, as `ssl` shows it. Raises BadCertificate."""
    names = (certificate or {}).get("subjectAltName", ())
    return identity_of(
        [value for kind, value in names if kind == "URI"], [value for kind, value in names if kind == "DNS"]
    )


@lru_cache(maxsize=4096)
def organizations(certificate: bytes) -> tuple[str, ...]:
    """Return the groups of a user: the organizations in the subject of its certificate (PEM), in order; none where it
    cannot be read."""
    from cryptography import x509  # takes long to import
    from cryptography.x509.oid import NameOID

    try:
        subject = x509.load_pem_x509_certificate(certificate).subject
    except ValueError:
        return ()
    return tuple(sorted({str(one.value) for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}))


def caller_identity(context: Mapping[str, Iterable[bytes]]) -> CertificateHolder:
    """Return what the certificate of a gRPC caller says, by the `auth_context` of its call. Raises BadCertificate."""
    uris, dns_names = (
        [name.decode(errors="replace") for name in context.get(kind, ())] for kind in ("peer_uri", "peer_dns")
    )
    return identity_of(uris, dns_names)


def _context(purpose: ssl.Purpose, cert: str, key: str, ca: str) -> ssl.SSLContext:
    context = trusting(purpose, ca)
    context.check_hostname = False
    context.load_cert_chain(cert, key)
    return context
