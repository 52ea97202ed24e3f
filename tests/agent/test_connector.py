"""When an agent opens its channel to a master anew."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import grpc
import pytest

from gosched.agent import masters
from gosched.agent.masters import Connector, NotAMaster, Unreachable, watched_tls
from gosched.agent.revoked import RevokedMasters
from gosched.cli.main import run_cli
from gosched.config.settings import Tls
from gosched.wire.addresses import AddressBook
from tests.ports import HeldPort
from tests.wire.tls import authority, issued

LIMIT_S = 20.0


async def dial(connector: Connector, address: str) -> None:
    with pytest.raises(Unreachable):
        await connector(address)


async def dialled(tmp_path: Path) -> tuple[Connector, masters.TlsWatch, Path]:
    folder = authority(tmp_path)
    files = issued(folder, "agent", "n1", "localhost")
    tls = watched_tls(Tls(cert=files.cert, key=files.key, ca=files.ca), ("n1", "id"))
    assert tls
    connector = Connector(tls, "", [], RevokedMasters(tmp_path / "revoked.json").holds)
    await dial(connector, HeldPort().address)
    return connector, tls, folder


def test_a_channel_is_outdated_by_new_certificates(tmp_path: Path) -> None:
    async def story() -> None:
        connector, tls, folder = await dialled(tmp_path)
        assert not connector.is_outdated
        assert run_cli(["cert", "renew", tls.cert, "--dir", str(folder)]) == 0
        assert tls.look()
        assert connector.is_outdated
        await dial(connector, HeldPort().address)
        assert not connector.is_outdated

    asyncio.run(story())


def test_a_channel_is_outdated_after_a_while_as_its_master_may_have_a_new_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masters, "CHANNEL_LIFE_S", (0.0, 0.0))

    async def story() -> None:
        connector, _, _ = await dialled(tmp_path)
        assert connector.is_outdated

    asyncio.run(story())


def test_without_tls_no_channel_is_outdated(tmp_path: Path) -> None:
    assert not Connector(None, "", [], RevokedMasters(tmp_path / "revoked.json").holds).is_outdated


def test_a_master_is_reached_where_its_name_pointed_while_no_name_server_answers(tmp_path: Path) -> None:
    hangs = threading.Event()

    def silent(host: str) -> list[str]:
        hangs.wait(LIMIT_S)
        return []

    async def story() -> None:
        folder = authority(tmp_path)
        files, shown = issued(folder, "agent", "n1", "localhost"), issued(folder, "master", "m1", "localhost")
        tls = watched_tls(Tls(cert=files.cert, key=files.key, ca=files.ca), ("n1", "id"))
        book = AddressBook(lookup=silent)
        for name in ("localhost", "elsewhere.invalid"):
            book.worked(name, ["127.0.0.9", "127.0.0.1"])
        none = RevokedMasters(tmp_path / "revoked.json").holds
        server = grpc.aio.server()
        key, cert, ca = (Path(path).read_bytes() for path in (shown.key, shown.cert, shown.ca))
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, cert)], ca, True))
        plain_port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        for connector, at in (
            (Connector(tls, "", [], none, book), port),
            (Connector(None, "", [], none, book), plain_port),
        ):
            async with asyncio.timeout(LIMIT_S), await connector(f"localhost:{at}") as channel:
                await channel.channel_ready()
        with pytest.raises(NotAMaster, match="not for elsewhere"):
            await Connector(tls, "", [], none, book)(f"elsewhere.invalid:{port}")
        hangs.set()
        await server.stop(None)

    asyncio.run(story())
