"""A look at servers of gRPC, with and without TLS: what stands between a client and each is said in words."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from gosched.wire.addresses import AddressBook
from gosched.wire.probe import TlsPaths, look, look_at_all
from tests.ports import HeldPort
from tests.wire.tls import authority, issued, out_of_date

WAIT_S = 5.0
Serve = Callable[[TlsPaths | None], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server of gRPC, with TLS if it gets files, and returns its address."""
    with ExitStack() as running:

        def start(files: TlsPaths | None) -> str:
            server = grpc.server(running.enter_context(ThreadPoolExecutor(2)))
            if files is None:
                port = server.add_insecure_port("localhost:0")
            else:
                key, cert, ca = (Path(path).read_bytes() for path in (files.key, files.cert, files.ca))
                credentials = grpc.ssl_server_credentials([(key, cert)], ca, require_client_auth=True)
                port = server.add_secure_port("localhost:0", credentials)
            server.start()
            running.callback(lambda: server.stop(0).wait())
            return f"localhost:{port}"

        yield start


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return authority(tmp_path / "ca")


def words(address: str, files: TlsPaths | None) -> str:
    found = look(address, files, WAIT_S, AddressBook())
    assert found is not None
    assert found.is_lasting
    return found.words


def test_nothing_stands_between_those_that_fit(serve: Serve, folder: Path) -> None:
    alice = issued(folder, "client", "alice")
    plain, secure = serve(None), serve(issued(folder, "master", "m1", "localhost"))
    assert look(plain, None, WAIT_S, AddressBook()) is None
    assert look_at_all([secure, secure], alice, WAIT_S, AddressBook()) == {secure: None}


def test_plain_text_to_tls_and_tls_to_plain_text_are_told_apart(serve: Serve, folder: Path) -> None:
    secure = serve(issued(folder, "master", "m1", "localhost"))
    assert words(secure, None).startswith("it takes TLS alone, and this program has no certificate")
    assert words(serve(None), issued(folder, "client", "alice")).startswith("it talks plain text")


def test_a_server_of_another_authority_is_not_trusted(serve: Serve, folder: Path, tmp_path: Path) -> None:
    other = authority(tmp_path / "other")
    alice = issued(folder, "client", "alice")
    said = words(serve(issued(other, "master", "m1", "localhost")), alice)
    assert said.startswith("its certificate ")
    assert f"the authority in {alice.ca}" in said


def test_a_client_of_another_authority_learns_that_it_was_refused(serve: Serve, folder: Path, tmp_path: Path) -> None:
    mallory = issued(authority(tmp_path / "other"), "client", "mallory")
    mixed = TlsPaths(cert=mallory.cert, key=mallory.key, ca=str(folder / "ca.pem"))
    assert mallory.cert in words(serve(issued(folder, "master", "m1", "localhost")), mixed)


def test_a_name_that_is_not_in_the_certificate_is_told_with_those_that_are(serve: Serve, folder: Path) -> None:
    address = serve(issued(folder, "master", "m1", "m1.example.org", "10.0.0.1"))
    said = words(address, issued(folder, "client", "alice"))
    assert said == "its certificate is for m1.example.org, 10.0.0.1, not for localhost: call it by a name of these"


def test_an_expired_certificate_of_a_server_is_told(serve: Serve, folder: Path) -> None:
    old = out_of_date(folder, issued(folder, "master", "m1", "localhost"), begins_in_days=-9, ends_in_days=-2)
    assert words(serve(old), issued(folder, "client", "alice")).startswith("its certificate has expired")


def test_what_may_heal_is_told_apart_from_mistakes() -> None:
    refused = look(HeldPort().address, None, WAIT_S, AddressBook())
    assert refused is not None
    assert (refused.words, refused.is_lasting, refused.is_silence) == ("connection refused", False, False)
    with socket.create_server(("localhost", 0)) as silent:
        found = look(f"localhost:{silent.getsockname()[1]}", None, 0.2, AddressBook())
    assert found is not None
    assert (found.is_lasting, found.is_silence) == (False, True)


@pytest.mark.parametrize(
    ("error", "is_silence", "words"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), False, "no host is called a.invalid"),
        (UnicodeError("label too long"), False, "no host is called a.invalid"),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), True, "the name a.invalid cannot be looked up now"),
    ],
)
def test_a_name_of_no_host_is_told_apart_from_one_that_cannot_be_looked_up(
    error: Exception, is_silence: bool, words: str
) -> None:
    def unresolved(host: str) -> list[str]:
        raise error

    found = look("a.invalid:9090", None, WAIT_S, AddressBook(lookup=unresolved))
    assert found is not None
    assert (found.is_lasting, found.is_silence) == (False, is_silence)
    assert found.words.startswith(words)
