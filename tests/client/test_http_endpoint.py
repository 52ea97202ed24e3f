"""URLs of masters: http and https, and what is said of those that tell no addresses."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gosched.client import Misused, TlsFiles
from gosched.client.http_endpoint import NoAddresses, grpc_addresses
from gosched.wire.addresses import AddressBook
from tests.ports import HeldPort
from tests.replication.certificates import Authority

LOOKUP_S = 20.0  # of a lookup without an answer
STATUS = {"masters": [{"id": "m", "grpc_address": "127.0.0.1:9090"}, {"id": "away"}]}


@contextmanager
def serving(answer: object, context: ssl.SSLContext | None = None) -> Iterator[str]:
    class Rest(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/api/v1/status" else 404)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *args: object) -> None:
            pass

    class Quiet(http.server.ThreadingHTTPServer):
        def handle_error(self, *args: object) -> None:  # clients that do not trust it go away
            pass

    server = Quiet(("127.0.0.1", 0), Rest)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"{'http' if context is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def files_of(authority: Authority, name: str, role: str) -> TlsFiles:
    files = authority.files(name, role)
    return TlsFiles(cert=files.cert, key=files.key, ca=files.ca)


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[str, Authority]]:
    authority = Authority(tmp_path / "ca")
    own = files_of(authority, "m1", "master")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(own.ca))  # noqa: TID251
    context.load_cert_chain(own.cert, own.key)
    context.verify_mode = ssl.CERT_REQUIRED
    with serving(STATUS, context) as url:
        yield url, authority


def test_https_is_verified_by_the_given_authority_and_shows_the_clients_certificate(secure):
    url, authority = secure
    assert grpc_addresses(url, files_of(authority, "alice", "client"), 10) == ["127.0.0.1:9090"]


def test_another_authority_is_named_as_the_mistake_and_not_tried_again(secure, tmp_path):
    url, _ = secure
    other = files_of(Authority(tmp_path / "other"), "alice", "client")
    with pytest.raises(Misused, match="its certificate is not trusted by the given ca"):
        grpc_addresses(url, other, 10)


@pytest.mark.parametrize("missing", ["cert", "key", "ca"])
def test_a_file_that_is_not_there_is_named(secure, missing, tmp_path):
    url, authority = secure
    files = files_of(authority, "alice", "client")
    broken = {"cert": files.cert, "key": files.key, "ca": files.ca, missing: tmp_path / "nowhere.pem"}
    with pytest.raises(Misused, match=r"cannot read .*nowhere\.pem: No such file"):
        grpc_addresses(url, TlsFiles(**broken), 10)


def test_a_key_that_does_not_match_is_said(secure):
    url, authority = secure
    mine, other = files_of(authority, "alice", "client"), files_of(authority, "bob", "client")
    with pytest.raises(Misused, match="is not the key of the certificate"):
        grpc_addresses(url, TlsFiles(cert=mine.cert, key=other.key, ca=mine.ca), 10)


@pytest.mark.parametrize("answer", [{}, [], "x", {"masters": 5}, {"masters": [5]}, {"masters": []}, None])
def test_what_is_no_masters_status_is_said(answer):
    with serving(answer) as url, pytest.raises(NoAddresses, match=url):
        grpc_addresses(url, None, 10)


def test_a_port_that_nothing_listens_on_is_said():
    with pytest.raises(NoAddresses, match="Connection refused"):
        grpc_addresses(f"http://{HeldPort().address}", None, 10)


def test_a_url_of_the_other_scheme_is_named_as_the_mistake_at_once(secure):
    url, authority = secure
    with pytest.raises(NoAddresses, match="does it take TLS alone, https://") as plain:
        grpc_addresses(url.replace("https", "http"), None, 10)
    with serving(STATUS) as open_to_all, pytest.raises(NoAddresses, match="it talks plain text: is it http://") as tls:
        grpc_addresses(open_to_all.replace("http", "https"), files_of(authority, "alice", "client"), 10)
    assert [error.value.obstacle.is_silence for error in (plain, tls)] == [False, False]


def test_a_url_is_asked_where_its_name_pointed_while_no_name_server_answers(secure):
    url, authority = secure
    hangs = threading.Event()

    def silent(host: str) -> list[str]:
        hangs.wait(LOOKUP_S)
        return []

    book = AddressBook(lookup=silent)
    for name in ("localhost", "masters.invalid"):
        book.worked(name, ["127.0.0.9", "127.0.0.1"])
    began = time.monotonic()
    tls = files_of(authority, "alice", "client")
    assert grpc_addresses(url.replace("127.0.0.1", "localhost"), tls, 10, book) == ["127.0.0.1:9090"]
    with pytest.raises(Misused, match=r"not valid for 'masters\.invalid'"):
        grpc_addresses(url.replace("127.0.0.1", "masters.invalid"), tls, 10, book)
    assert time.monotonic() - began < LOOKUP_S
    hangs.set()
