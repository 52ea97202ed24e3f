"""With TLS configured, only holders of a certificate get in, users and agents alike."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import grpc
import pytest

from gosched.master.server import MasterServer
from gosched.replication.memory import MemoryReplication
from gosched.wire.v1 import scheduler_pb2, scheduler_pb2_grpc
from tests.master import http_client
from tests.master.harness import LIMIT_S, settings, until
from tests.replication.certificates import Authority


def test_without_a_certificate_nobody_is_served(tmp_path: Path) -> None:
    files = Authority(tmp_path / "ours").files("m1")
    strangers = Authority(tmp_path / "others").files("m1")
    ours = {"cert": files.cert, "key": files.key, "ca": files.ca}

    def channel(cert: str, key: str) -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(
            Path(files.ca).read_bytes(), Path(key).read_bytes(), Path(cert).read_bytes()
        )
        return grpc.aio.secure_channel(server.record.grpc_address, credentials)

    async def status(through: grpc.aio.Channel) -> str:
        async with through:
            stub = scheduler_pb2_grpc.SchedulerServiceStub(through)
            answer = await stub.GetClusterStatus(scheduler_pb2.GetClusterStatusRequest(), timeout=LIMIT_S)
            return str(answer.leader)

    async def http(context: ssl.SSLContext) -> int:
        return (await http_client.get(server.record.http_address, "/healthz", tls=context)).status

    async def story() -> None:
        replication = MemoryReplication("m1")
        nonlocal server
        server = MasterServer(settings(tls=ours), replication)
        try:
            await server.start()
            await until(lambda: replication.state.epoch)
            assert await status(channel(files.cert, files.key)) == "m1"
            for refused in (
                channel(strangers.cert, strangers.key),
                grpc.aio.insecure_channel(server.record.grpc_address),
            ):
                with pytest.raises(grpc.aio.AioRpcError):
                    await status(refused)
            anonymous = ssl.create_default_context(cafile=files.ca)  # noqa: TID251
            anonymous.check_hostname = False
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await http(anonymous)
            known = ssl.create_default_context(cafile=files.ca)  # noqa: TID251
            known.check_hostname = False
            known.load_cert_chain(files.cert, files.key)
            assert await http(known) == 200
        finally:
            await server.stop()

    server: MasterServer
    asyncio.run(story())
