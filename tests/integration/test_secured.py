"""A cluster with certificates, of real processes: it works as any other, and a user's certificate is a user's alone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from gosched.client import GoSchedClient, GoSchedError, TlsFiles
from gosched.core.records.job import JobState
from gosched.wire.v1 import cluster_pb2, cluster_pb2_grpc, node_pb2, node_pb2_grpc, worker_pb2, worker_pb2_grpc
from tests.ports import HeldPort
from tests.replication.certificates import Authority

from .support import PATIENCE_S, until

BIN = Path(sys.executable).parent
MEMBERS = ("m1", "m2", "m3")


class Secured:
    def __init__(self, folder: Path, running: ExitStack) -> None:
        self.authority = Authority(folder / "ca")
        self.user = self.authority.files("alice", "client", cluster="prod")
        self.ports = {m: {use: HeldPort() for use in ("grpc", "http", "raft")} for m in MEMBERS}
        self.endpoints = ",".join(ports["grpc"].address for ports in self.ports.values())
        for m in MEMBERS:
            self._run(running, "gosched-master", folder / m, m, "master", self._master(m))
        agent = {"masters": self.endpoints.split(","), "resources": {"cpu": 2}, "users": {"own": True}}
        self._run(running, "gosched-agent", folder / "agent", socket.gethostname(), "agent", agent)

    def _master(self, member: str) -> dict[str, Any]:
        ports = self.ports[member]
        peers = [f"{other}={self.ports[other]['raft'].address}" for other in MEMBERS if other != member]
        raft = {"enabled": True, "node_id": member, "bind_addr": ports["raft"].address, "peers": peers}
        server = {"grpc_addr": ports["grpc"].address, "http_addr": ports["http"].address}
        return {"server": server, "raft": raft, "access": {"admins": ["alice"]}}

    def _run(
        self, running: ExitStack, program: str, home: Path, name: str, role: str, settings: dict[str, Any]
    ) -> None:
        files = self.authority.files(name, role, cluster="prod")
        tls = {"cert": files.cert, "key": files.key, "ca": files.ca}
        home.mkdir()
        (home / "config.yaml").write_text(yaml.safe_dump({**settings, "tls": tls, "data_dir": str(home)}))
        log = running.enter_context((home / "log").open("w"))
        command = [str(BIN / program), "--config", str(home / "config.yaml")]
        process = running.enter_context(subprocess.Popen(command, stdout=log, stderr=log))
        running.callback(process.terminate)

    def client(self) -> GoSchedClient:
        tls = TlsFiles(cert=self.user.cert, key=self.user.key, ca=self.user.ca)
        return GoSchedClient(self.endpoints, tls=tls, timeout_s=PATIENCE_S)

    def code_of(self, address: str, stub: Any, method: str, request: Any) -> grpc.StatusCode:
        ca, key, cert = (Path(path).read_bytes() for path in (self.user.ca, self.user.key, self.user.cert))
        with grpc.secure_channel(address, grpc.ssl_channel_credentials(ca, key, cert)) as channel:
            try:
                getattr(stub(channel), method)(request, timeout=PATIENCE_S)
            except grpc.RpcError as error:
                return error.code()
        return grpc.StatusCode.OK


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    with ExitStack() as running:
        yield Secured(tmp_path, running)


def test_jobs_run_and_a_users_certificate_orders_nothing_of_agents_and_masters(secured: Secured) -> None:
    with secured.client() as client:

        def ready() -> bool:
            try:
                return client.get_status().nodes_ready == 1
            except GoSchedError:
                return False

        until(ready, "the node is ready")
        (node,) = client.list_nodes()
        orders = {"epoch": 1 << 62, "node_id": node.node.id, "incarnation": node.node.incarnation}
        of_agent = [
            ("StartTasks", worker_pb2.StartTasksRequest(**orders)),
            ("FreezeTasks", worker_pb2.FreezeTasksRequest(**orders)),
            ("GetIdentity", worker_pb2.GetIdentityRequest()),
        ]
        for method, request in of_agent:
            refused = secured.code_of(node.node.address, worker_pb2_grpc.WorkerServiceStub, method, request)
            assert refused is grpc.StatusCode.PERMISSION_DENIED
        announcement = cluster_pb2.AnnounceMasterRequest()
        announcement.master.id = announcement.master.grpc_address = announcement.master.http_address = "evil:1"
        beat = node_pb2.HeartbeatRequest(node_id=node.node.id, incarnation=node.node.incarnation)
        for address in secured.endpoints.split(","):
            for stub, method, message in (
                (cluster_pb2_grpc.ClusterServiceStub, "AnnounceMaster", announcement),
                (node_pb2_grpc.NodeServiceStub, "Heartbeat", beat),
                (node_pb2_grpc.NodeServiceStub, "RegisterNode", node_pb2.RegisterNodeRequest(node_id=node.node.id)),
            ):
                assert secured.code_of(address, stub, method, message) is grpc.StatusCode.PERMISSION_DENIED

        job = client.submit("name: says\nresources: {cpu: 1}\nrun: echo hello; sleep 600\n").job_id
        until(lambda: client.get_job(job).job.running == 1, "its agent still obeys its leader")
        tls = {f"GOSCHED_TLS_{part.upper()}": getattr(secured.user, part) for part in ("cert", "key", "ca")}
        done = subprocess.run(
            [str(BIN / "goschedctl"), "exec", "says", "--", "sh", "-c", "echo beside; exit 7"],
            env={**os.environ, **tls, "GOSCHED_ENDPOINTS": secured.endpoints},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, done.stdout) == (7, "beside\n")
        client.cancel(job)
        assert client.wait(job, timeout=PATIENCE_S).state is JobState.CANCELLED
        assert b"".join(chunk.data for chunk in client.logs(job)) == b"hello\n"

    tls_files = TlsFiles(cert=secured.user.cert, key=secured.user.key, ca=secured.user.ca)
    with GoSchedClient(f"https://{secured.ports['m1']['http'].address}", tls=tls_files) as by_https:
        assert by_https.get_status().nodes_ready == 1
