"""A certificate authority in two files, and the certificates that it signs.

Invariant: a certificate made here names its role as `wire/roles.py` reads it, and `renew` alone replaces files: the key
first, so that a certificate never lies beside the key of an older one for longer than a moment.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gosched.config.errors import ConfigError
from gosched.wire.certificates import names_in
from gosched.wire.role_rules import BUILT_IN
from gosched.wire.roles import BadCertificate, CertificateHolder, Role, identity_of, server_name
from gosched.wire.tls_expiry import id_of, signed_by, signer_of

CA_CERT, CA_KEY = "ca.pem", "ca.key"
_EARLIER = datetime.timedelta(minutes=5)  # a certificate is valid at once for clocks that are behind
_MAX_COMMON_NAME = 64  # of X.509


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The contents of a certificate."""

    #: As RFC 4514 writes names.
    subject: str
    #: As RFC 4514 writes names.
    issuer: str
    is_authority: bool
    #: The first digits of its SHA-256 fingerprint.
    id: str
    #: In hex, as is the serial number.
    fingerprint: str
    serial: str
    #: None for an authority, and for a certificate without a role: `problem` says why.
    holder: CertificateHolder | None
    #: Why there is no role; empty when there is one, or none is needed.
    problem: str
    #: Of a user: the organizations of the subject.
    groups: tuple[str, ...]
    #: Hosts and addresses, without the name of the role.
    names: tuple[str, ...]
    begins: datetime.datetime
    ends: datetime.datetime


def make_authority(folder: Path, name: str, days: int) -> None:
    """Write the authority's certificate and key. Raises ConfigError."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _common_name(name)
    builder = (
        _builder(subject, subject, key, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    _write(folder / CA_KEY, _key_pem(key), mode=0o600)
    _write(folder / CA_CERT, _pem(builder.sign(key, hashes.SHA256())))


def issue(
    folder: Path,
    holder: CertificateHolder,
    names: Sequence[str],
    days: int,
    *,
    cert_file: Path,
    key_file: Path,
    groups: Sequence[str] = (),
) -> None:
    """Write a certificate for the holder, and its key, signed by the authority in the folder; `groups`: of a user, as
    organizations. Raises ConfigError."""
    role_name: x509.GeneralName
    if holder.in_dns:
        role_name = x509.DNSName(server_name(holder.role, holder.name))
    else:
        role_name = x509.UniformResourceIdentifier(holder.uri())
    alternatives = [role_name, *(_general_name(name) for name in names)]
    _check(holder, alternatives)
    certificate, key = _signed(_read_authority(folder), holder, alternatives, days, groups)
    _write(key_file, _key_pem(key), mode=0o600)
    _write(cert_file, _pem(certificate))


def renew(folder: Path, cert_file: Path, key_file: Path, days: int | None, *, rotate: bool) -> datetime.datetime:
    """Replace a certificate and its key by new ones of the same holder with the same names, signed by the authority in
    the folder; return when it ends. `days`: None for as many as before. `rotate`: another authority may have signed
    the old one. Raises ConfigError."""
    cert_file, key_file = cert_file.resolve(), key_file.resolve()
    old = _read_certificates(cert_file)[0]
    found = _described(old)
    if found.is_authority:
        raise ConfigError(f"{cert_file} is an authority's: make another one with `goschedctl cert init --dir DIR`")
    if found.holder is None:
        raise ConfigError(f"{cert_file}: {found.problem}")
    if not found.holder.name:
        raise ConfigError(f"{cert_file} names no role: make a new one with `goschedctl cert issue`")
    signer = _read_authority(folder)
    if not rotate and not signed_by(old, signer[0]):
        raise ConfigError(
            f"{cert_file} was signed by another authority than the one in {folder}: name that one's directory with "
            "--dir, or add --rotate where all programs trust both"
        )
    life = days or max(1, (found.ends - found.begins).days)
    certificate, key = _signed(signer, found.holder, list(_alternatives(old) or ()), life, found.groups)
    _replace(((key_file, _key_pem(key), 0o600), (cert_file, _pem(certificate), 0o644)))
    return certificate.not_valid_after_utc


def _signed(
    signer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey],
    holder: CertificateHolder,
    alternatives: Sequence[x509.GeneralName],
    days: int,
    groups: Sequence[str] = (),
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return a certificate, and its key. Raises ConfigError."""
    authority, authority_key = signer
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if holder.role is not Role.CLIENT:
        uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_common_name(holder.name, groups), authority.subject, key, authority_key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    )
    certificate = builder.sign(authority_key, hashes.SHA256())
    if certificate.not_valid_after_utc > authority.not_valid_after_utc:
        left = (authority.not_valid_after_utc - datetime.datetime.now(datetime.UTC)).days
        raise ConfigError(
            f"--days: the authority itself expires in {left} days: give fewer days, or make a new authority"
        )
    return certificate, key


def describe(file: Path) -> list[Described]:
    """Return the contents of each certificate in a file. Raises ConfigError."""
    return [_described(certificate) for certificate in _read_certificates(file)]


def signers(file: Path, ca: Path) -> list[str]:
    """Return the id of the authority, out of a file of them, that signed each certificate; empty: none of them did.
    Raises ConfigError."""
    certificates, authorities = _read_certificates(file), _read_certificates(ca)
    return [signer_of(certificates[place:], authorities) for place in range(len(certificates))]


def _described(certificate: x509.Certificate) -> Described:
    alternatives = _alternatives(certificate)
    uris = alternatives.get_values_for_type(x509.UniformResourceIdentifier) if alternatives else []
    hosts = alternatives.get_values_for_type(x509.DNSName) if alternatives else []
    addresses = alternatives.get_values_for_type(x509.IPAddress) if alternatives else []
    is_authority = _is_authority(certificate)
    holder, problem = None, ""
    if not is_authority:
        try:
            holder = identity_of(uris, hosts)
        except BadCertificate as error:
            problem = str(error)
    in_dns = server_name(holder.role, holder.name) if holder and holder.in_dns else ""
    return Described(
        subject=certificate.subject.rfc4514_string(),
        issuer=certificate.issuer.rfc4514_string(),
        is_authority=is_authority,
        id=id_of(certificate),
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
        serial=f"{certificate.serial_number:x}",
        holder=holder,
        problem=problem,
        groups=BUILT_IN.groups(names_in(certificate.public_bytes(serialization.Encoding.PEM))),
        names=tuple([host for host in hosts if host != in_dns] + [str(address) for address in addresses]),
        begins=certificate.not_valid_before_utc,
        ends=certificate.not_valid_after_utc,
    )


def _check(holder: CertificateHolder, names: Sequence[x509.GeneralName]) -> None:
    """Check that masters and agents would read these names as this holder's. Raises ConfigError."""
    uris = [name.value for name in names if isinstance(name, x509.UniformResourceIdentifier)]
    hosts = [name.value for name in names if isinstance(name, x509.DNSName)]
    try:
        read = identity_of(uris, hosts)
    except BadCertificate as error:
        raise ConfigError(str(error)) from error
    if read != holder:
        raise ConfigError(f"{holder.name!a} cannot be the name of a {holder.role.value}")


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    days: int,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
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


def _common_name(name: str, groups: Sequence[str] = ()) -> x509.Name:
    try:
        organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in sorted(set(groups))]
    except ValueError as error:
        raise ConfigError("--group: a group has 1 to 64 characters") from error
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name[:_MAX_COMMON_NAME])])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise ConfigError(f"--san: {name!a} is neither a host name nor an address") from error


def _read_authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificates = _read_certificates(folder / CA_CERT)
    try:
        key = serialization.load_pem_private_key(_read(folder / CA_KEY), password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{folder / CA_KEY}: not an unencrypted private key in PEM form") from error
    own = [certificate for certificate in certificates if certificate.public_key() == key.public_key()]
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not own:
        raise ConfigError(f"{folder / CA_KEY} is not the key of {folder / CA_CERT}, as `goschedctl cert init` makes it")
    return own[0], key


def _read_certificates(file: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(_read(file))
    except ValueError as error:
        raise ConfigError(f"{file}: not a certificate in PEM form") from error


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        hint = ": make an authority with `goschedctl cert init`" if file.name in (CA_CERT, CA_KEY) else ""
        raise ConfigError(f"cannot read {file}: {error.strerror}{hint}") from error


def _write(file: Path, data: bytes, *, mode: int = 0o644) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as target:
            target.write(data)
    except FileExistsError as error:
        raise ConfigError(f"{file} exists already: move it away, or write elsewhere with --dir or --out") from error
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}") from error


def _replace(files: Sequence[tuple[Path, bytes, int]]) -> None:
    """Write new contents beside each file, then put them in their places, in this order; a file keeps its owner and its
    mode. Raises ConfigError."""
    written: list[tuple[Path, Path]] = []
    try:
        for file, data, mode in files:
            new = file.with_name(f".{file.name}.{os.getpid()}.new")
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
                written.append((new, file))
                target.write(data)
                _take_after(target.fileno(), file, mode)
                target.flush()
                os.fsync(target.fileno())
        for new, file in written:
            os.replace(new, file)
    except OSError as error:
        for new, _ in written:
            new.unlink(missing_ok=True)
        raise ConfigError(f"cannot replace {files[0][0]} and {files[1][0]}: {error.strerror}") from error


def _take_after(descriptor: int, file: Path, mode: int) -> None:
    """Give a new file the owner and the mode of the one that it replaces, or `mode`. Raises OSError."""
    if not file.exists():
        os.fchmod(descriptor, mode)
        return
    seen = file.stat()
    if (seen.st_uid, seen.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(descriptor, seen.st_uid, seen.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(seen.st_mode))


def _alternatives(certificate: x509.Certificate) -> x509.SubjectAlternativeName | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
