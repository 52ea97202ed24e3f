"""With TLS both ends show a certificate; without one nobody gives this node orders."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from gosched.replication.replica_config import TlsFiles
from gosched.wire.v1 import worker_pb2, worker_pb2_grpc
from tests.agent.conftest import LIMIT_S, Agent, FakeMaster, shell, wait_for
from tests.replication.certificates import Authority

MakeAgent = Callable[..., Agent]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


def flags(files: TlsFiles) -> tuple[str, ...]:
    return (f"--tls-cert={files.cert}", f"--tls-key={files.key}", f"--tls-ca={files.ca}")


def pem(files: TlsFiles) -> tuple[bytes, bytes, bytes]:
    return Path(files.ca).read_bytes(), Path(files.key).read_bytes(), Path(files.cert).read_bytes()


def serve(master: FakeMaster, files: TlsFiles) -> None:
    ca, key, cert = pem(files)
    master.serve(grpc.ssl_server_credentials([(key, cert)], root_certificates=ca, require_client_auth=True))


def code_of(agent: Agent, credentials: Any, method: str = "GetIdentity", request: Any = None) -> grpc.StatusCode:
    with grpc.secure_channel(agent.identity.address, credentials) as channel:
        stub = worker_pb2_grpc.WorkerServiceStub(channel)
        try:
            answer = getattr(stub, method)(request or worker_pb2.GetIdentityRequest(), timeout=LIMIT_S)
            if method == "StreamLogs":
                next(answer)
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK


def test_master_and_agent_meet_with_certificates_and_nobody_else_gives_the_agent_orders(
    make_agent: MakeAgent, authority: Authority
) -> None:
    master, of_master = FakeMaster(), authority.files("m1")
    serve(master, of_master)
    try:
        agent = make_agent(master, *flags(authority.files(socket.gethostname(), "agent"))).start(master)
        ca, key, cert = pem(of_master)
        assert code_of(agent, grpc.ssl_channel_credentials(ca, key, cert)) is grpc.StatusCode.OK
        assert code_of(agent, grpc.ssl_channel_credentials(ca)) is grpc.StatusCode.UNAVAILABLE
        me = agent.identity
        orders = {"epoch": 1 << 62, "node_id": me.node_id, "incarnation": me.incarnation}
        start = worker_pb2.StartTasksRequest(orders=[shell("j1/main/0.1", "exit 0")], **orders)
        for name, role, uri in (("alice", "client", None), ("host-2", "agent", None), ("m1", "master", "")):
            files = authority.files(name, role, uri=uri)
            ca, key, cert = pem(files)
            credentials = grpc.ssl_channel_credentials(ca, key, cert)
            for method, request in (
                ("GetIdentity", None),
                ("StartTasks", start),
                ("FreezeTasks", worker_pb2.FreezeTasksRequest(**orders)),
                ("StreamLogs", worker_pb2.StreamLogsRequest(allocation_id="j1/main/0.1")),
            ):
                assert code_of(agent, credentials, method, request) is grpc.StatusCode.PERMISSION_DENIED
            with grpc.secure_channel(me.address, credentials) as channel:  # one that never sends a request
                stub = channel.stream_stream("/gosched.v1.WorkerService/GetIdentity")
                with pytest.raises(grpc.RpcError) as refused:
                    next(stub(iter(threading.Event().wait, None), timeout=LIMIT_S))
                assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert (agent.data_dir / "epoch").read_text() == "1\n"
    finally:
        master.vanish()


def test_an_agent_asks_nobody_whose_certificate_is_not_a_masters(make_agent: MakeAgent, authority: Authority) -> None:
    master = FakeMaster()
    serve(master, authority.files("mallory", "client"))
    agent = make_agent(master, *flags(authority.files("*", "agent")))
    agent.launch()
    try:
        wait_for(lambda: any("it shows the certificate of client mallory" in line for line in agent.lines))
        assert not master.registrations
        master.vanish()
        serve(master, authority.files("m1"))  # a new certificate, or another program, at the same address
        wait_for(lambda: master.heartbeats)
    finally:
        master.vanish()


@pytest.mark.parametrize(("name", "role"), [("host-2", "agent"), ("m1", "master"), ("alice", "client")])
def test_an_agent_does_not_start_with_a_certificate_that_is_not_its_own(
    master: FakeMaster, make_agent: MakeAgent, authority: Authority, name: str, role: str
) -> None:
    agent = make_agent(master, *flags(authority.files(name, role)))
    agent.launch()
    assert agent.exit_code() == 2
    (line,) = agent.lines
    assert f"gosched://CLUSTER/agent/{socket.gethostname()} among its alternative names" in line


def test_a_missing_certificate_file_is_named(master: FakeMaster, make_agent: MakeAgent, tmp_path: Path) -> None:
    flags = [f"--tls-{part}={tmp_path}/absent-{part}.pem" for part in ("cert", "key", "ca")]
    agent = make_agent(master, *flags)
    agent.launch()
    assert agent.exit_code() == 2
    (line,) = agent.lines
    assert "absent-" in line
