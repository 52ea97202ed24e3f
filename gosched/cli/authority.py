"""A certificate authority in two files, and the certificates that it signs.

Invariant: a certificate made here names its role as `wire/roles.py` reads it, and `renew` alone replaces files: the key
first, so that a certificate never lies beside the key of an older one for longer than a moment.
"""

from __future__ import annotations

import datetime
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gosched.config.errors import ConfigError
from gosched.wire.certificates import names_in
from gosched.wire.role_rules import BUILT_IN
from gosched.wire.roles import BadCertificate, CertificateHolder, identity_of, server_name
from gosched.wire.signing import (
    CA_CERT,
    CA_KEY,
    Signer,
    builder_of,
    check_readable,
    common_name,
    general_name,
    is_authority,
    key_pem,
    key_usage,
    pem_of,
    read_certificates,
    read_signer,
    role_name,
    sign,
)
from gosched.wire.tls_expiry import id_of, signed_by, signer_of


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
    subject = common_name(name)
    builder = (
        builder_of(subject, subject, key.public_key(), key, datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
    )
    _write(folder / CA_KEY, key_pem(key), mode=0o600)
    _write(folder / CA_CERT, pem_of(builder.sign(key, hashes.SHA256())))


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
    alternatives = [role_name(holder), *(general_name(name) for name in names)]
    check_readable(holder, alternatives)
    certificate, key = _signed(read_signer(folder / CA_CERT, folder / CA_KEY), holder, alternatives, days, groups)
    _write(key_file, key_pem(key), mode=0o600)
    _write(cert_file, pem_of(certificate))


def renew(folder: Path, cert_file: Path, key_file: Path, days: int | None, *, rotate: bool) -> datetime.datetime:
    """Replace a certificate and its key by new ones of the same holder with the same names, signed by the authority in
    the folder; return when it ends. `days`: None for as many as before. `rotate`: another authority may have signed
    the old one. Raises ConfigError."""
    cert_file, key_file = cert_file.resolve(), key_file.resolve()
    old = read_certificates(cert_file)[0]
    found = _described(old)
    if found.is_authority:
        raise ConfigError(f"{cert_file} is an authority's: make another one with `goschedctl cert init --dir DIR`")
    if found.holder is None:
        raise ConfigError(f"{cert_file}: {found.problem}")
    if not found.holder.name:
        raise ConfigError(f"{cert_file} names no role: make a new one with `goschedctl cert issue`")
    signer = read_signer(folder / CA_CERT, folder / CA_KEY)
    if not rotate and not signed_by(old, signer.certificate):
        raise ConfigError(
            f"{cert_file} was signed by another authority than the one in {folder}: name that one's directory with "
            "--dir, or add --rotate where all programs trust both"
        )
    life = days or max(1, (found.ends - found.begins).days)
    certificate, key = _signed(signer, found.holder, list(_alternatives(old) or ()), life, found.groups)
    _replace(((key_file, key_pem(key), 0o600), (cert_file, pem_of(certificate), 0o644)))
    return certificate.not_valid_after_utc


def _signed(
    signer: Signer,
    holder: CertificateHolder,
    alternatives: Sequence[x509.GeneralName],
    days: int,
    groups: Sequence[str] = (),
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return a certificate, and its key. Raises ConfigError."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = sign(signer, key.public_key(), holder, alternatives, datetime.timedelta(days=days), groups)
    ends = signer.certificate.not_valid_after_utc
    if certificate.not_valid_after_utc > ends:
        left = (ends - datetime.datetime.now(datetime.UTC)).days
        raise ConfigError(
            f"--days: the authority itself expires in {left} days: give fewer days, or make a new authority"
        )
    return certificate, key


def describe(file: Path) -> list[Described]:
    """Return the contents of each certificate in a file. Raises ConfigError."""
    return [_described(certificate) for certificate in read_certificates(file)]


def signers(file: Path, ca: Path) -> list[str]:
    """Return the id of the authority, out of a file of them, that signed each certificate; empty: none of them did.
    Raises ConfigError."""
    certificates, authorities = read_certificates(file), read_certificates(ca)
    return [signer_of(certificates[place:], authorities) for place in range(len(certificates))]


def _described(certificate: x509.Certificate) -> Described:
    alternatives = _alternatives(certificate)
    uris = alternatives.get_values_for_type(x509.UniformResourceIdentifier) if alternatives else []
    hosts = alternatives.get_values_for_type(x509.DNSName) if alternatives else []
    addresses = alternatives.get_values_for_type(x509.IPAddress) if alternatives else []
    holder, problem = None, ""
    authority = is_authority(certificate)
    if not authority:
        try:
            holder = identity_of(uris, hosts)
        except BadCertificate as error:
            problem = str(error)
    in_dns = server_name(holder.role, holder.name) if holder and holder.in_dns else ""
    return Described(
        subject=certificate.subject.rfc4514_string(),
        issuer=certificate.issuer.rfc4514_string(),
        is_authority=authority,
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
