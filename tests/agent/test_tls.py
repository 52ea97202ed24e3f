"""With TLS both ends show a certificate; without one nobody gives this node orders."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gosched.wire.v1 import worker_pb2, worker_pb2_grpc
from tests.agent.conftest import LIMIT_S, Agent, FakeMaster

MakeAgent = Callable[..., Agent]


@pytest.fixture
def pem(tmp_path: Path) -> dict[str, Path]:
    """A certificate for this host that is its own authority, in files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gosched test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = {part: tmp_path / f"{part}.pem" for part in ("cert", "key")}
    files["cert"].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files["key"].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def test_master_and_agent_meet_with_certificates_and_a_stranger_is_shut_out(
    make_agent: MakeAgent, pem: dict[str, Path]
) -> None:
    key, cert = pem["key"].read_bytes(), pem["cert"].read_bytes()
    master = FakeMaster()
    master.serve(grpc.ssl_server_credentials([(key, cert)], root_certificates=cert, require_client_auth=True))
    try:
        flags = (f"--tls-cert={pem['cert']}", f"--tls-key={pem['key']}", f"--tls-ca={pem['cert']}")
        agent = make_agent(master, *flags).start(master)
        ask = worker_pb2.GetIdentityRequest()
        with grpc.secure_channel(agent.identity.address, grpc.ssl_channel_credentials(cert, key, cert)) as channel:
            identity = worker_pb2_grpc.WorkerServiceStub(channel).GetIdentity(ask, timeout=LIMIT_S)
        assert identity.node_id == agent.identity.node_id
        with grpc.secure_channel(agent.identity.address, grpc.ssl_channel_credentials(cert)) as channel:
            stranger = worker_pb2_grpc.WorkerServiceStub(channel)
            with pytest.raises(grpc.RpcError) as refused:
                stranger.GetIdentity(ask, timeout=LIMIT_S)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        master.vanish()


def test_a_missing_certificate_file_is_named(master: FakeMaster, make_agent: MakeAgent, tmp_path: Path) -> None:
    flags = [f"--tls-{part}={tmp_path}/absent-{part}.pem" for part in ("cert", "key", "ca")]
    agent = make_agent(master, *flags)
    agent.launch()
    assert agent.exit_code() == 2
    (line,) = agent.lines
    assert "absent-" in line
