"""What the holder of a certificate may call on a master, by gRPC and by HTTP, on the leader and by way of another."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from gosched.config import ConfigError
from gosched.master.base.callers import FORWARDED
from gosched.master.base.methods import method_of
from gosched.master.server import MasterServer
from gosched.replication.memory import MemoryCluster, MemoryReplication
from gosched.replication.replica_config import TlsFiles
from gosched.wire.roles import BadCertificate, CertificateHolder, Role, identity_of
from gosched.wire.v1 import (
    access_pb2,
    cluster_pb2,
    cluster_pb2_grpc,
    history_pb2,
    join_pb2,
    node_pb2,
    node_pb2_grpc,
    scheduler_pb2,
    scheduler_pb2_grpc,
    secret_pb2,
)
from tests.master import http_client
from tests.master.harness import LIMIT_S, FakeAgent, settings, until
from tests.replication.certificates import Authority

CLUSTER = "berlin"
SERVICES = {
    "AccessService": access_pb2,
    "SecretService": secret_pb2,
    "ClusterService": cluster_pb2,
    "HistoryService": history_pb2,
    "JoinService": join_pb2,
    "NodeService": node_pb2,
    "SchedulerService": scheduler_pb2,
}
METHODS = [
    f"/gosched.v1.{name}/{method.name}"
    for name, module in SERVICES.items()
    for method in module.DESCRIPTOR.services_by_name[name].methods
]
OF_AGENTS = {"RegisterNode", "Heartbeat", "RenewCertificate"}
OF_BOTH = {"GetClusterStatus", "GetAuthority", "Join"}
STREAMS = ("WatchJob", "StreamJobLogs", "ExecTask", "TakeBackup", "WatchEvents", "StreamHistory")
OF_MASTERS = {"AnnounceMaster", "GetStateDigests", "ReadClock", "StreamHistory"}


class Secured:
    """Two masters with certificates of one authority; m1 leads."""

    def __init__(self, authority: Authority, cluster: MemoryCluster, servers: list[MasterServer]) -> None:
        self.authority = authority
        self.cluster = cluster
        self.servers = servers
        self._channels: list[Any] = []

    def channel(self, files: TlsFiles, master: int = 0) -> Any:
        key, cert, ca = (Path(path).read_bytes() for path in (files.key, files.cert, files.ca))
        channel = grpc.aio.secure_channel(
            self.servers[master].record.grpc_address, grpc.ssl_channel_credentials(ca, key, cert)
        )
        self._channels.append(channel)
        return channel

    def nodes(self, files: TlsFiles, master: int = 0) -> Any:
        return node_pb2_grpc.NodeServiceStub(self.channel(files, master))

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()
        for server in self.servers:
            await server.stop()


@contextlib.asynccontextmanager
async def secured(folder: Path) -> AsyncIterator[Secured]:
    authority = Authority(folder / "ca")
    cluster = MemoryCluster("m1", "m2")
    servers = []
    for member in ("m1", "m2"):
        files = authority.files(member, cluster=CLUSTER)
        raft = {"enabled": True, "node_id": member, "peers": ["m1=127.0.0.1:1", "m2=127.0.0.1:2"]}
        tls = {"cert": files.cert, "key": files.key, "ca": files.ca}
        access = {"admins": ["alice", "bob", "u", "x"]}
        servers.append(MasterServer(settings(tls=tls, raft=raft, access=access), cluster.members[member]))
    running = Secured(authority, cluster, servers)
    try:
        for server in servers:
            await server.start()
        cluster.elect("m1")
        state = cluster.members["m1"].state
        await until(lambda: state.queues and len(state.masters) == 2)
        yield running
    finally:
        await running.close()


async def code_of(call: Any) -> grpc.StatusCode:
    try:
        async with asyncio.timeout(LIMIT_S):
            await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def test_every_rpc_has_its_roles() -> None:
    for method in METHODS:
        name = method.rpartition("/")[2]
        expected = {Role.AGENT} if name in OF_AGENTS else set() if name in OF_MASTERS else {Role.CLIENT}
        assert method_of(method).roles - {Role.AGENT if name in OF_BOTH else None} == expected, method


@pytest.mark.parametrize("master", [0, 1], ids=["leader", "follower"])
def test_each_role_calls_its_own_methods_and_no_others(tmp_path: Path, master: int) -> None:
    async def story() -> None:
        async with secured(tmp_path) as run:
            for role in Role:
                channel = run.channel(run.authority.files("m1" if role is Role.MASTER else "x", role.value), master)
                for method in METHODS:
                    if method.endswith(
                        ("WatchJob", "StreamJobLogs", "ExecTask", "TakeBackup", "WatchEvents", "StreamHistory")
                    ):
                        call = channel.stream_stream(method)(iter([b""])).read()
                    else:
                        call = channel.unary_unary(method)(b"")
                    code = await code_of(call)
                    may = role is Role.MASTER or role in method_of(method).roles
                    # An empty request of an agent names another node than its own.
                    if role is Role.AGENT and method.endswith("RegisterNode"):
                        may = False
                    assert (code is grpc.StatusCode.PERMISSION_DENIED) is not may, (role, method, code)

    asyncio.run(story())


def test_a_user_cannot_announce_itself_as_a_master(tmp_path: Path) -> None:
    async def story() -> None:
        async with secured(tmp_path) as run:
            stub = cluster_pb2_grpc.ClusterServiceStub(run.channel(run.authority.files("alice", "client")))
            request = cluster_pb2.AnnounceMasterRequest()
            request.master.id, request.master.grpc_address, request.master.http_address = "evil", "h:1", "h:2"
            assert await code_of(stub.AnnounceMaster(request)) is grpc.StatusCode.PERMISSION_DENIED
            assert set(run.cluster.members["m1"].state.masters) == {"m1", "m2"}

    asyncio.run(story())


@pytest.mark.parametrize("master", [0, 1], ids=["leader", "follower"])
def test_an_agent_speaks_for_its_own_node_alone(tmp_path: Path, master: int) -> None:
    async def story() -> None:
        async with secured(tmp_path) as run, FakeAgent("n1").serving() as one, FakeAgent("n2").serving() as two:
            by_name = run.nodes(run.authority.files("host-1", "agent", cluster=CLUSTER), master)
            by_id = run.nodes(run.authority.files("n2", "agent"), master)
            any_node = run.nodes(run.authority.files("*", "agent"), master)
            await by_name.RegisterNode(one.registration(name="host-1"), timeout=LIMIT_S)
            await by_id.RegisterNode(two.registration(name="host-2"), timeout=LIMIT_S)
            for stub, node, name in ((by_name, two, "host-2"), (by_name, two, "host-1"), (by_id, one, "host-1")):
                refused = await code_of(stub.RegisterNode(node.registration(name=name), timeout=LIMIT_S))
                assert refused is grpc.StatusCode.PERMISSION_DENIED
            beats = [node_pb2.HeartbeatRequest(node_id=n, incarnation="boot-1") for n in ("n1", "n2")]
            assert await code_of(by_name.Heartbeat(beats[0])) is grpc.StatusCode.OK
            assert await code_of(by_name.Heartbeat(beats[1])) is grpc.StatusCode.PERMISSION_DENIED
            assert await code_of(by_id.Heartbeat(beats[0])) is grpc.StatusCode.PERMISSION_DENIED
            for beat in beats:
                assert await code_of(any_node.Heartbeat(beat)) is grpc.StatusCode.OK

    asyncio.run(story())


def test_a_user_cannot_pass_for_an_agent_by_saying_that_its_call_was_passed_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with secured(tmp_path) as run:
            user = run.nodes(run.authority.files("alice", "client"))
            metadata = ((FORWARDED, "gosched:///agent/*"),)
            call = user.Heartbeat(node_pb2.HeartbeatRequest(node_id="n1"), metadata=metadata)
            assert await code_of(call) is grpc.StatusCode.PERMISSION_DENIED

    asyncio.run(story())


def test_a_new_cluster_has_the_id_of_its_certificates_and_others_stay_outside(tmp_path: Path) -> None:
    async def story() -> None:
        async with secured(tmp_path) as run:
            assert {member.state.cluster_id for member in run.cluster.members.values()} == {CLUSTER}
            status = scheduler_pb2.GetClusterStatusRequest()
            for cluster, code in (
                (CLUSTER, grpc.StatusCode.OK),
                ("", grpc.StatusCode.OK),
                ("paris", grpc.StatusCode.PERMISSION_DENIED),
            ):
                files = run.authority.files("alice", "client", cluster=cluster)
                stub = scheduler_pb2_grpc.SchedulerServiceStub(run.channel(files, 1))
                assert await code_of(stub.GetClusterStatus(status)) is code

    asyncio.run(story())


def test_over_http_users_read_and_agents_do_not(tmp_path: Path) -> None:
    async def story() -> None:
        async with secured(tmp_path) as run:
            address = run.servers[0].record.http_address

            async def status(files: TlsFiles, path: str) -> int:
                context = ssl.create_default_context(cafile=files.ca)  # noqa: TID251
                context.load_cert_chain(files.cert, files.key)
                return (await http_client.get(address, path, tls=context)).status

            user, agent = run.authority.files("alice", "client"), run.authority.files("host-1", "agent")
            legacy = run.authority.files("bob", uri="")
            foreign = run.authority.files("carol", "client", cluster="paris")
            assert [await status(files, "/api/v1/status") for files in (user, legacy)] == [200, 200]
            assert [await status(files, "/api/v1/status") for files in (agent, foreign)] == [403, 403]
            assert [await status(files, "/healthz") for files in (user, agent)] == [200, 200]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("name", "role", "uri"),
    [("m2", "master", None), ("m1", "agent", None), ("m1", "client", None), ("m1", "master", "")],
)
def test_a_master_does_not_start_with_a_certificate_that_is_not_its_own(
    tmp_path: Path, name: str, role: str, uri: str | None
) -> None:
    files = Authority(tmp_path / "ca").files(name, role, uri=uri)
    tls = {"cert": files.cert, "key": files.key, "ca": files.ca}
    with pytest.raises(ConfigError, match="gosched://CLUSTER/master/m1 among its alternative names"):
        MasterServer(settings(tls=tls), MemoryReplication("m1"))


def test_a_certificate_of_another_authority_is_noticed_at_start(tmp_path: Path) -> None:
    files, other = Authority(tmp_path / "ca").files("m1"), Authority(tmp_path / "other").files("m1")
    tls = {"cert": files.cert, "key": files.key, "ca": other.ca}
    with pytest.raises(ConfigError, match="is not signed by the authority in"):
        MasterServer(settings(tls=tls), MemoryReplication("m1"))


def test_roles_are_read_from_one_uri_and_nothing_else() -> None:
    assert identity_of([]) == CertificateHolder(cluster="", role=Role.CLIENT, name="")
    assert identity_of(["https://x/y", "gosched://c1/agent/n%201"]) == CertificateHolder(
        cluster="c1", role=Role.AGENT, name="n 1"
    )
    holder = CertificateHolder(cluster="a/b", role=Role.AGENT, name="ü *")
    assert identity_of([holder.uri()]) == holder
    for bad in (
        ["gosched://c/root/x"],
        ["gosched://c/master/"],
        ["gosched://c/master/x/y"],
        ["gosched://master/x"],
        ["gosched://c/master/%1b"],
        ["GOSCHED://c/Master/x"],
        ["gosched://c/master/a", "gosched://c/client/a"],
    ):
        with pytest.raises(BadCertificate):
            identity_of(bad)


def test_a_role_may_stand_in_a_dns_name_and_is_read_as_strictly() -> None:
    for name in ("*", "gosched-0"):
        holder = identity_of([], ["localhost", f"{name}.agent.gosched.internal"])
        assert holder == CertificateHolder(role=Role.AGENT, name=name, in_dns=True)
    # Services of a namespace called gosched are hosts, and say nothing.
    assert identity_of([], ["gosched.gosched", "pod.master.gosched", "x.gosched.internal.svc"]) == CertificateHolder()
    for bad in (
        ["x.root.gosched.internal"],
        ["master.gosched.internal"],
        [".master.gosched.internal"],
        ["a.b.master.gosched.internal"],
        ["A.master.gosched.internal"],
        ["a.master.GOSCHED.internal"],
        ["a*.agent.gosched.internal"],
        ["-a.master.gosched.internal"],
        ["a.master.gosched.internal", "a.client.gosched.internal"],
        ["a.master.gosched.internal", "a.master.gosched.internal"],
    ):
        with pytest.raises(BadCertificate):
            identity_of([], bad)
    with pytest.raises(BadCertificate, match="names 2 roles"):
        identity_of(["gosched://c/client/a"], ["a.master.gosched.internal"])


@pytest.mark.parametrize("master", [0, 1], ids=["leader", "follower"])
def test_a_role_in_a_dns_name_allows_what_the_same_role_in_a_uri_does(tmp_path: Path, master: int) -> None:
    async def story() -> None:
        async with secured(tmp_path) as run, FakeAgent("n1").serving() as one:
            agent = run.nodes(run.authority.files("n1", dns="n1.agent.gosched.internal"), master)
            await agent.RegisterNode(one.registration(name="host-1"), timeout=LIMIT_S)
            assert await code_of(agent.ListNodes(node_pb2.ListNodesRequest())) is grpc.StatusCode.PERMISSION_DENIED
            other = run.nodes(run.authority.files("n2", dns="n2.agent.gosched.internal"), master)
            beat = node_pb2.HeartbeatRequest(node_id="n1", incarnation="boot-1")
            assert await code_of(other.Heartbeat(beat)) is grpc.StatusCode.PERMISSION_DENIED
            user = run.nodes(run.authority.files("u", dns="u.client.gosched.internal"), master)
            assert await code_of(user.ListNodes(node_pb2.ListNodesRequest())) is grpc.StatusCode.OK
            unread = run.nodes(run.authority.files("x", dns="x.root.gosched.internal"), master)
            assert await code_of(unread.ListNodes(node_pb2.ListNodesRequest())) is grpc.StatusCode.PERMISSION_DENIED

    asyncio.run(story())
