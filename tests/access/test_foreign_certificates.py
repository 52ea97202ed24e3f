"""Certificates of a company's own form, at real masters, agents and members of Raft."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from gosched.agent.host import CannotStart
from gosched.agent.masters import Connector, MastersOnly, NotAMaster
from gosched.agent.masters import watched_tls as agents_tls
from gosched.agent.revoked import RevokedMasters
from gosched.config import ConfigError
from gosched.config.settings import Tls
from gosched.master.base.channels import watched_tls
from gosched.master.server import MasterServer
from gosched.replication.memory import MemoryCluster
from gosched.wire.role_rules import reader_of
from gosched.wire.v1 import access_pb2, access_pb2_grpc, node_pb2, node_pb2_grpc
from tests.master import http_client
from tests.master.harness import LIMIT_S, settings, until
from tests.replication.certificates import Authority
from tests.replication.conftest import Cluster, a_node
from tests.replication.conftest import until as until_of_members

RULES = [
    {"match": "spiffe://corp/gosched/prod/master/*", "role": "master"},
    {"match": "spiffe://corp/gosched/prod/agent/*", "role": "agent"},
    {"match": "spiffe://corp/people/*", "role": "client"},
]


def files_of(authority: Authority, role: str, name: str, cluster: str = "prod") -> Any:
    path = f"people/{name}" if role == "client" else f"gosched/{cluster}/{role}/{name}"
    return authority.files(name, role, uri=f"spiffe://corp/{path}")


def tls_of(files: Any, **more: Any) -> Tls:
    return Tls.model_validate({"cert": files.cert, "key": files.key, "ca": files.ca, "roles": RULES, **more})


def channel_to(address: str, files: Any) -> Any:
    key, cert, ca = (Path(path).read_bytes() for path in (files.key, files.cert, files.ca))
    return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(ca, key, cert))


async def code_of(call: Any) -> str:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    return "OK"


def test_masters_agents_and_people_are_known_by_names_of_a_companys_form(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    ann, node = files_of(authority, "client", "ann"), files_of(authority, "agent", "n1")
    other, nobody = files_of(authority, "agent", "n9", "test"), authority.files("nobody", "client", uri="")

    async def story() -> None:
        cluster, servers = MemoryCluster("m1", "m2"), []
        for member in ("m1", "m2"):
            tls = tls_of(files_of(authority, "master", member), unnamed="refused").model_dump()
            raft = {"enabled": True, "node_id": member, "peers": ["m1=127.0.0.1:1", "m2=127.0.0.1:2"]}
            made = settings(tls=tls, raft=raft, access={"admins": ["ann"]}, data_dir=str(tmp_path / member))
            (tmp_path / member).mkdir()
            servers.append(MasterServer(made, cluster.members[member]))
        try:
            for server in servers:
                await server.start()
            cluster.elect("m1")
            state = cluster.members["m1"].state
            await until(lambda: state.queues and len(state.masters) == 2)
            for server in servers:  # the second passes calls on to the first, which knows it for a master
                address, http = server.record.grpc_address, server.record.http_address.rpartition(":")[2]
                channels = [channel_to(address, files) for files in (ann, node, other, nobody)]
                people, agent, foreign, stranger = channels
                check = access_pb2.CheckAccessRequest(permission="grant")
                found = await access_pb2_grpc.AccessServiceStub(people).CheckAccess(check, timeout=LIMIT_S)
                assert (found.user, found.allowed) == ("ann", True)
                register = node_pb2.RegisterNodeRequest(node_id="n1", name="n1", address="127.0.0.1:1", incarnation="i")
                answers = [
                    await code_of(node_pb2_grpc.NodeServiceStub(one).RegisterNode(register, timeout=LIMIT_S))
                    for one in (agent, people, foreign, stranger)
                ]
                assert answers == ["OK", "PERMISSION_DENIED", "PERMISSION_DENIED", "PERMISSION_DENIED"]
                register.node_id = register.name = "n2"
                stub = node_pb2_grpc.NodeServiceStub(agent)
                assert await code_of(stub.RegisterNode(register, timeout=LIMIT_S)) == "PERMISSION_DENIED"
                assert (
                    await code_of(access_pb2_grpc.AccessServiceStub(stranger).CheckAccess(check, timeout=LIMIT_S))
                    == "PERMISSION_DENIED"
                )
                for files, status in ((ann, 200), (nobody, 403)):
                    context = ssl.create_default_context(cafile=files.ca)  # noqa: TID251 - a client of a test
                    context.load_cert_chain(files.cert, files.key)
                    asked = await http_client.request(f"localhost:{http}", "GET", "/api/v1/jobs", tls=context)
                    assert asked.status == status
                for channel in channels:
                    await channel.close()
        finally:
            for server in servers:
                await server.stop()

    asyncio.run(story())


def test_an_agent_obeys_and_asks_masters_of_that_form_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    m1, n1, foreign = (
        files_of(authority, "master", "m1"),
        files_of(authority, "agent", "n1"),
        files_of(authority, "master", "m9", "test"),
    )

    async def story() -> None:
        tls, none = agents_tls(tls_of(n1), ("n1", "id")), RevokedMasters(tmp_path / "revoked.json")
        agent = grpc.aio.server(
            interceptors=[MastersOnly("", tls=True, revoked=none.holds, roles=reader_of(tls_of(n1)))]
        )
        agent.add_generic_rpc_handlers((_Handler(),))
        ports = []
        servers = [agent, grpc.aio.server(), grpc.aio.server()]
        for server, files in zip(servers, (n1, m1, foreign), strict=True):
            key, cert, ca = (Path(path).read_bytes() for path in (files.key, files.cert, files.ca))
            ports.append(server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, cert)], ca, True)))
            await server.start()
        connector = Connector(tls, "", [], none.holds)
        channels = [channel_to(f"localhost:{ports[0]}", files) for files in (m1, foreign, n1)]
        try:
            calls = [channel.unary_unary("/gosched.v1.WorkerService/StartTasks")(b"") for channel in channels]
            assert [await code_of(call) for call in calls] == ["OK", "PERMISSION_DENIED", "PERMISSION_DENIED"]
            await (await connector(f"localhost:{ports[1]}")).close()
            with pytest.raises(NotAMaster):
                await connector(f"localhost:{ports[2]}")
        finally:
            for channel in channels:
                await channel.close()
            for server in servers:
                await server.stop(0)

    asyncio.run(story())


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc] # grpc has no types
    def service(self, details: Any) -> Any:
        async def answer(request: bytes, context: Any) -> bytes:
            return b"done"

        return grpc.unary_unary_rpc_method_handler(answer)


def test_members_of_raft_know_each_other_by_that_form_and_refuse_others(tmp_path: Path) -> None:
    async def story() -> None:
        authority = Authority(tmp_path / "ca")
        c = Cluster(tmp_path)

        def with_files(member: str, files: Any) -> None:
            told = tls_of(files).model_dump_json()
            c.configs[member] = replace(c.configs[member], tls=files, tls_settings=told)

        for member in list(c.configs):
            with_files(member, files_of(authority, "master", member))
        try:
            await c.start()
            await c.commit(a_node("n1"))
            await c.converged()
            await c.kill("m3")
            with_files("m3", files_of(authority, "master", "m9"))
            await c.start("m3")
            await until_of_members(lambda: c.members["m3"].failure, what="m3 is refused")
            refused = c.members.pop("m3")
            assert "the certificate that came for m3 is gosched:///master/m9" in refused.failure
            await refused.close()
        finally:
            await c.close()

    asyncio.run(story())


def test_a_program_does_not_start_with_a_certificate_that_the_rules_give_another_role(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    agent, master = files_of(authority, "agent", "n1"), files_of(authority, "master", "m1")
    with pytest.raises(ConfigError, match=r"tls.cert: .* must have the URI"):
        watched_tls(tls_of(agent), "n1")
    with pytest.raises(CannotStart, match=r"tls.cert: .* must have the URI"):
        agents_tls(tls_of(master), ("m1", "id"))
    found = watched_tls(tls_of(master), "m1")
    assert found is not None
    assert found.current.holder.name == "m1"
    with pytest.raises(ConfigError, match=r"no role, by its own names and by tls.roles"):
        watched_tls(tls_of(authority.files("x", uri=""), unnamed="refused"), "x")
