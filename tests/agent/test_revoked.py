"""What an agent knows of revoked certificates, and what it makes of them: with real certificates and connections."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from gosched.agent.masters import Connector, MastersOnly, NotAMaster, watched_tls
from gosched.agent.revoked import RevokedMasters
from gosched.config.settings import Tls
from gosched.wire.serials import serial_of_pem
from tests.replication.certificates import Authority

SERIAL, OTHER = "a1", "b2"


def test_what_is_known_survives_a_restart_and_is_replaced_by_news_alone(tmp_path: Path) -> None:
    file = tmp_path / "revoked.json"
    known = RevokedMasters(file)
    assert (known.etag, known.holds(SERIAL)) == ("", False)
    assert known.take("abc", [SERIAL, OTHER, "no serial number"])
    assert not known.take("abc", [])  # it knows these
    assert not known.take("", [])  # a master of an older release
    again = RevokedMasters(file)
    assert (again.etag, again.holds(OTHER), again.holds("no serial number")) == ("abc", True, False)
    assert again.take("def", [])
    assert not RevokedMasters(file).holds(SERIAL)
    file.write_text("{")
    assert RevokedMasters(file).etag == ""


def credentials(files: Any) -> Any:
    key, cert, ca = (Path(path).read_bytes() for path in (files.key, files.cert, files.ca))
    return grpc.ssl_channel_credentials(ca, key, cert), grpc.ssl_server_credentials([(key, cert)], ca, True)


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc] # grpc has no types
    def service(self, details: Any) -> Any:
        async def answer(request: bytes, context: Any) -> bytes:
            return b"done"

        return grpc.unary_unary_rpc_method_handler(answer)


def test_an_agent_takes_no_orders_from_a_revoked_master_and_asks_it_for_none(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    m1, m2, n1 = authority.files("m1"), authority.files("m2"), authority.files("n1", "agent")
    revoked: set[str] = set()

    async def story() -> None:
        agent = grpc.aio.server(interceptors=[MastersOnly("", tls=True, revoked=revoked.__contains__)])
        agent.add_generic_rpc_handlers((_Handler(),))
        port = agent.add_secure_port("127.0.0.1:0", credentials(n1)[1])
        await agent.start()
        master = grpc.aio.server()
        master_port = master.add_secure_port("127.0.0.1:0", credentials(m1)[1])
        await master.start()
        tls = watched_tls(Tls(cert=n1.cert, key=n1.key, ca=n1.ca), ("n1", "n1"))
        connector = Connector(tls, "", [], revoked.__contains__)
        orders = [grpc.aio.secure_channel(f"localhost:{port}", credentials(files)[0]) for files in (m1, m2)]
        try:
            for channel in orders:
                assert await channel.unary_unary("/gosched.v1.WorkerService/StartTasks")(b"") == b"done"
            await (await connector(f"localhost:{master_port}")).close()
            assert not connector.is_outdated
            revoked.add(serial_of_pem(Path(m1.cert).read_bytes()))
            # The connections that are open take no call any more.
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await orders[0].unary_unary("/gosched.v1.WorkerService/StartTasks")(b"")
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert refused.value.details() == "the certificate is not valid, or not any more: get another one"
            assert await orders[1].unary_unary("/gosched.v1.WorkerService/StartTasks")(b"") == b"done"
            assert connector.is_outdated
            with pytest.raises(NotAMaster, match="the certificate of master m1 that it shows is revoked"):
                await connector(f"localhost:{master_port}")
        finally:
            for channel in orders:
                await channel.close()
            await agent.stop(0)
            await master.stop(0)

    asyncio.run(story())
