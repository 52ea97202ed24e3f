"""The three files of TLS, as a program reads them: a mistake in them is one line that names it.

`ssl` says `PEER_DID_NOT_RETURN_A_CERTIFICATE` or `[X509] PEM lib`, gRPC nothing but that a connection failed. Here the
program shows its certificate to itself, before anybody else sees it.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gosched.config.private import exposed
from gosched.wire.roles import BadCertificate
from gosched.wire.tls_rules import trusting

#: OpenSSL's numbers of what can be wrong with a certificate.
NOT_YET_VALID, EXPIRED = 9, 10
UNKNOWN_ISSUER = frozenset({2, 18, 19, 20, 21})
BAD_SIGNATURE = 7
WRONG_NAME = frozenset({62, 64})


def check_files(cert: str, key: str, ca: str) -> None:
    """Check that the files are there, that the key is the certificate's, that the authority signed it, that it is
    valid now and that the key is private. Raises BadCertificate."""
    for path in (cert, key, ca):
        _read(path)
    try:
        context = trusting(ssl.Purpose.CLIENT_AUTH, ca)
    except ssl.SSLError as error:
        raise BadCertificate(f"{ca} holds no certificate of an authority in PEM form") from error
    try:
        context.load_cert_chain(cert, key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise BadCertificate(_unloadable(cert, key, error)) from error
    if problem := exposed(key):
        raise BadCertificate(problem)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.load_cert_chain(cert, key)
    try:
        shake_hands(context, client)
    except ssl.SSLCertVerificationError as error:
        raise BadCertificate(why_untrusted(error, "the certificate", cert, ca)) from error
    except OSError as error:  # ssl.SSLError is one
        raise BadCertificate(f"cannot use the certificate {cert} with {key} and {ca}: {words_of(error)}") from error


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> Mapping[str, Any] | None:
    """Return the certificate that the server shows to the client; both are here. Raises OSError."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)]
    for end in ends * 2:  # two flights in each direction
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    return ends[0].getpeercert()


def why_untrusted(error: ssl.SSLCertVerificationError, what: str, cert: str, ca: str) -> str:
    """Return a line on a certificate that the authority in the file `ca` does not vouch for. `cert`: the certificate's
    file, where this program has it."""
    code, named = error.verify_code, f"{what} {cert}".strip()
    if code in (EXPIRED, NOT_YET_VALID):
        return _out_of_date(code, named, cert, ca)
    if code in UNKNOWN_ISSUER:
        return f"{named} is not signed by the authority in {ca}"
    if code == BAD_SIGNATURE:
        return f"{named} names the authority in {ca}, but another one of that name signed it"
    return f"{named} cannot be used: {error.verify_message}"


def words_of(error: OSError) -> str:
    """Return what an error of `ssl` or of a socket says, without its numbers and its source lines."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return error.strerror or str(error) or type(error).__name__


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise BadCertificate(f"cannot read {path}: {error.strerror}") from error


def _unloadable(cert: str, key: str, error: Exception) -> str:
    if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
        return f"{key} is not the key of the certificate {cert}"
    if b"ENCRYPTED" in _read(key):
        return f"the key {key} is encrypted: write it without a passphrase, and protect the file"
    if b"-BEGIN CERTIFICATE-" not in _read(cert):
        return f"{cert} holds no certificate in PEM form"
    if b"PRIVATE KEY-" not in _read(key):
        return f"{key} holds no private key in PEM form"
    return f"{cert} and {key} are no certificate and key in PEM form: {error}"


def _out_of_date(code: int, named: str, cert: str, ca: str) -> str:
    """Return a line with the date; it may be the authority's own certificate that is out of date."""
    for path, words in ((cert, named), (ca, f"the authority's certificate {ca}")):
        if not path:
            continue
        for begins, ends in _validities(path):
            if ends < datetime.now(UTC):
                return f"{words} expired at {ends:%Y-%m-%dT%H:%M:%SZ}"
            if begins > datetime.now(UTC):
                return f"{words} is valid from {begins:%Y-%m-%dT%H:%M:%SZ} on only: is this machine's clock right?"
    return f"{named} {'expired' if code == EXPIRED else 'is not valid yet, by the clock of this machine'}"


def _validities(path: str) -> list[tuple[datetime, datetime]]:
    from cryptography import x509  # takes long to import, and is needed for the date alone

    found = x509.load_pem_x509_certificates(_read(path))
    return [(one.not_valid_before_utc, one.not_valid_after_utc) for one in found]
