"""The certificates of one test cluster: a CA, what the programs show each other, and a kubeconfig for each of them."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE = datetime.timedelta(days=7)  # a test cluster lives for minutes

# Subject by file name: Kubernetes takes CN as the user's name and O as its groups.
SUBJECTS = {
    "apiserver": ("kube-apiserver", ""),
    "admin": ("admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kube-proxy": ("system:kube-proxy", ""),
    "kubelet": ("system:node:{node}", "system:nodes"),
}


def make(folder: Path, *, node: str, addresses: list[str], server: str) -> None:
    """Write NAME.crt, NAME.key and NAME.kubeconfig of each program, ca.crt, ca.key and the service accounts' sa.key."""
    folder.mkdir(mode=0o700)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("gosched test CA", "")
    ca = _builder(ca_name, ca_name, ca_key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    authority = ca.sign(ca_key, hashes.SHA256())
    _write(folder / "ca", ca_key, authority)
    _write(folder / "sa", ec.generate_private_key(ec.SECP256R1()))
    names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses]
    names += [x509.DNSName(each) for each in (node, "localhost", "kubernetes", "kubernetes.default.svc")]
    for file, (common, group) in SUBJECTS.items():
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_name(common.format(node=node), group), ca_name, key)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .sign(ca_key, hashes.SHA256())
        )
        _write(folder / file, key, certificate)
        (folder / f"{file}.kubeconfig").write_text(_kubeconfig(folder / file, folder / "ca.crt", server))


def _name(common: str, group: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if group:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(parts)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + LIFE)
    )


def _write(path: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate | None = None) -> None:
    pem = serialization.Encoding.PEM
    # Of service accounts' keys Kubernetes reads the public half out of this format, and not out of PKCS 8.
    private = key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    path.with_suffix(".key").write_bytes(private)
    if certificate is not None:
        path.with_suffix(".crt").write_bytes(certificate.public_bytes(pem))


def _kubeconfig(base: Path, ca: Path, server: str) -> str:
    return f"""\
apiVersion: v1
kind: Config
clusters: [{{name: test, cluster: {{server: "{server}", certificate-authority: "{ca}"}}}}]
users: [{{name: me, user: {{client-certificate: "{base}.crt", client-key: "{base}.key"}}}}]
contexts: [{{name: test, context: {{cluster: test, user: me}}}}]
current-context: test
"""
