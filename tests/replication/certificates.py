"""A certificate authority for tests."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gosched.replication.replica_config import TlsFiles


class Authority:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self._certificate = self._sign(self._name, self._key, authority=True)
        self._ca = folder / "ca.pem"
        self._ca.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def files(
        self,
        name: str,
        role: str = "master",
        *,
        cluster: str = "",
        uri: str | None = None,
        dns: str = "",
        groups: Sequence[str] = (),
    ) -> TlsFiles:
        """A certificate for a program on this machine. `uri`: its name and role in other words, or none. `dns`: in a
        DNS name, and no address is in the certificate. `groups`: of a user, as organizations."""
        key = ec.generate_private_key(ec.SECP256R1())
        uri = f"gosched://{cluster}/{role}/{name}" if uri is None else uri
        names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        names += [x509.UniformResourceIdentifier(uri)] if uri else []
        names = [x509.DNSName(dns)] if dns else names
        organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key, authority=False, names=names)
        file = f"{role}-{name}{dns}".replace("*", "any")
        cert_file, key_file = self.folder / f"{file}.pem", self.folder / f"{file}.key"
        cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.touch(mode=0o600)
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return TlsFiles(cert=str(cert_file), key=str(key_file), ca=str(self._ca))

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *,
        authority: bool,
        names: Sequence[x509.GeneralName] = (),
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())
