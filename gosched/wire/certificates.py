"""Reads certificates: this program's own, and that of a server it is about to talk to.

gRPC shows a server its client's certificate, but does not show a client its server's. So a client that must know looks
first, and then trusts only the certificate that it saw.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from gosched.wire.role_rules import BUILT_IN, CertificateNames, RoleReader
from gosched.wire.roles import BadCertificate, CertificateHolder
from gosched.wire.tls_files import check_files, shake_hands, why_untrusted, words_of
from gosched.wire.tls_rules import trusting


def own_identity(cert: str, key: str, ca: str, roles: RoleReader = BUILT_IN) -> CertificateHolder:
    """Return what this program's own certificate says. It is shown to itself, so that one that others would refuse is
    noticed at start. Raises BadCertificate."""
    check_files(cert, key, ca)
    try:
        server = _context(ssl.Purpose.CLIENT_AUTH, cert, key, ca)
        client = _context(ssl.Purpose.SERVER_AUTH, cert, key, ca)
        return roles.holder(names_of(shake_hands(server, client)))
    except ssl.SSLCertVerificationError as error:
        raise BadCertificate(why_untrusted(error, "the certificate", cert, ca)) from error
    except OSError as error:  # ssl.SSLError is one
        raise BadCertificate(f"cannot use the certificate {cert} with {key} and {ca}: {words_of(error)}") from error


async def server_identity(
    address: tuple[str, int],
    context: ssl.SSLContext,
    roles: RoleReader = BUILT_IN,
    sock: socket.socket | None = None,
) -> tuple[CertificateHolder, bytes]:
    """Return what the certificate of the server at this address says, and the certificate itself (PEM). `sock`: a
    connection to it; None: one is made.

    Raises OSError when it cannot be reached or is not trusted, and BadCertificate.
    """
    host, port = address
    to = {"sock": sock} if sock is not None else {"host": host, "port": port}
    _, writer = await asyncio.open_connection(**to, ssl=context, server_hostname=host)
    try:
        found: ssl.SSLObject = writer.get_extra_info("ssl_object")
        certificate = ssl.DER_cert_to_PEM_cert(found.getpeercert(binary_form=True) or b"")
        return roles.holder(names_of(found.getpeercert())), certificate.encode()
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


def names_of(certificate: Mapping[str, Any] | None) -> CertificateNames:
    """Return the names in a certificate, as `ssl` shows it."""
    names = (certificate or {}).get("subjectAltName", ())
    subject = [pair for pairs in (certificate or {}).get("subject", ()) for pair in pairs]
    uris, dns, emails = (tuple([text for kind, text in names if kind == wanted]) for wanted in ("URI", "DNS", "email"))
    common, organizations, units = (
        tuple([text for kind, text in subject if kind == wanted])
        for wanted in ("commonName", "organizationName", "organizationalUnitName")
    )
    return CertificateNames(uris=uris, dns=dns, emails=emails, common=common, organizations=organizations, units=units)


@lru_cache(maxsize=4096)
def names_in(certificate: bytes) -> CertificateNames:
    """Return the names in a certificate (PEM); none where it cannot be read."""
    from cryptography import x509  # takes long to import
    from cryptography.x509.oid import NameOID

    try:
        found = x509.load_pem_x509_certificate(certificate)
        alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except ValueError:
        return CertificateNames()
    except x509.ExtensionNotFound:
        alternatives = x509.SubjectAlternativeName([])
    common, organizations, units = (
        tuple([str(one.value) for one in found.subject.get_attributes_for_oid(kind)])
        for kind in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME)
    )
    return CertificateNames(
        uris=tuple(alternatives.get_values_for_type(x509.UniformResourceIdentifier)),
        dns=tuple(alternatives.get_values_for_type(x509.DNSName)),
        emails=tuple(alternatives.get_values_for_type(x509.RFC822Name)),
        common=common,
        organizations=organizations,
        units=units,
    )


def names_of_call(context: Mapping[str, Iterable[bytes]]) -> CertificateNames:
    """Return the names in the certificate of a gRPC caller, by the `auth_context` of its call."""
    uris, dns, common = (
        tuple([name.decode(errors="replace") for name in context.get(kind, ())])
        for kind in ("peer_uri", "peer_dns", "x509_common_name")
    )
    more = names_in(b"".join(list(context.get("x509_pem_cert", ()))[:1]))
    return replace(more, uris=uris, dns=dns, common=common or more.common)


def _context(purpose: ssl.Purpose, cert: str, key: str, ca: str) -> ssl.SSLContext:
    context = trusting(purpose, ca)
    context.check_hostname = False
    context.load_cert_chain(cert, key)
    return context
