"""How a master knows the agent that it dials: by the host of its address, or by its role."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from gosched.config.settings import Tls
from gosched.core.records.node import Node
from gosched.core.resources import Resources
from gosched.master.base import channels as channels_module
from gosched.master.base.channels import MAX_CHANNELS, MAX_DIALS, Channels, watched_tls
from gosched.replication.replica_config import TlsFiles
from gosched.wire import addresses
from gosched.wire.addresses import MAX_NAMES, AddressBook
from gosched.wire.tls_watch import TlsWatch
from gosched.wire.v1 import worker_pb2, worker_pb2_grpc
from tests.master.harness import LIMIT_S, one_master
from tests.replication.certificates import Authority
from tests.slow_path import SlowPath

NODE = Node(
    id="n-1",
    name="node-17",
    address="",
    capacity=Resources(),
    incarnation="boot-1",
    registered_at_ms=0,
    changed_at_ms=0,
)


class Worker(worker_pb2_grpc.WorkerServiceServicer):  # type: ignore[misc]
    async def GetIdentity(self, request: Any, context: Any) -> worker_pb2.GetIdentityResponse:
        return worker_pb2.GetIdentityResponse(node_id=NODE.id)


@contextlib.asynccontextmanager
async def agent_with(files: TlsFiles) -> AsyncIterator[Node]:
    server = grpc.aio.server()
    worker_pb2_grpc.add_WorkerServiceServicer_to_server(Worker(), server)
    key, cert, ca = (Path(path).read_bytes() for path in (files.key, files.cert, files.ca))
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, cert)], ca, True))
    await server.start()
    try:
        yield replace(NODE, address=f"127.0.0.1:{port}")
    finally:
        await server.stop(None)


async def reaches(channels: Channels, node: Node) -> bool:
    try:
        stub = worker_pb2_grpc.WorkerServiceStub(channels.to_agent(node))
        await stub.GetIdentity(worker_pb2.GetIdentityRequest(), timeout=LIMIT_S)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            raise
        return False
    return True


def channels_of(files: TlsFiles) -> Channels:
    tls = Tls(cert=files.cert, key=files.key, ca=files.ca)
    watch = watched_tls(tls, "m1")
    assert watch
    return Channels(watch, by_role=watch.current.holder.in_dns)


@pytest.mark.parametrize(
    ("of_agent", "name", "reached"),
    [
        ("*.agent.gosched.internal", "node-17", True),
        ("*.agent.gosched.internal", "node-17.example.org", True),
        ("node-17.agent.gosched.internal", "node-17", True),
        ("n-1.agent.gosched.internal", "node-17.example.org", True),
        ("node-18.agent.gosched.internal", "node-17", False),
        ("node-17.client.gosched.internal", "node-17", False),
        ("m2.master.gosched.internal", "node-17", False),
        ("", "node-17", False),  # it has its address, and no DNS name of an agent
    ],
)
def test_a_master_with_its_role_in_a_dns_name_knows_agents_by_theirs_and_not_by_their_addresses(
    tmp_path: Path, of_agent: str, name: str, reached: bool
) -> None:
    async def story() -> None:
        authority = Authority(tmp_path)
        files = authority.files("node-17", "agent", dns=of_agent)
        channels = channels_of(authority.files("m1", dns="m1.master.gosched.internal"))
        async with agent_with(files) as node:
            assert await reaches(channels, replace(node, name=name)) is reached
        await channels.close()

    asyncio.run(story())


def test_a_master_with_its_role_in_a_uri_knows_agents_by_their_hosts(tmp_path: Path) -> None:
    async def story() -> None:
        authority = Authority(tmp_path)
        channels = channels_of(authority.files("m1"))
        async with agent_with(authority.files("node-17", "agent")) as by_host:
            assert await reaches(channels, by_host)
        async with agent_with(authority.files("*", dns="*.agent.gosched.internal")) as by_role:
            assert not await reaches(channels, by_role)
        await channels.close()

    asyncio.run(story())


def test_with_new_certificates_calls_go_over_new_channels_and_those_under_way_end_on_the_old_one(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        files = Authority(tmp_path).files("m1")
        watch = watched_tls(Tls(cert=files.cert, key=files.key, ca=files.ca), "m1")
        assert watch
        channels = Channels(watch)
        async with agent_with(files) as node:
            old = channels.to_agent(node)
            under_way = worker_pb2_grpc.WorkerServiceStub(old).GetIdentity(worker_pb2.GetIdentityRequest())
            Authority(tmp_path).files("m1")  # another authority, too: the agent refuses it
            await watch_once(watch)
            assert channels.to_agent(node) is not old
            assert (await under_way).node_id == NODE.id
            assert not await reaches(channels, node)
        await channels.close()

    asyncio.run(story())


@pytest.mark.parametrize("tls", [True, False])
def test_a_path_of_300_ms_is_connected_to_once(tmp_path: Path, tls: bool) -> None:
    async def story() -> None:
        files = Authority(tmp_path).files("m1")
        server, port = await worker_at("127.0.0.1", files if tls else None)
        channels = channels_of(files) if tls else Channels(None)
        with SlowPath(f"127.0.0.1:{port}") as path:
            assert await reaches(channels, replace(NODE, address=path.address))
            assert path.connections == 1
            await channels.close()
        await server.stop(None)

    asyncio.run(story())


def test_a_name_is_dialled_where_it_was_reached_while_no_name_server_answers_and_where_it_is_after_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "ASK_AGAIN_S", 0.0)
    monkeypatch.setattr(channels_module, "REDIAL_S", 0.0)
    answers: list[str] = []

    def lookup(host: str) -> list[str]:
        if not answers:
            raise OSError("no name server answers")
        return answers

    async def story() -> None:
        files = Authority(tmp_path).files("m1")
        tls = watched_tls(Tls(cert=files.cert, key=files.key, ca=files.ca), "m1")
        file = tmp_path / "addresses.json"
        file.write_text('{"names": {"localhost": ["127.0.0.9", "127.0.0.1"], "elsewhere": ["127.0.0.1"]}}')
        channels = Channels(tls, book=AddressBook(file, lookup=lookup))
        server, port = await worker_at("127.0.0.1", files)
        assert await reaches(channels, replace(NODE, address=f"localhost:{port}"))
        assert not await reaches(channels, replace(NODE, address=f"elsewhere:{port}"))  # not in the certificate
        await server.stop(None)
        server, port = await worker_at("127.0.0.2", files, port)  # it comes back at another address
        assert not await reaches(channels, replace(NODE, address=f"localhost:{port}"))
        answers.append("127.0.0.2")
        async with asyncio.timeout(LIMIT_S):
            while not await reaches(channels, replace(NODE, address=f"localhost:{port}")):
                await asyncio.sleep(0.02)
        await channels.close()
        await server.stop(None)

    asyncio.run(story())


def test_the_address_that_lives_is_kept_whatever_its_place_among_those_that_were_dialled() -> None:
    answers = [[f"127.0.0.{i}" for i in (9, 8, 7, 6, 5, 4, 3, 2, 20, 1)]]

    def lookup(host: str) -> list[str]:
        if not answers:
            raise OSError("no name server answers")
        return answers.pop()

    async def story() -> tuple[str, ...]:
        book = AddressBook(lookup=lookup)
        assert await book.found("many", LIMIT_S)
        channels = Channels(None, book=book)
        server, port = await worker_at("127.0.0.1", None)
        node = replace(NODE, address=f"many:{port}")
        assert await reaches(channels, node)
        channels.to_agent(node)
        await channels.close()
        await server.stop(None)
        return book._names["many"].kept

    assert "127.0.0.1" in asyncio.run(story())


def test_the_names_of_nodes_push_none_of_a_master_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "MAX_NAMES", 2)

    async def story() -> None:
        async with one_master(data_dir=str(tmp_path)) as front:
            masters, agents = front.server._masters._book, front.server._agents._book
            masters.worked("m2", ["10.0.0.2"])
            for i in range(3):
                agents.worked(f"n{i}", ["10.0.0.3"])
            assert masters.of("m2") == ("10.0.0.2",)
            assert agents.of("n2") == ("10.0.0.3",)
            assert masters._file != agents._file

    asyncio.run(story())
    assert MAX_NAMES >= MAX_CHANNELS


def test_connections_for_many_calls_are_made_a_few_at_a_time() -> None:
    async def story() -> int:
        channels = Channels(None)
        inside = most = 0

        async def one(number: int) -> None:
            nonlocal inside, most
            async with channels.bounded(replace(NODE, address=f"127.0.0.1:{number}")):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.001)
                inside -= 1

        await asyncio.gather(*(one(number) for number in range(1, 100)))
        await channels.close()
        return most

    assert asyncio.run(story()) == MAX_DIALS


async def worker_at(host: str, files: TlsFiles | None, port: int = 0) -> tuple[Any, int]:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    worker_pb2_grpc.add_WorkerServiceServicer_to_server(Worker(), server)
    if files is None:
        port = server.add_insecure_port(f"{host}:{port}")
    else:
        key, cert, ca = (Path(path).read_bytes() for path in (files.key, files.cert, files.ca))
        port = server.add_secure_port(f"{host}:{port}", grpc.ssl_server_credentials([(key, cert)], ca, True))
    await server.start()
    return server, port


async def watch_once(watch: TlsWatch) -> None:
    told = asyncio.Event()
    watch.follow(told.set)
    watching = asyncio.ensure_future(watch.watch())
    watch.ask()
    async with asyncio.timeout(LIMIT_S):
        await told.wait()
    watching.cancel()
