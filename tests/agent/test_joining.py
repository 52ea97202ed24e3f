"""An agent joins by itself, renews its certificate, and follows the authorities: against real masters."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import hashlib
import io
import secrets
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from gosched.agent.host import CannotStart
from gosched.agent.join import begin_joining
from gosched.agent.join_files import CA, CERT, KEY, JoinFiles
from gosched.agent.masters import Connector, watched_tls
from gosched.agent.renewal import Renewal
from gosched.agent.revoked import RevokedMasters
from gosched.config import AgentSettings, ConfigError
from gosched.wire.join_token import BadJoinToken, JoinSecret, id_of_token, new_join_token, parse_join_token
from gosched.wire.signing import key_digest
from gosched.wire.tls_watch import TlsWatch
from gosched.wire.v1 import join_pb2, join_pb2_grpc
from tests.access.joins import Agent, joinable, new_token, token_address, write_key
from tests.access.stage import Stage
from tests.master.harness import until
from tests.replication.certificates import Authority


def pin(authority: Authority) -> bytes:
    found = x509.load_pem_x509_certificate(Path(authority.folder, "ca.pem").read_bytes())
    return key_digest(found.public_key())


def contents(files: JoinFiles) -> tuple[bytes, ...]:
    return tuple([(files.folder / name).read_bytes() for name in (CERT, KEY, CA)])


async def line_of(agent: Agent) -> str:
    with pytest.raises(CannotStart) as refused:
        await agent.join()
    line = str(refused.value)
    assert "\n" not in line
    return line


def test_an_agent_joins_with_a_token_and_starts_again_without_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with joinable(tmp_path) as stage:
            made = await new_token(stage)
            masters = [token_address(stage, 1), token_address(stage, 0)]
            agent = Agent(tmp_path / "a", masters, made.secret)
            await agent.join()
            assert stat.S_IMODE((agent.files.folder / KEY).stat().st_mode) == 0o600
            assert stat.S_IMODE(agent.files.folder.stat().st_mode) == 0o700
            assert sorted(agent.files.masters()) == sorted(s.record.grpc_address for s in stage.servers)
            watch = watched_tls(agent.files.tls, ("host", "n1"))
            assert watch is not None
            assert watch.current.holder.uri() == f"gosched://{stage.state.cluster_id}/agent/n1"
            before = contents(agent.files)
            agent.close()
            for again in ("", made.secret):  # the token is used up, and not looked at
                agent = Agent(tmp_path / "a", masters, again)
                assert agent.settings.tls == agent.files.tls
                await agent.join()
                assert contents(agent.files) == before
                agent.close()
            assert (await line_of(Agent(tmp_path / "b", masters, made.secret, "n2"))).endswith("makes another one")

    asyncio.run(story())


def test_an_agent_that_was_cut_off_after_the_use_of_its_token_joins_with_it_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with joinable(tmp_path) as stage:
            made = await new_token(stage)
            agent = Agent(tmp_path / "a", [token_address(stage)], made.secret)
            await agent.join()
            (agent.files.folder / CERT).unlink()  # it was killed before the answer came
            await agent.join()
            assert agent.files.has_joined

    asyncio.run(story())


def test_an_agent_takes_another_name_where_its_own_is_a_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gosched.agent.datadir._host_name", lambda: "box")

    async def story() -> None:
        async with joinable(tmp_path) as stage:
            for folder in ("a", "b"):
                made = await new_token(stage)
                await Agent(tmp_path / folder, [token_address(stage)], made.secret, "box").join()
            assert "box" in stage.state.joined_nodes
            assert len(stage.state.joined_nodes) == 2
            named = Agent(tmp_path / "c", [token_address(stage)], (await new_token(stage)).secret, "box")
            monkeypatch.setattr("gosched.agent.datadir._host_name", lambda: "other")  # it was named by a person
            assert "there is a node box already" in await line_of(named)

    asyncio.run(story())


class Mitm(join_pb2_grpc.JoinServiceServicer):
    """A server with another authority, which tells of the one that it is asked to tell of."""

    def __init__(self, tells: bytes) -> None:
        self.tells = tells
        self.asked = 0
        self.tokens: list[str] = []

    async def GetAuthority(self, request: Any, context: Any) -> Any:
        self.asked += 1
        return join_pb2.GetAuthorityResponse(authorities=self.tells)

    async def Join(self, request: Any, context: Any) -> Any:
        self.tokens.append(request.token)
        return join_pb2.JoinResponse()


@contextlib.asynccontextmanager
async def standing_between(authority: Authority, tells: bytes, role: str = "master") -> AsyncIterator[tuple[Mitm, str]]:
    files = authority.files("m1", role)
    key, cert = Path(files.key).read_bytes(), Path(files.cert).read_bytes()
    server, mitm = grpc.aio.server(), Mitm(tells)
    join_pb2_grpc.add_JoinServiceServicer_to_server(mitm, server)
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, cert)]))
    await server.start()
    try:
        yield mitm, f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@pytest.mark.parametrize("tells", ["its own", "the cluster's", "both", "rubbish"])
def test_a_server_of_another_authority_never_sees_the_token(tmp_path: Path, tells: str) -> None:
    mine, other = Authority(tmp_path / "mine"), Authority(tmp_path / "other")
    pems = [Path(one.folder, "ca.pem").read_bytes() for one in (other, mine)]
    told = {"its own": pems[0], "the cluster's": pems[1], "both": b"".join(pems), "rubbish": b"\x00rubbish"}

    async def story() -> None:
        _, secret = new_join_token([pin(mine)])
        async with standing_between(other, told[tells]) as (mitm, address):
            line = await line_of(Agent(tmp_path / "a", [address], secret))
            assert "shows no certificate of the authority that the token names" in line
            assert "the token was not sent" in line
            assert secret not in line
            assert (mitm.asked, mitm.tokens) == (1, [])
        async with standing_between(mine, pems[1]) as (mitm, address):  # the check above can fail
            assert "no certificate" in await line_of(Agent(tmp_path / "b", [address], secret))
            assert mitm.tokens == [secret]

    asyncio.run(story())


def test_a_program_of_the_cluster_that_is_no_master_never_sees_the_token(tmp_path: Path) -> None:
    mine = Authority(tmp_path / "mine")

    async def story() -> None:
        _, secret = new_join_token([pin(mine)])
        async with standing_between(mine, Path(mine.folder, "ca.pem").read_bytes(), "agent") as (mitm, address):
            assert "which is no master" in await line_of(Agent(tmp_path / "a", [address], secret))
            assert mitm.tokens == []

    asyncio.run(story())


def test_the_usual_port_of_a_master_is_named_as_the_mistake(tmp_path: Path) -> None:
    async def story() -> None:
        async with joinable(tmp_path) as stage:
            made = await new_token(stage)
            agent = Agent(tmp_path / "a", [stage.servers[0].record.grpc_address], made.secret)
            assert "server.token_addr" in await line_of(agent)

    asyncio.run(story())


def test_an_agent_tries_until_a_master_answers(tmp_path: Path) -> None:
    async def story() -> None:
        async with joinable(tmp_path) as stage:
            made = await new_token(stage)
            await Agent(tmp_path / "a", ["127.0.0.1:1", token_address(stage)], made.secret).join()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("rubbish", "--join: not a token to join with"),
        ("gosched-join.0123456789abcdef.x.y", "--join: the token to join with is cut off"),
        ("@/no/such/file", "--join: cannot read /no/such/file"),
    ],
)
def test_what_is_no_token_is_said_in_one_line_without_the_text(tmp_path: Path, given: str, words: str) -> None:
    line = asyncio.run(line_of(Agent(tmp_path / "a", ["127.0.0.1:1"], given)))
    assert line.startswith(words)
    assert "0123456789abcdef" not in line


def test_a_file_with_a_token_must_be_private(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(new_join_token([b"x" * 32])[1])
    file.chmod(0o644)
    assert "chmod 600" in asyncio.run(line_of(Agent(tmp_path / "a", ["127.0.0.1:1"], f"@{file}")))


def test_a_token_on_standard_input_is_one_line_and_there_has_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = AgentSettings.model_validate({"masters": ["localhost:1"], "data_dir": str(tmp_path)})
    monkeypatch.setattr("sys.stdin", io.StringIO("token\nmore\n"))
    _, joining = begin_joining(asked, "-")
    assert joining is not None
    assert joining.given == "token"
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(ConfigError, match="--join -: standard input has no token"):
        begin_joining(asked, "-")


def test_a_certificate_that_has_ended_needs_a_new_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with joinable(tmp_path) as stage:
            agent = Agent(tmp_path / "a", [token_address(stage)], (await new_token(stage)).secret)
            await agent.join()
            agent.close()
            with monkeypatch.context() as later:
                later.setattr("gosched.agent.join_files.datetime", _InFuture)
                over = Agent(tmp_path / "a", [token_address(stage)])
                line = await line_of(over)
                assert line.endswith("join again, with a token of `goschedctl node join-token create --node n1`")
                assert " ended at " in line
                over.close()
                again = Agent(tmp_path / "a", [token_address(stage)], (await new_token(stage, node="n1")).secret)
                before = contents(again.files)
                await again.join()
                assert contents(again.files) != before

    asyncio.run(story())


class _InFuture(datetime.datetime):
    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime.datetime.now(tz) + datetime.timedelta(days=40)


class Silent:
    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: None


class Renewed:
    """An agent that joined, and renews: its certificate is looked at as its TlsWatch has it."""

    def __init__(self, agent: Agent, look_s: float) -> None:
        files = agent.files
        self.watch = TlsWatch(files.tls.cert, files.tls.key, files.tls.ca, Silent())
        connector = Connector(
            self.watch, "", [("grpc.use_local_subchannel_pool", 1)], RevokedMasters(files.folder / "revoked.json").holds
        )
        name = self.watch.current.holder.name
        self.renewal = Renewal(files, self.watch, connector, (), name, ["127.0.0.1"], look_s=look_s)
        self.tasks = [asyncio.ensure_future(self.watch.watch()), asyncio.ensure_future(self.renewal.run())]

    @property
    def pem(self) -> tuple[bytes, bytes, bytes]:
        pem = self.watch.current.pem
        return pem.cert, pem.key, pem.ca

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        found = await asyncio.gather(*self.tasks, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in found), found


async def joined(stage: Stage, folder: Path, look_s: float) -> Renewed:
    agent = Agent(folder, [token_address(stage)], (await new_token(stage)).secret)
    await agent.join()
    return Renewed(agent, look_s)


def test_a_certificate_is_renewed_before_it_ends_with_a_new_key_each_time(tmp_path: Path) -> None:
    async def story() -> None:
        async with joinable(tmp_path, lasts="10s") as stage:
            agent = await joined(stage, tmp_path / "a", look_s=60)
            seen = {agent.pem[:2]}
            try:
                while len(seen) < 3:
                    before = agent.pem
                    await until(lambda: agent.pem != before, 20)  # noqa: B023
                    ends = x509.load_pem_x509_certificate(before[0]).not_valid_after_utc
                    assert datetime.datetime.now(datetime.UTC) < ends
                    seen.add(agent.pem[:2])
                assert len({key for _, key in seen}) == 3
                ends_ms = stage.state.joined_nodes["n1"].ends_at_ms
                newest = x509.load_pem_x509_certificate(agent.pem[0]).not_valid_after_utc
                assert ends_ms >= newest.timestamp() * 1000
            finally:
                await agent.close()

    asyncio.run(story())


def test_a_change_of_the_authority_reaches_an_agent_that_joined(tmp_path: Path) -> None:
    """As docs/operations/certificates.md has it: trust both, sign with the new one, trust that alone."""

    async def story() -> None:
        async with joinable(tmp_path) as stage:
            agent = await joined(stage, tmp_path / "a", look_s=0.2)
            ca = Path(stage.authority.folder)
            old, fresh = (ca / "ca.pem").read_bytes(), Authority(tmp_path / "fresh")
            new = (tmp_path / "fresh" / "ca.pem").read_bytes()
            try:
                # Masters read three files of one folder; `join` signs with ca.pem and ca.key of another from here on.
                replace(ca / "ca.pem", old + new)
                await until(lambda: agent.pem[2] == old + new)
                write_key(fresh)
                both = agent.pem[0]
                replace(ca / "ca.key", (tmp_path / "fresh" / "ca.key").read_bytes())
                await until(lambda: agent.pem[0] != both and signed_by(agent.pem[0], new))
                for member in ("m1", "m2"):
                    mine = fresh.files(member)
                    replace(ca / f"master-{member}.key", Path(mine.key).read_bytes())
                    replace(ca / f"master-{member}.pem", Path(mine.cert).read_bytes())
                await until(lambda: all(signed_by(s._tls.current.pem.cert, new) for s in stage.servers))
                replace(ca / "ca.pem", new)
                await until(lambda: agent.pem[2] == new)
                assert signed_by(agent.pem[0], new)
            finally:
                await agent.close()

    asyncio.run(story())


def replace(path: Path, data: bytes) -> None:
    new = path.with_name(f".{path.name}.new")
    new.touch(mode=0o600)
    new.write_bytes(data)
    new.rename(path)


def signed_by(cert: bytes, ca: bytes) -> bool:
    from gosched.wire.tls_expiry import signed_by as is_signed

    return is_signed(x509.load_pem_x509_certificates(cert)[0], x509.load_pem_x509_certificate(ca))


@pytest.mark.parametrize("left", range(4))
def test_an_agent_that_is_killed_between_its_files_finds_a_set_that_goes_together(
    tmp_path: Path, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = JoinFiles(tmp_path)
    files.open()
    files.store(b"cert1", b"ca1", b"key1", [])

    class Killed(Exception):
        pass

    import gosched.agent.join_files as module

    real, moved = module.os.replace, []

    def until_killed(source: Any, target: Any) -> None:
        if len(moved) == left:
            raise Killed
        moved.append(target)
        real(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(module.os, "replace", until_killed)
        with contextlib.suppress(Killed):
            files.store(b"cert2", b"ca2", b"key2", [])
    again = JoinFiles(tmp_path)
    assert again.has_joined
    again.open()
    assert contents(again) == (b"cert2", b"key2", b"ca2")
    assert not list(again.folder.glob("*.new"))


def test_a_set_that_was_not_complete_is_forgotten(tmp_path: Path) -> None:
    files = JoinFiles(tmp_path)
    files.open()
    files.store(b"cert1", b"ca1", b"key1", ["m1:1", "rubbish", ":2"])
    (files.folder / f"{KEY}.new").write_bytes(b"key2")
    files.open()
    assert contents(files) == (b"cert1", b"key1", b"ca1")
    assert files.masters() == ("m1:1",)


def test_the_text_of_a_token_is_read_back() -> None:
    pins = [hashlib.sha256(bytes([i])).digest() for i in range(3)]
    token_id, text = new_join_token(pins)
    found = parse_join_token(f" {text}\n")
    assert (found.id, found.pins, found.text) == (token_id, tuple(pins), text)
    assert text not in repr(found)
    assert id_of_token(text) == token_id
    assert len(base64.urlsafe_b64decode(f"{text.split('.')[2]}=")) == 32


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.text(max_size=700), st.binary(max_size=300).map(lambda data: data.decode("latin-1"))))
def test_no_text_is_read_as_a_token_that_is_none(text: str) -> None:
    with pytest.raises(BadJoinToken) as refused:
        parse_join_token(text)
    assert "\n" not in str(refused.value)
    assert id_of_token(text) == ""


TOKEN = new_join_token([secrets.token_bytes(32)])[1]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_token_with_any_part_changed_is_no_token_or_another_one(data: st.DataObject) -> None:
    text = TOKEN
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.one_of(st.just(""), st.characters(exclude_characters=text[place])))
    changed = text[:place] + other + text[place + 1 :]
    with contextlib.suppress(BadJoinToken):
        found = parse_join_token(changed)
        assert isinstance(found, JoinSecret)
        assert found.text != text
