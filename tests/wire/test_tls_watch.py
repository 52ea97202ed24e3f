"""TLS files in use: what is good is taken up whole, what is bad or half written changes nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from gosched.cli.main import run_cli
from gosched.wire.grpc_tls import channel_credentials, server_credentials
from gosched.wire.probe import TlsPaths
from gosched.wire.tls_expiry import WEEK_S, Expiry
from gosched.wire.tls_files import shake_hands
from gosched.wire.tls_watch import MAX_FILE_BYTES, TlsWatch
from tests.wire.tls import authority, issued, out_of_date

LIMIT_S = 30.0


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def info(self, event: str, **values: object) -> None:
        self.lines.append((event, values))

    warning = error = info


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return authority(tmp_path / "ca")


@pytest.fixture
def files(folder: Path, tmp_path: Path) -> TlsPaths:
    """The files of a master in a directory of their own."""
    made = issued(folder, "master", "m1", "localhost")
    mine = tmp_path / "m1"
    mine.mkdir()
    for path in (made.cert, made.key, made.ca):
        shutil.copy(path, mine)
    return TlsPaths(cert=str(mine / "m1.pem"), key=str(mine / "m1.key"), ca=str(mine / "ca.pem"))


def watch_of(files: TlsPaths) -> tuple[TlsWatch, Log]:
    log = Log()
    return TlsWatch(files.cert, files.key, files.ca, log), log


def renew(files: TlsPaths, folder: Path, *more: str) -> None:
    assert run_cli(["cert", "renew", files.cert, "--dir", str(folder), *more]) == 0


def test_new_contents_are_taken_up_once(files: TlsPaths, folder: Path) -> None:
    watch, log = watch_of(files)
    before = watch.current
    assert not watch.look()
    renew(files, folder)
    assert watch.look()
    assert not watch.look()
    assert watch.current.pem.cert == Path(files.cert).read_bytes() != before.pem.cert
    assert [event for event, _ in log.lines] == ["certificates taken up"]


def spoil_cert(files: TlsPaths, folder: Path) -> None:
    Path(files.cert).write_bytes(Path(files.cert).read_bytes()[:200])


def lose_key(files: TlsPaths, folder: Path) -> None:
    Path(files.key).unlink()


def take_the_key_of_another(files: TlsPaths, folder: Path) -> None:
    shutil.copy(issued(folder, "master", "m2", "localhost").key, files.key)


def take_the_certificate_of_another(files: TlsPaths, folder: Path) -> None:
    other = issued(folder, "master", "m2", "localhost")
    shutil.copy(other.key, files.key)
    shutil.copy(other.cert, files.cert)


def expire(files: TlsPaths, folder: Path) -> None:
    shutil.copy(out_of_date(folder, files, begins_in_days=-9, ends_in_days=-2).cert, files.cert)


def open_the_key(files: TlsPaths, folder: Path) -> None:
    renew(files, folder)
    Path(files.key).chmod(0o644)


def trust_another_authority_alone(files: TlsPaths, folder: Path) -> None:
    shutil.copy(authority(folder.parent / "other") / "ca.pem", files.ca)


def fill(files: TlsPaths, folder: Path) -> None:
    os.truncate(files.ca, MAX_FILE_BYTES + 1)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoil_cert, "no certificate"),
        (lose_key, "cannot read"),
        (take_the_key_of_another, "is not the key of the certificate"),
        (take_the_certificate_of_another, "is of gosched:///master/m2, and this program runs as gosched:///master/m1"),
        (expire, "expired at"),
        (open_the_key, "chmod 600"),
        (trust_another_authority_alone, "the authority in"),
        (fill, "is no PEM file"),
    ],
)
def test_bad_contents_change_nothing_and_are_told_once_and_good_ones_are_taken_up_later(
    files: TlsPaths, folder: Path, tmp_path: Path, spoil: Callable[[TlsPaths, Path], None], said: str
) -> None:
    watch, log = watch_of(files)
    before = watch.current
    kept = tmp_path / "kept"
    shutil.copytree(Path(files.cert).parent, kept)
    spoil(files, folder)
    assert not watch.look()
    assert log.lines == []  # they may be half written
    for _ in range(3):
        assert not watch.look()
    ((_, values),) = log.lines
    assert said in str(values["why"])
    assert "\n" not in str(values["why"])
    assert watch.current is before
    shutil.copytree(kept, Path(files.cert).parent, dirs_exist_ok=True)
    Path(files.key).chmod(0o600)
    renew(files, folder)
    assert watch.look()


def test_those_that_follow_are_told_in_the_loop_and_at_once_when_asked(files: TlsPaths, folder: Path) -> None:
    watch, _ = watch_of(files)

    async def story() -> None:
        told = asyncio.Event()
        watch.follow(told.set)
        running = asyncio.ensure_future(watch.watch())
        renew(files, folder)
        watch.ask()
        async with asyncio.timeout(LIMIT_S):
            await told.wait()
        running.cancel()

    asyncio.run(story())


def test_a_certificate_that_ends_soon_is_told(files: TlsPaths, folder: Path) -> None:
    shutil.copy(out_of_date(folder, files, begins_in_days=-360, ends_in_days=5).cert, files.cert)
    watch, log = watch_of(files)
    watch._warn()
    ((event, values),) = log.lines
    assert (event, values["file"]) == ("a certificate expires soon: renew it", files.cert)


@pytest.mark.parametrize(("life_days", "left_days"), [(3650, 365), (365, 36.5), (30, 7), (20, 5), (1, 0.25)])
def test_a_certificate_is_due_at_a_tenth_of_its_life_or_a_week_or_a_quarter_of_a_short_one(
    life_days: float, left_days: float
) -> None:
    day = WEEK_S / 7
    found = Expiry(is_authority=False, id="a", authority="b", begins_s=0.0, ends_s=life_days * day)
    assert found.renewal_s == pytest.approx((life_days - left_days) * day)


def rotated(files: TlsPaths, folder: Path) -> tuple[TlsWatch, Path, bytes]:
    """A watch of a program, a new authority of the same name, and what trusts both."""
    watch, _ = watch_of(files)
    new = authority(folder.parent / "new")
    return watch, new, (folder / "ca.pem").read_bytes() + (new / "ca.pem").read_bytes()


def test_of_two_authorities_both_are_trusted_and_a_removed_one_no_more(files: TlsPaths, folder: Path) -> None:
    watch, new, both = rotated(files, folder)
    old_client, new_client = (issued(ca, "client", "alice") for ca in (folder, new))

    def lets_in(caller: TlsPaths) -> bool:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(caller.cert, caller.key)
        try:
            shake_hands(watch.current.server, context)
        except ssl.SSLError:
            return False
        return True

    assert (lets_in(old_client), lets_in(new_client)) == (True, False)
    Path(files.ca).write_bytes(both)
    assert watch.look()
    assert (lets_in(old_client), lets_in(new_client)) == (True, True)
    own, first, second = watch.expiries()
    assert own.authority == first.id != second.id
    renew(files, new, "--rotate")
    assert watch.look()
    assert watch.expiries()[0].authority == second.id
    Path(files.ca).write_bytes((new / "ca.pem").read_bytes())
    assert watch.look()
    assert (lets_in(old_client), lets_in(new_client)) == (False, True)


def test_a_server_of_grpc_uses_for_each_new_connection_what_is_in_use_then(files: TlsPaths, folder: Path) -> None:
    watch, new, both = rotated(files, folder)
    old_client, new_client = (issued(ca, "client", "alice") for ca in (folder, new))

    async def echo(request: bytes, context: Any) -> bytes:
        return request

    handler = grpc.unary_unary_rpc_method_handler(echo)

    async def story() -> None:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("t", {"Echo": handler})])
        port = server.add_secure_port("localhost:0", server_credentials(watch))
        await server.start()

        def channel(caller: TlsPaths) -> Any:
            pem = TlsWatch(files.cert, files.key, files.ca, Log()).current.pem
            ca, key, cert = pem.ca, Path(caller.key).read_bytes(), Path(caller.cert).read_bytes()
            credentials = channel_credentials(type(pem)(cert=cert, key=key, ca=ca))
            options = (("grpc.use_local_subchannel_pool", 1),)
            return grpc.aio.secure_channel(f"localhost:{port}", credentials, options=options)

        async def answers(caller: TlsPaths) -> bool:
            async with channel(caller) as dialled:
                try:
                    return bool(await dialled.unary_unary("/t/Echo")(b"x", timeout=LIMIT_S) == b"x")
                except grpc.aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.UNAVAILABLE:
                        raise
                    return False

        held = channel(old_client)
        try:
            assert await held.unary_unary("/t/Echo")(b"x", timeout=LIMIT_S) == b"x"
            assert not await answers(new_client)
            Path(files.ca).write_bytes(both)
            assert watch.look()
            assert await answers(new_client)
            renew(files, new, "--rotate")
            assert watch.look()
            assert await answers(old_client)
            Path(files.ca).write_bytes((new / "ca.pem").read_bytes())
            assert watch.look()
            assert await answers(new_client)
            assert not await answers(old_client)
            assert await held.unary_unary("/t/Echo")(b"x", timeout=LIMIT_S) == b"x"  # the connection is older
        finally:
            await held.close()
            await server.stop(None)

    asyncio.run(story())
