"""How certificates are signed, by `goschedctl cert` and by masters at which agents join. Imports `cryptography`, which
takes long.

Invariant: a certificate made here names its role as `wire/roles.py` reads it, and does not outlive its authority.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gosched.config.errors import ConfigError
from gosched.wire.roles import BadCertificate, CertificateHolder, Role, identity_of, server_name

CA_CERT, CA_KEY = "ca.pem", "ca.key"
_EARLIER = datetime.timedelta(minutes=5)  # a certificate is valid at once for clocks that are behind
_MAX_COMMON_NAME = 64  # of X.509
_MAX_FILE_BYTES = 1024 * 1024

SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """An authority that can sign."""

    certificate: x509.Certificate
    key: SigningKey


def read_signer(cert_file: Path, key_file: Path) -> Signer:
    """Return the authority in two files. Raises ConfigError."""
    certificates = read_certificates(cert_file)
    try:
        key = serialization.load_pem_private_key(_read(key_file), password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{key_file}: not an unencrypted private key in PEM form") from error
    own = [certificate for certificate in certificates if certificate.public_key() == key.public_key()]
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) or not own:
        raise ConfigError(f"{key_file} is not the key of {cert_file}, as `goschedctl cert init` makes it")
    return Signer(certificate=own[0], key=key)


def read_certificates(file: Path) -> list[x509.Certificate]:
    """Return the certificates in a file. Raises ConfigError."""
    try:
        return x509.load_pem_x509_certificates(_read(file))
    except ValueError as error:
        raise ConfigError(f"{file}: not a certificate in PEM form") from error


def sign(
    signer: Signer,
    public_key: PublicKey,
    holder: CertificateHolder,
    alternatives: Sequence[x509.GeneralName],
    life: datetime.timedelta,
    groups: Sequence[str] = (),
) -> x509.Certificate:
    """Return a certificate for the holder of a key; it begins a little earlier than now. Raises ConfigError where it
    would be read as another holder's."""
    check_readable(holder, alternatives)
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if holder.role is not Role.CLIENT:
        uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
    builder = (
        builder_of(common_name(holder.name, groups), signer.certificate.subject, public_key, signer.key, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    )
    return builder.sign(signer.key, hashes.SHA256())


def role_name(holder: CertificateHolder) -> x509.GeneralName:
    """Return the alternative name that gives a role."""
    if holder.in_dns:
        return x509.DNSName(server_name(holder.role, holder.name))
    return x509.UniformResourceIdentifier(holder.uri())


def general_name(name: str) -> x509.GeneralName:
    """Return the alternative name of a host or an address. Raises ConfigError."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise ConfigError(f"--san: {name!a} is neither a host name nor an address") from error


def check_readable(holder: CertificateHolder, names: Sequence[x509.GeneralName]) -> None:
    """Check that masters and agents would read these names as this holder's. Raises ConfigError."""
    uris = [name.value for name in names if isinstance(name, x509.UniformResourceIdentifier)]
    hosts = [name.value for name in names if isinstance(name, x509.DNSName)]
    try:
        read = identity_of(uris, hosts)
    except BadCertificate as error:
        raise ConfigError(str(error)) from error
    if read != holder:
        raise ConfigError(f"{holder.name!a} cannot be the name of a {holder.role.value}")


def builder_of(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: PublicKey,
    signer: SigningKey,
    life: datetime.timedelta,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - min(_EARLIER, life / 10))
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )


def key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def common_name(name: str, groups: Sequence[str] = ()) -> x509.Name:
    """Return a subject with its groups as organizations. Raises ConfigError."""
    try:
        organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in sorted(set(groups))]
    except ValueError as error:
        raise ConfigError("--group: a group has 1 to 64 characters") from error
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name[:_MAX_COMMON_NAME])])


def is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def key_digest(public_key: object) -> bytes:
    """Return the SHA-256 of a public key, as X.509 writes it."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    data: bytes = public_key.public_bytes(serialization.Encoding.DER, form)  # type: ignore[attr-defined]
    return hashlib.sha256(data).digest()


def key_pem(key: SigningKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def pem_of(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as source:
            return source.read(_MAX_FILE_BYTES)
    except OSError as error:
        hint = ": make an authority with `goschedctl cert init`" if file.name in (CA_CERT, CA_KEY) else ""
        raise ConfigError(f"cannot read {file}: {error.strerror}{hint}") from error
