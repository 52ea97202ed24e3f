"""With TLS configured, only holders of a certificate get in, users and agents alike."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from contextlib import closing
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gosched.master.api import grpc_api
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

    async def healthz(context: ssl.SSLContext) -> int:
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
                await healthz(anonymous)
            known = ssl.create_default_context(cafile=files.ca)  # noqa: TID251
            known.check_hostname = False
            known.load_cert_chain(files.cert, files.key)
            assert await healthz(known) == 200
        finally:
            await server.stop()

    server: MasterServer
    asyncio.run(story())


def test_http_uses_new_certificates_for_new_connections_and_lets_old_ones_end_with_an_answer(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path / "ours"), Authority(tmp_path / "others")
    files, theirs = ours.files("m1"), others.files("m1")
    before = {path: Path(path).read_bytes() for path in (files.cert, files.key, files.ca)}
    (tmp_path / "old").mkdir()
    old_cert, old_key = tmp_path / "old/cert", tmp_path / "old/key"
    old_cert.write_bytes(before[files.cert])
    old_key.touch(mode=0o600)
    old_key.write_bytes(before[files.key])

    def context(cert: str, key: str) -> ssl.SSLContext:
        found = ssl.create_default_context(cafile=theirs.ca)  # noqa: TID251
        found.load_verify_locations(cadata=before[files.ca].decode())
        found.check_hostname = False
        found.load_cert_chain(cert, key)
        return found

    def get(connection: http.client.HTTPSConnection) -> tuple[int, bool]:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.will_close

    async def story() -> None:
        replication = MemoryReplication("m1")
        tls = {"cert": files.cert, "key": files.key, "ca": files.ca}
        server = MasterServer(settings(tls=tls), replication)
        try:
            await server.start()
            address = server.record.http_address
            mine = context(str(old_cert), str(old_key))
            with closing(http.client.HTTPSConnection(address, timeout=LIMIT_S, context=mine)) as held:
                assert await asyncio.to_thread(get, held) == (200, False)
                assert await asyncio.to_thread(get, held) == (200, False)
                for ours_now, other in zip(
                    (files.key, files.cert, files.ca), (theirs.key, theirs.cert, theirs.ca), strict=True
                ):
                    Path(ours_now).write_bytes(Path(other).read_bytes())
                assert server._tls
                taken_up = asyncio.Event()
                server._tls.follow(taken_up.set)  # after the HTTP server, which was told first
                server.reload()
                async with asyncio.timeout(LIMIT_S):
                    await taken_up.wait()
                assert await asyncio.to_thread(get, held) == (200, True)
            anew = http.client.HTTPSConnection(address, timeout=LIMIT_S, context=mine)
            with closing(anew), pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.to_thread(get, anew)
            new = context(theirs.cert, theirs.key)
            with closing(http.client.HTTPSConnection(address, timeout=LIMIT_S, context=new)) as good:
                assert await asyncio.to_thread(get, good) == (200, False)
        finally:
            await server.stop()

    asyncio.run(story())


def test_calls_move_to_a_new_connection_without_a_failure_and_streams_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_api, "SERVER_OPTIONS", (("grpc.max_connection_age_ms", 200),))
    files = Authority(tmp_path).files("m1")
    ca, key, cert = (Path(path).read_bytes() for path in (files.ca, files.key, files.cert))

    async def story() -> None:
        replication = MemoryReplication("m1")
        server = MasterServer(settings(tls={"cert": files.cert, "key": files.key, "ca": files.ca}), replication)
        try:
            await server.start()
            await until(lambda: replication.state.epoch)
            through = grpc.aio.secure_channel(server.record.grpc_address, grpc.ssl_channel_credentials(ca, key, cert))
            health = health_pb2_grpc.HealthStub(through).Watch(health_pb2.HealthCheckRequest())
            assert (await health.read()).status == health_pb2.HealthCheckResponse.SERVING
            stub = scheduler_pb2_grpc.SchedulerServiceStub(through)
            peers: set[str] = set()
            async with asyncio.timeout(LIMIT_S):
                while len(peers) < 5:
                    call = stub.GetClusterStatus(scheduler_pb2.GetClusterStatusRequest(), timeout=LIMIT_S)
                    await call  # raises where it fails
                    peers.update(connected(server.record.grpc_address))
            assert not health.done()
            health.cancel()
            await through.close()
        finally:
            await server.stop()

    asyncio.run(story())


def connected(address: str) -> set[str]:
    """The near ends of connections to an address of this machine."""
    port = f":{int(address.rpartition(':')[2]):04X}"
    lines = [line.split() for file in ("tcp", "tcp6") for line in Path(f"/proc/net/{file}").read_text().splitlines()]
    return {words[1] for words in lines if words[2].endswith(port) and words[3] == "01"}
