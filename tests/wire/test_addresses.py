"""Addresses of names: lookups that fail, hang or lie, and what is kept of those that worked."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from pathlib import Path

import grpc
import pytest

from gosched.wire import addresses
from gosched.wire.addresses import MAX_KEPT, MAX_NAMES, RECONNECT, AddressBook, grpc_target, is_literal
from gosched.wire.v1 import worker_pb2, worker_pb2_grpc
from tests.replication.certificates import Authority

LIMIT_S = 10.0


class Names:
    """Name servers, as a test has them."""

    def __init__(self, **answers: list[str]) -> None:
        self.answers = answers
        self.hangs: dict[str, threading.Event] = {}
        self.asked: list[str] = []

    def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        if host in self.hangs:
            self.hangs[host].wait(LIMIT_S)
        if host not in self.answers:
            raise OSError("no such name")
        return self.answers[host]


@pytest.fixture(autouse=True)
def _asks_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "ASK_AGAIN_S", 0.0)


def until_written(file: Path, text: str) -> None:
    ends = time.monotonic() + LIMIT_S
    while not (file.exists() and text in file.read_text()):
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_what_worked_is_tried_after_a_fresh_answer_and_before_an_old_one_also_by_the_next_program(
    tmp_path: Path,
) -> None:
    file = tmp_path / "addresses.json"
    names = Names(m1=["10.0.0.2", "10.0.0.3"])
    book = AddressBook(file, lookup=names)
    assert book.of("m1") == ()
    book.worked("m1", ["10.0.0.1"])
    assert book.find("m1", LIMIT_S) == ("10.0.0.2", "10.0.0.3", "10.0.0.1")
    assert book.is_fresh("m1", "10.0.0.2")
    assert not book.is_fresh("m1", "10.0.0.1")
    names.answers.clear()
    assert book.find("m1", LIMIT_S) == ("10.0.0.1", "10.0.0.2", "10.0.0.3")
    assert not book.is_fresh("m1", "10.0.0.2")
    assert str(book.error("m1")) == "no such name"
    until_written(file, "10.0.0.1")
    assert AddressBook(file, lookup=names).find("m1", LIMIT_S) == ("10.0.0.1",)
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_lookup_that_hangs_holds_up_no_other_name_and_no_kept_address() -> None:
    names = Names(m2=["10.0.0.2"])
    go_on = names.hangs["m1"] = threading.Event()
    book = AddressBook(lookup=names)
    book.worked("m1", ["10.0.0.1"])
    lookup = book.ask("m1")
    assert book.find("m2", LIMIT_S) == ("10.0.0.2",)
    assert book.find("m1", 0.01) == ("10.0.0.1",)
    assert asyncio.run(book.found("m1", 0.01)) == ("10.0.0.1",)
    assert book.is_asking("m1")
    assert names.asked.count("m1") == 1
    go_on.set()
    lookup.result(LIMIT_S)
    assert not book.is_asking("m1")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"names": []}', '{"names": {"m1": [""]}}', '{"names": {"m1": ["x y"]}}']
)
def test_a_file_that_makes_no_sense_is_as_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "addresses.json"
    file.write_text(text)
    assert AddressBook(file, lookup=Names()).of("m1") == ()


def test_a_directory_that_cannot_be_written_to_is_told_of_and_costs_nothing_else(tmp_path: Path) -> None:
    told, said = threading.Event(), list[str]()

    def unsaved(why: str) -> None:
        said.append(why)
        told.set()

    book = AddressBook(tmp_path / "none" / "addresses.json", lookup=Names(), unsaved=unsaved)
    book.worked("m1", ["10.0.0.1"])
    assert told.wait(LIMIT_S)
    assert "No such file or directory" in said[0]
    assert book.of("m1") == ("10.0.0.1",)


def test_names_and_addresses_are_bounded() -> None:
    book = AddressBook(lookup=lambda host: [f"10.0.0.{i}" for i in range(100)])
    for i in range(10):
        book.worked("m1", [f"10.1.0.{i}"])
    assert len(book.find("m1", LIMIT_S)) == addresses.MAX_ADDRESSES
    assert book._names["m1"].kept == tuple(f"10.1.0.{i}" for i in reversed(range(10 - MAX_KEPT, 10)))
    for i in range(MAX_NAMES):
        book.worked(f"n{i}", ["10.0.0.1"])
    assert len(book._names) == MAX_NAMES
    assert book.of("m1") == ()


def test_however_many_names_change_all_are_kept_and_the_file_is_written_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "SAVE_EVERY_S", 0.5, raising=False)
    file, write, writes = tmp_path / "addresses.json", addresses._write, list[float]()

    def counted(file: Path, data: bytes) -> None:
        writes.append(time.monotonic())
        write(file, data)

    monkeypatch.setattr(addresses, "_write", counted)
    book, began = AddressBook(file, lookup=Names()), time.monotonic()
    for sweep in range(2):
        for i in range(5000):
            book.worked(f"n{i}", [f"10.{sweep}.{i >> 8}.{i & 255}"])
        time.sleep(0.05)
    until_written(file, "10.1.19.135")  # the last one
    assert len(writes) <= 2 + (time.monotonic() - began) / 0.5
    found = AddressBook(file, lookup=Names())
    assert found.of("n0") == ("10.1.0.0", "10.0.0.0")
    assert len(found._names) == 5000


def test_a_full_book_is_no_larger_than_a_file_that_is_read() -> None:
    one = len(f'"{"n" * 253}": [], ') + addresses.MAX_ADDRESSES * len(f'"{":".join(["ffff"] * 8)}", ')
    assert MAX_NAMES * one < addresses.MAX_FILE_BYTES


def test_a_name_whose_thread_cannot_start_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    file, said = tmp_path / "addresses.json", list[str]()
    book = AddressBook(file, lookup=Names(m1=["10.0.0.1"]), unsaved=said.append)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", exhausted)
        assert book.find("m1", LIMIT_S) == ()
        assert str(book.error("m1")) == "can't start new thread"
        assert not book.is_asking("m1")
        book.worked("m2", ["10.0.0.2"])
        assert said == [f"cannot write {file}: can't start new thread"]
    assert book.find("m1", LIMIT_S) == ("10.0.0.1",)
    assert book._lookups == 0
    book.worked("m1", ["10.0.0.1"])
    until_written(file, "10.0.0.2")


def test_all_are_kept_where_nobody_knows_which_was_reached_and_that_one_first_where_it_is_known() -> None:
    def unresolved(host: str) -> list[str]:
        raise OSError("no name server answers")

    dialled = [f"10.0.0.{i}" for i in range(10)]
    book = AddressBook(lookup=unresolved)
    book.worked("m1", ["10.1.0.1"])
    book.worked("m1", dialled)
    assert book.find("m1", LIMIT_S) == tuple(dialled)
    book.worked("m1", reversed(dialled))
    assert book.find("m1", LIMIT_S) == tuple(dialled)
    book.worked("m1", ["10.0.0.9"])
    assert book.find("m1", LIMIT_S)[0] == "10.0.0.9"


def test_an_address_is_no_name() -> None:
    assert [is_literal(host) for host in ("10.0.0.1", "::1", "", "m1", "10.0.0")] == [True, True, True, False, False]
    book = AddressBook(lookup=Names())
    assert book.find("10.0.0.1", LIMIT_S) == ("10.0.0.1",)
    assert book.is_fresh("10.0.0.1", "10.0.0.1")


class Worker(worker_pb2_grpc.WorkerServiceServicer):  # type: ignore[misc]
    async def GetIdentity(self, request: object, context: object) -> worker_pb2.GetIdentityResponse:
        return worker_pb2.GetIdentityResponse(node_id="n1")


@pytest.mark.parametrize(
    ("names", "tried", "trusted"),
    [
        ("localhost", ["127.0.0.1"], True),
        ("localhost", ["127.0.0.9", "127.0.0.1"], True),  # the first refuses
        ("localhost", ["::1", "127.0.0.1"], True),  # of both families
        ("elsewhere", ["127.0.0.1"], False),  # the certificate has the address, but not the name that was asked for
    ],
)
def test_a_channel_to_looked_up_addresses_checks_the_certificate_against_the_name(
    tmp_path: Path, names: str, tried: list[str], trusted: bool
) -> None:
    async def story() -> bool:
        files = Authority(tmp_path).files("m1")
        key, cert, ca = (Path(path).read_bytes() for path in (files.key, files.cert, files.ca))
        server = grpc.aio.server()
        worker_pb2_grpc.add_WorkerServiceServicer_to_server(Worker(), server)
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, cert)], ca, True))
        await server.start()
        options = (*RECONNECT, ("grpc.default_authority", f"{names}:{port}"), ("grpc.enable_http_proxy", 0))
        credentials = grpc.ssl_channel_credentials(ca, key, cert)
        async with grpc.aio.secure_channel(grpc_target(tried, port), credentials, options=options) as channel:
            stub = worker_pb2_grpc.WorkerServiceStub(channel)
            with contextlib.suppress(grpc.aio.AioRpcError):
                answer = await stub.GetIdentity(worker_pb2.GetIdentityRequest(), timeout=LIMIT_S)
                assert answer.node_id == "n1"
                return True
        await server.stop(None)
        return False

    assert asyncio.run(story()) is trusted
