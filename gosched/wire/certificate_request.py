"""Requests for certificates (CSR), as agents make them and masters read them. Imports `cryptography`, which takes long.

Invariant: of a request only its key counts. Whatever names it asks for, the master chooses those of the certificate.
"""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from gosched.wire.signing import PublicKey, SigningKey

MAX_REQUEST_BYTES = 8 * 1024
MIN_RSA_BITS, MAX_RSA_BITS = 2048, 4096
_CURVES = ("secp256r1", "secp384r1")
_KEYS = f"a key on P-256 or P-384, or RSA with {MIN_RSA_BITS} to {MAX_RSA_BITS} bits"


class BadRequest(ValueError):
    """One line that says why a request for a certificate is refused."""


def make_request(key: ec.EllipticCurvePrivateKey, name: str) -> bytes:
    """Return the request (PEM) for a key. The name is for people."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def read_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Return a key that was made here. Raises ValueError."""
    key: SigningKey | object = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("another kind of key")
    return key


def requested_key(pem: bytes) -> PublicKey:
    """Return the key of a request whose sender has it. Raises BadRequest."""
    if len(pem) > MAX_REQUEST_BYTES:
        raise BadRequest(f"the request for a certificate has {len(pem)} bytes; at most {MAX_REQUEST_BYTES} are read")
    try:
        request = x509.load_pem_x509_csr(pem)
        key = request.public_key()
        if not _is_strong(key):
            raise BadRequest(f"the request for a certificate has a key of another kind: make {_KEYS}")
        is_valid = request.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature) as error:
        if isinstance(error, BadRequest):
            raise
        raise BadRequest("the request for a certificate is not a PKCS #10 request in PEM form") from error
    if not is_valid:
        raise BadRequest("the request for a certificate is not signed by its own key")
    assert isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey), "it is strong"
    return key


def _is_strong(key: object) -> bool:
    if isinstance(key, ec.EllipticCurvePublicKey):
        return key.curve.name in _CURVES
    return isinstance(key, rsa.RSAPublicKey) and MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS
