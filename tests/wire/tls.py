"""Certificates for tests, as `goschedctl cert` makes them, and those that it would never make."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from gosched.cli.main import run_cli
from gosched.wire.probe import TlsPaths


def authority(folder: Path) -> Path:
    assert run_cli(["cert", "init", "--dir", str(folder)]) == 0
    return folder


def issued(folder: Path, role: str, name: str, *names: str) -> TlsPaths:
    """Return the files of a certificate that the authority in the folder has signed."""
    sans = [word for san in names for word in ("--san", san)]
    assert run_cli(["cert", "issue", role, name, "--dir", str(folder), *sans]) == 0
    file = "any" if name == "*" else name
    return TlsPaths(cert=str(folder / f"{file}.pem"), key=str(folder / f"{file}.key"), ca=str(folder / "ca.pem"))


def out_of_date(folder: Path, files: TlsPaths, *, begins_in_days: int, ends_in_days: int) -> TlsPaths:
    """Return files with the same certificate for another time, signed by the same authority."""
    certificate = x509.load_pem_x509_certificate(Path(files.cert).read_bytes())
    signer = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(certificate.subject)
        .issuer_name(certificate.issuer)
        .public_key(certificate.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=begins_in_days))
        .not_valid_after(now + datetime.timedelta(days=ends_in_days))
    )
    for extension in certificate.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    signed = builder.sign(signer, hashes.SHA256())  # type: ignore[arg-type]
    file = Path(files.cert).with_suffix(f".{begins_in_days}.{ends_in_days}.pem")
    file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return TlsPaths(cert=str(file), key=files.key, ca=files.ca)
