"""The raft port against strangers, floods and wrong certificates: hazards 10 and 18 of PySyncObj's own transport."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import resource
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pysyncobj.poller import createPoller

from gosched.core.state.cluster_state import ClusterState
from gosched.replication.disk.disk import PosixDisk
from gosched.replication.disk.journal import Journal
from gosched.replication.members.configuration import Members
from gosched.replication.members.identity import Identity, KnownDisks
from gosched.replication.members.membership import Membership
from gosched.replication.peers import peer_transport
from gosched.replication.peers.peer_transport import MAX_STRANGERS, PeerTransport
from gosched.replication.process import ProcessReplication
from gosched.replication.raft.member_node import member_node
from gosched.replication.raft.timing import Timing
from gosched.replication.replica_config import split_address
from gosched.wire.addresses import AddressBook
from gosched.wire.shared_token import SharedToken
from gosched.wire.v1 import raft_pb2

from .certificates import Authority
from .conftest import LIMIT_S, Cluster, a_node, cluster, until

IDLE = 200  # connections to one port, more than it holds
MEET_S = 20.0  # of what takes a second; it took 40 when the newest connection was refused


def connect(c: Cluster, member: str) -> socket.socket:
    return socket.create_connection(split_address(c.configs[member].bind_addr), timeout=LIMIT_S)


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def closed_by_peer(sock: socket.socket) -> bool:
    with contextlib.suppress(ConnectionError):
        while sock.recv(65536):
            pass
    return True


def one_frame(sock: socket.socket) -> bytes:
    size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL), "big")
    return sock.recv(size, socket.MSG_WAITALL)


def hello(c: Cluster, member: str, **fields: Any) -> bytes:
    message = raft_pb2.PeerHello(cluster=c.configs["m1"].cluster, member=member, protocol=1, disk="d", **fields)
    return framed(raft_pb2.PeerFrame(hello=message).SerializeToString())


def talk_without_certificate(context: ssl.SSLContext, raw: socket.socket, data: bytes) -> None:
    with context.wrap_socket(raw) as sock:
        sock.sendall(data)
        if not sock.recv(1):
            raise ConnectionError("closed")


class _Bomb:
    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> Any:
        return (Path.touch, (self._file,))


def test_strangers_are_shut_out_and_harm_nothing(tmp_path: Path) -> None:
    vote = raft_pb2.PeerFrame(request_vote=raft_pb2.RequestVote(term=10**6, last_index=10**6, last_term=10**6))
    exploded = tmp_path / "exploded"

    async def story() -> None:
        async with cluster(tmp_path) as c:
            await c.commit(a_node("n1"))
            attacks = [
                framed(pickle.dumps(_Bomb(exploded))),  # a pickle is bytes like any other
                framed(vote.SerializeToString()),  # a vote before an introduction
                hello(c, "m9"),  # not a member
                (2**31).to_bytes(4, "big"),  # a frame of 2 GiB
                b"GET / HTTP/1.1\r\n\r\n",
            ]
            for attack in attacks:
                with connect(c, "m1") as sock:
                    sock.sendall(attack)
                    assert await asyncio.to_thread(closed_by_peer, sock)
            await c.commit(a_node("n2"))
            assert (await c.leader()).role.term < vote.request_vote.term, "nobody's term was moved"
            assert not exploded.exists()

    asyncio.run(story())


def test_a_peer_without_the_token_of_the_cluster_is_shut_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("of-all-members\n")

    async def story() -> None:
        async with cluster(tmp_path, token_file=str(token_file)) as c:
            await c.commit(a_node("n1"))
            await c.kill("m3")  # its place is free
            with connect(c, "m1") as sock:
                shown = raft_pb2.PeerFrame.FromString(await asyncio.to_thread(one_frame, sock)).hello.proof
            others = SharedToken("another").proof("raft", "dials", "m3")
            for proof in ("", shown, others):
                with connect(c, "m1") as sock:
                    sock.sendall(hello(c, "m3", proof=proof))
                    assert await asyncio.to_thread(closed_by_peer, sock)
            assert shown
            assert "it does not have the token of this cluster" in capfd.readouterr().err
            assert "m3" not in c.members["m1"].role.connected
            await c.start("m3")
            await until(lambda: "m1" in c.members["m3"].role.connected, what="who has the token is let in")

    asyncio.run(story())


def test_idle_connections_are_few_and_short_and_do_not_keep_members_out(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as c:
            await c.commit(a_node("n1"))
            with contextlib.ExitStack() as stack:
                idle = [stack.enter_context(connect(c, "m1")) for _ in range(MAX_STRANGERS * 2)]
                for sock in idle:
                    assert await asyncio.to_thread(closed_by_peer, sock)
            await c.kill("m3")
            await c.start("m3")
            await until(lambda: "m1" in c.members["m3"].role.connected, what="m3 reaches m1 again")

    asyncio.run(story())


def test_a_master_gets_in_beside_hundreds_of_idle_connections_that_come_again(tmp_path: Path) -> None:
    """They never go away by themselves, and whoever is shut out comes back at once."""
    ended = threading.Event()

    def besiege(address: tuple[str, int]) -> None:
        idle = selectors.DefaultSelector()
        while not ended.is_set():
            try:
                while len(idle.get_map()) < IDLE and not ended.is_set():
                    idle.register(socket.create_connection(address, timeout=1), selectors.EVENT_READ)
            except OSError:
                time.sleep(0.01)  # the master is down
            for key, _ in idle.select(0.05):
                idle.unregister(key.fileobj)
                cast("socket.socket", key.fileobj).close()
        for key in list(idle.get_map().values()):
            cast("socket.socket", key.fileobj).close()
        idle.close()

    async def story() -> None:
        async with cluster(tmp_path) as c:
            await c.commit(a_node("n1"))
            sieges = [
                threading.Thread(target=besiege, args=(split_address(config.bind_addr),), daemon=True)
                for config in c.configs.values()
            ]
            for siege in sieges:
                siege.start()
            try:
                await asyncio.sleep(1.0)
                for m in ("m1", "m2", "m3"):
                    await c.kill(m)
                await c.start()
                async with asyncio.timeout(MEET_S):
                    await c.commit(a_node("n2"))
                    await until(lambda: all(len(m.role.connected) == 2 for m in c.members.values()), what="all meet")
            finally:
                ended.set()
                for siege in sieges:
                    siege.join(LIMIT_S)

    asyncio.run(story())


def test_a_listener_without_descriptors_recovers(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as c:
            await c.commit(a_node("n1"))
            pid = c.members["m1"].pid
            limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 2, limits[1]))
            with contextlib.ExitStack() as stack:
                for _ in range(20):
                    stack.enter_context(connect(c, "m1"))
                await asyncio.sleep(0.5)
                await c.commit(a_node("n2"))
            await c.kill("m3")
            await c.start("m3")
            await until(lambda: "m1" in c.members["m3"].role.connected, what="m3 reaches m1 again")

    asyncio.run(story())


def test_with_tls_members_commit_and_others_get_nowhere(tmp_path: Path) -> None:
    async def story() -> None:
        authority = Authority(tmp_path / "ca")
        c = Cluster(tmp_path)
        c.configs = {m: replace(config, tls=authority.files(m)) for m, config in c.configs.items()}
        try:
            await c.start()
            await c.commit(a_node("n1"))
            await c.converged()
            with connect(c, "m1") as plain:
                plain.sendall(hello(c, "m2"))
                assert await asyncio.to_thread(closed_by_peer, plain)
            unknown = ssl.create_default_context(cafile=c.configs["m1"].tls.ca)  # type: ignore[union-attr]  # noqa: TID251
            unknown.check_hostname = False
            with pytest.raises((ssl.SSLError, ConnectionError)):
                talk_without_certificate(unknown, connect(c, "m1"), hello(c, "m2"))
        finally:
            await c.close()

    asyncio.run(story())


@pytest.mark.parametrize(("name", "role"), [("somebody", "master"), ("m3", "client"), ("m3", "agent")])
def test_a_certificate_must_be_that_of_its_member(tmp_path: Path, name: str, role: str) -> None:
    async def story() -> None:
        authority = Authority(tmp_path / "ca")
        c = Cluster(tmp_path)
        c.configs = {m: replace(config, tls=authority.files(m)) for m, config in c.configs.items()}
        try:
            await c.start()
            await c.commit(a_node("n0"))
            await c.kill("m3")
            c.configs["m3"] = replace(c.configs["m3"], tls=authority.files(name, role))
            await c.start("m3")
            await until(lambda: c.members["m3"].failure, what="m3 is refused")
            refused = c.members.pop("m3")
            assert "gosched:///master/m3 must be among its alternative names" in refused.failure
            await refused.close()
            await c.commit(a_node("n1"))
        finally:
            await c.close()

    asyncio.run(story())


def test_members_with_certificates_of_different_clusters_stay_apart_and_neither_makes_the_other_stop(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        authority = Authority(tmp_path / "ca")
        c = Cluster(tmp_path)
        c.configs = {m: replace(f, tls=authority.files(m, cluster="paris")) for m, f in c.configs.items()}
        said = ""

        def both_said_it() -> bool:
            nonlocal said
            said += capfd.readouterr().err
            return all(
                f"gosched://{ours}/master/{m} must be" in said for ours, m in (("paris", "m3"), ("berlin", "m1"))
            )

        try:
            await c.start()
            await c.commit(a_node("n0"))
            await c.kill("m3")
            c.configs["m3"] = replace(c.configs["m3"], tls=authority.files("m3", cluster="berlin"))
            await c.start("m3")
            await until(both_said_it, what="both sides say it")
            await c.commit(a_node("n1"))
            assert not c.members["m3"].role.connected
            assert not any(member.failure for member in c.members.values())
        finally:
            await c.close()

    asyncio.run(story())


def test_a_user_cannot_make_a_member_stop_by_refusing_it(tmp_path: Path) -> None:
    async def story() -> None:
        authority = Authority(tmp_path / "ca")
        user = authority.files("alice", "client")
        c = Cluster(tmp_path)
        c.configs = {m: replace(config, tls=authority.files(m)) for m, config in c.configs.items()}
        context = ssl.create_default_context(cafile=user.ca)  # noqa: TID251
        context.check_hostname = False
        context.load_cert_chain(user.cert, user.key)

        def refuse(victim: str) -> None:
            with context.wrap_socket(connect(c, victim)) as sock:
                sock.sendall(hello(c, "m2", refusal="go away"))
                assert closed_by_peer(sock)

        try:
            await c.start()
            await c.commit(a_node("n1"))
            await asyncio.to_thread(refuse, "m1")
            await c.commit(a_node("n2"))
            await c.converged()
            assert not c.members["m1"].failure
        finally:
            await c.close()

    asyncio.run(story())


def test_members_with_another_idea_of_the_cluster_stay_apart_and_say_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as c:
            await c.commit(a_node("n1"))
            await c.kill("m3")
            peers = {**c.configs["m3"].peers, "m4": "127.0.0.1:1"}
            odd = ProcessReplication(replace(c.configs["m3"], peers=peers, data_dir=str(tmp_path / "odd")))
            await odd.start()
            said = ""

            def both_said_it() -> bool:
                nonlocal said
                said += capfd.readouterr().err
                return "m3 in one of m1,m2,m3,m4" in said and "m1 in one of m1,m2,m3:" in said

            try:
                await until(both_said_it, what="both sides log the disagreement")
                assert not odd.role.connected
                await c.commit(a_node("n2"))
            finally:
                await odd.close()

    asyncio.run(story())


def transport_of_m2(
    tmp_path: Path,
    callbacks: list[Any],
    listener: socket.socket,
    *,
    m1: str = "nowhere.invalid:1",
    book: AddressBook | None = None,
    refused: Callable[[str], None] = lambda why: None,
) -> PeerTransport:
    """Its tick is the first of `callbacks`."""
    journal = Journal(PosixDisk(tmp_path))
    raft = SimpleNamespace(
        members=Members("m2", journal, ClusterState, {"m1": m1, "m2": "m2:1"}),
        match_index={},
        raftCurrentTerm=0,
        _isLeader=lambda: False,
        peer_lost=lambda node: None,
        forget_match=lambda node: None,
        _getLeader=lambda: None,
        _poller=createPoller("auto"),
        addOnTickCallback=callbacks.append,
        elections=SimpleNamespace(),
        expect_answers_within=lambda seconds: None,
    )
    disk = PosixDisk(tmp_path)
    return PeerTransport(
        raft,
        member_node("m2"),
        [member_node("m1")],
        journal=journal,
        membership=Membership(disk, Identity(cluster="m1,m2", member="m2", disk="d", joining=False), ["m1"], now=0.0),
        known=KnownDisks(disk),
        listener=listener,
        seeds={"m1": m1},
        joins_at="",
        tls=lambda: None,
        timing=Timing(),
        book=book or AddressBook(),
        refused=refused,
    )


def test_without_tls_a_caller_of_a_public_address_is_told_why_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_transport, "refusal", lambda host: f"{host}: configure tls")
    listener = socket.create_server(("127.0.0.1", 0))
    transport = transport_of_m2(tmp_path, [], listener)
    with socket.create_connection(listener.getsockname(), LIMIT_S) as stranger:
        transport._listener._accept(0, 0)
        frame = stranger.makefile("rb").read()
    hello = raft_pb2.PeerFrame.FromString(frame[4:]).hello
    assert (hello.member, hello.refusal, hello.cluster_id) == ("m2", "127.0.0.1: configure tls", "")
    transport.destroy()


def test_a_name_lookup_that_hangs_does_not_hold_the_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks_up, go_on, looked_up = threading.Event(), threading.Event(), threading.Event()

    def hang(*_: object, **__: object) -> list[Any]:
        looks_up.set()
        go_on.wait(LIMIT_S)
        looked_up.set()
        raise OSError("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    callbacks: list[Any] = []
    transport = transport_of_m2(tmp_path, callbacks, socket.create_server(("127.0.0.1", 0)))
    transport.set_members()
    callbacks[0]()
    assert looks_up.wait(LIMIT_S)
    for _ in range(20):
        callbacks[0]()
    assert not looked_up.is_set()
    go_on.set()
    transport.destroy()


def ticked(transport: PeerTransport, tick: Callable[[], None], what: Callable[[], bool]) -> None:
    ends = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < ends
        transport._poller.poll(0.01)
        tick()


@contextlib.contextmanager
def at_port(address: str, port: int = 0) -> Iterator[socket.socket]:
    with socket.create_server((address, port)) as server:
        server.settimeout(LIMIT_S)
        yield server


def hello_of(member: str, **fields: Any) -> bytes:
    said = raft_pb2.PeerHello(cluster="m1,m2", member=member, protocol=1, disk="d1", newest_level=5, **fields)
    return framed(raft_pb2.PeerFrame(hello=said).SerializeToString())


def test_a_kept_address_is_dialled_while_no_name_server_answers_and_after_it_refused(tmp_path: Path) -> None:
    go_on = threading.Event()

    def silent(host: str) -> list[str]:
        go_on.wait(LIMIT_S)
        raise OSError("no name server answers")

    file = tmp_path / "addresses.json"
    file.write_text('{"names": {"m1.example": ["127.0.0.3", "127.0.0.1"]}}')  # nobody is at the first any more
    book, callbacks = AddressBook(file, lookup=silent), list[Any]()
    with at_port("127.0.0.1") as m1:
        name = f"m1.example:{m1.getsockname()[1]}"
        listener = socket.create_server(("127.0.0.1", 0))
        transport = transport_of_m2(tmp_path, callbacks, listener, m1=name, book=book)
        transport.set_members()
        m1.setblocking(False)
        for _ in ("silent", "refusing"):
            found: list[socket.socket] = []

            def came(found: list[socket.socket] = found) -> bool:
                with contextlib.suppress(BlockingIOError):
                    found.append(m1.accept()[0])
                return bool(found)

            began = time.monotonic()
            ticked(transport, callbacks[0], came)
            assert time.monotonic() - began < 1.0
            found[0].close()
            go_on.set()  # from now on each lookup fails at once
        transport.destroy()


def test_all_addresses_of_an_answer_are_tried_and_the_one_that_worked_is_kept(tmp_path: Path) -> None:
    book, callbacks = AddressBook(lookup=lambda host: ["127.0.0.2", "127.0.0.3", "127.0.0.1"]), list[Any]()
    with at_port("127.0.0.1") as m1, at_port("127.0.0.2", m1.getsockname()[1]) as silent:
        del silent  # it accepts no connection: the backlog takes the first, and nobody says who it is
        listener = socket.create_server(("127.0.0.1", 0))
        transport = transport_of_m2(tmp_path, callbacks, listener, m1=f"m1:{m1.getsockname()[1]}", book=book)
        transport.set_members()
        m1.setblocking(False)
        answered: list[socket.socket] = []

        def introduced() -> bool:
            with contextlib.suppress(BlockingIOError):
                sock = m1.accept()[0]
                sock.sendall(hello_of("m1"))
                answered.append(sock)
            return transport._peers["m1"].connection is not None

        transport._timing = Timing(handshake=0.4)
        ticked(transport, callbacks[0], introduced)
        assert book._names["m1"].kept == ("127.0.0.1",)
        transport.destroy()
        for sock in answered:
            sock.close()


@pytest.mark.parametrize(
    "said",
    [hello_of("m3"), hello_of("m1", refusal="begone"), hello_of("m1", cluster_id="other")],
    ids=["another member", "a refusal", "another cluster"],
)
def test_who_answers_at_a_kept_address_is_checked_and_its_refusal_ends_nobody(tmp_path: Path, said: bytes) -> None:
    ended: list[str] = []
    file = tmp_path / "addresses.json"
    file.write_text('{"names": {"m1.example": ["127.0.0.1"]}}')

    def refusing(host: str) -> list[str]:
        raise OSError("no name server answers")

    callbacks: list[Any] = []
    with at_port("127.0.0.1") as stranger:
        transport = transport_of_m2(
            tmp_path,
            callbacks,
            socket.create_server(("127.0.0.1", 0)),
            m1=f"m1.example:{stranger.getsockname()[1]}",
            book=AddressBook(file, lookup=refusing),
            refused=ended.append,
        )
        transport.membership.identity = replace(transport.membership.identity, cluster_id="ours")
        transport.set_members()
        stranger.setblocking(False)
        socks: list[socket.socket] = []

        def answered() -> bool:
            with contextlib.suppress(BlockingIOError):
                socks.append(stranger.accept()[0])
                socks[-1].sendall(said)
            return len(socks) >= 2  # it was turned away, and tried again later

        ticked(transport, callbacks[0], answered)
        assert transport._peers["m1"].connection is None
        assert not ended
        transport.destroy()
        for sock in socks:
            sock.close()
