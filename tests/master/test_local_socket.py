"""The Unix socket of a master, with real sockets and real accounts.

As root a second account is played by programs that run as it; without root there is the one account of the test, which
does all but being told apart from another.
"""

from __future__ import annotations

import asyncio
import contextlib
import grp
import os
import pwd
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from gosched.audit.record import AuditRecord, How
from gosched.config import ConfigError
from gosched.core.records.access import AccessRole, Binding
from gosched.core.spec.isolation import Isolation
from gosched.master.api.local_socket import LocalSocket, SocketBounds
from gosched.master.base.local_accounts import Credentials, LocalAccounts
from gosched.observe.faults import Faults
from gosched.wire.codec import to_message
from gosched.wire.v1 import access_pb2, access_pb2_grpc, scheduler_pb2, scheduler_pb2_grpc, types_pb2
from tests.master.harness import LIMIT_S, Front, front, one_master, spec, submission, two_masters, until

IS_ROOT = os.geteuid() == 0
ME = f"unix:{pwd.getpwuid(os.geteuid()).pw_name}"
#: Another account that every system has, as root; else this one.
OTHER = pwd.getpwnam("daemon") if IS_ROOT else pwd.getpwuid(os.geteuid())
THEM = f"unix:{OTHER.pw_name}"

#: The interpreter may lie where the other account cannot read, so a program becomes it once all is imported.
_BECOME = """
import os, sys
if {other}:
    os.setgroups([])
    os.setgid({gid})
    os.setuid({uid})
"""
_CALL = """
import sys
import gosched.client.requests.access, gosched.client.transport, gosched.client.looking, gosched.wire.api_pairs
import gosched.wire.v1.access_pb2_grpc
from gosched.client import GoSchedClient, GoSchedError
from gosched.client.client import GoSchedClient
client = GoSchedClient(sys.argv[1], timeout_s=10)
BECOME
try:
    found = client.check_access(sys.argv[2]) if sys.argv[2] else client.check_access()
    print(found.user, found.allowed, *found.groups)
except GoSchedError as error:
    print(error)
"""
_ECHO = """
import socket, sys
BECOME
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.send(b"x")
print(s.recv(1))
"""


@pytest.fixture
def place() -> Any:
    """A directory in which the other account may look: those of pytest are closed to it."""
    import shutil
    import tempfile

    found = Path(tempfile.mkdtemp(prefix="gs", dir="/tmp"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found)


def them(path: Path, permission: str = "", script: str = _CALL) -> str:
    """Return what a program of the other account is answered at the socket."""
    become = _BECOME.format(other=IS_ROOT, gid=OTHER.pw_gid, uid=OTHER.pw_uid)
    where = f"unix:{path}" if script is _CALL else str(path)
    done = subprocess.run(
        [sys.executable, "-c", script.replace("BECOME", become), where, permission],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def access(path: Path) -> Any:
    return access_pb2_grpc.AccessServiceStub(grpc.aio.insecure_channel(f"unix:{path}"))


@contextlib.asynccontextmanager
async def master_at(path: Path, **more: Any) -> AsyncIterator[Front]:
    server = {"grpc_addr": "127.0.0.1:0", "http_addr": "127.0.0.1:0", "socket": str(path)}
    async with one_master(server=server, **more) as master:
        yield master


async def bind(to: Any, *bindings: Binding) -> None:
    await to.SetBindings(
        access_pb2.SetBindingsRequest(bindings=[to_message(one, types_pb2.Binding) for one in bindings]),
        timeout=LIMIT_S,
    )


async def refusal(call: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return f"{refused.value.code().name} {refused.value.details()}"


def test_a_caller_at_the_socket_is_its_account_and_may_what_bindings_grant(place: Path) -> None:
    path = place / "m.sock"

    async def story() -> None:
        async with master_at(path, access={"admins": [ME]}) as master:
            mine = access(path)
            found = await mine.CheckAccess(access_pb2.CheckAccessRequest(permission="grant"), timeout=LIMIT_S)
            assert (found.user, found.allowed) == (ME, True)
            assert f"unix:{grp.getgrgid(os.getegid()).gr_name}" in found.groups
            # Over TCP without TLS everything is open; at the socket nobody may what nothing grants.
            assert (await master.scheduler.ListJobs(scheduler_pb2.ListJobsRequest(), timeout=LIMIT_S)) is not None
            told = await asyncio.to_thread(them, path)
            group = grp.getgrgid(OTHER.pw_gid).gr_name
            assert told.split()[0] == THEM
            assert f"unix:{group}" in told.split()
            if IS_ROOT:
                assert told == f"{THEM} False unix:{group}"
                assert await asyncio.to_thread(them, path, "submit") == f"{THEM} False unix:{group}"
            await bind(mine, Binding(name="b", role=AccessRole.SUBMITTER, groups=(f"unix:{group}",)))
            assert (await asyncio.to_thread(them, path, "submit")).startswith(f"{THEM} True")

    asyncio.run(story())


def test_a_job_is_its_accounts_and_runs_as_it_where_a_binding_says_user(place: Path) -> None:
    path, account = place / "m.sock", ME.removeprefix("unix:")

    async def story() -> None:
        async with master_at(path) as master:
            tcp = access_pb2_grpc.AccessServiceStub(master.channel)
            await bind(tcp, Binding(name="b", role=AccessRole.SUBMITTER, users=(ME,), accounts=("$user",)))
            mine = scheduler_pb2_grpc.SchedulerServiceStub(grpc.aio.insecure_channel(f"unix:{path}"))
            job = spec("own")
            as_me = to_message(job, types_pb2.JobSpec)
            as_me.groups[0].isolation.CopyFrom(to_message(Isolation(user=account), types_pb2.Isolation))
            request = scheduler_pb2.SubmitJobRequest(client_id="c", user="mallory", spec=as_me)
            made = await mine.SubmitJob(request, timeout=LIMIT_S)
            found = master.state.jobs[made.job_id]
            assert (found.user, found.authenticated) == (ME, True)
            as_me.groups[0].isolation.user = "games"
            refused = await refusal(mine.SubmitJob(request.__class__(client_id="d", spec=as_me), timeout=LIMIT_S))
            assert refused == f"PERMISSION_DENIED {ME} may not run tasks as the account 'games'"

    asyncio.run(story())


def test_a_follower_passes_on_who_called_at_its_socket_and_the_leader_judges_it(place: Path) -> None:
    path = place / "m2.sock"

    async def story() -> None:
        from gosched.replication.memory import MemoryCluster

        cluster = MemoryCluster("m1", "m2")
        raft = {"enabled": True, "peers": ["m1=127.0.0.1:1", "m2=127.0.0.1:2"]}
        addresses = {"grpc_addr": "127.0.0.1:0", "http_addr": "127.0.0.1:0"}
        async with (
            front(cluster.members["m1"], raft=raft | {"node_id": "m1"}) as leader,
            front(cluster.members["m2"], raft=raft | {"node_id": "m2"}, server=addresses | {"socket": str(path)}),
        ):
            cluster.elect("m1")
            await until(lambda: leader.state.queues and leader.state.leader == "m1")
            channel = grpc.aio.insecure_channel(f"unix:{path}")
            mine = scheduler_pb2_grpc.SchedulerServiceStub(channel)
            refused = await refusal(mine.SubmitJob(submission(spec("no")), timeout=LIMIT_S))
            assert refused.startswith(f"PERMISSION_DENIED {ME} may not submit")
            # Who says that its call was passed on is who it is, all the same.
            forged = (("gosched-forwarded", "127.0.0.1"), ("gosched-identity", '{"groups": ["ops"]}'))
            refused = await refusal(mine.SubmitJob(submission(spec("no")), metadata=forged, timeout=LIMIT_S))
            assert "UNAVAILABLE" in refused or f"{ME} may not submit" in refused
            await bind(
                access_pb2_grpc.AccessServiceStub(leader.channel),
                Binding(name="b", role=AccessRole.SUBMITTER, users=(ME,)),
            )
            made = await mine.SubmitJob(submission(spec("own")), timeout=LIMIT_S)
            assert (leader.state.jobs[made.job_id].user, leader.state.jobs[made.job_id].authenticated) == (ME, True)
            # A stream through the follower ends when the role is taken away.
            watch = mine.WatchJob(scheduler_pb2.GetJobRequest(job=made.job_id), timeout=LIMIT_S)
            await watch.read()
            await bind(access_pb2_grpc.AccessServiceStub(leader.channel))

            async def rest() -> None:
                while await watch.read() is not grpc.aio.EOF:
                    pass

            assert "may not" in await refusal(rest()) or "no job" in await refusal(rest())
            await channel.close()

    asyncio.run(story())


def test_the_audit_log_says_that_it_was_an_account_at_the_socket(place: Path) -> None:
    path, told = place / "m.sock", list[AuditRecord]()

    async def story() -> None:
        async with master_at(path) as master:
            master.server._audit.put = told.append  # type: ignore[method-assign]
            master.server.endpoints.calls._audit.put = told.append
            mine = scheduler_pb2_grpc.SchedulerServiceStub(grpc.aio.insecure_channel(f"unix:{path}"))
            await refusal(mine.SubmitJob(submission(spec("no")), timeout=LIMIT_S))

    asyncio.run(story())
    assert [(one.user, one.authenticated, one.address) for one in told] == [(ME, How.SOCKET, "unix")]


def test_the_inner_socket_is_closed_to_others_and_a_connection_that_did_not_come_through_is_refused(
    place: Path,
) -> None:
    path = place / "m.sock"

    async def story() -> None:
        async with master_at(path):
            inner = Path(f"{path}.d")
            assert stat.S_IMODE(inner.stat().st_mode) == 0o700
            assert inner.stat().st_uid == os.geteuid()
            assert stat.S_IMODE(path.stat().st_mode) == 0o666
            if IS_ROOT:
                assert "no master" in await asyncio.to_thread(them, inner / "grpc")
            # Whoever is root, or this master's account, gets there, and is nobody.
            direct = scheduler_pb2_grpc.SchedulerServiceStub(grpc.aio.insecure_channel(f"unix:{inner / 'grpc'}"))
            refused = await refusal(direct.ListJobs(scheduler_pb2.ListJobsRequest(), timeout=LIMIT_S))
            assert refused == "PERMISSION_DENIED this connection did not come through the socket of this master"
            assert sorted(one.name for one in inner.iterdir()) == ["grpc"]  # names of connections are not left behind
        assert list(place.iterdir()) == []

    asyncio.run(story())


def test_with_tls_a_certificate_has_no_name_of_an_account_or_of_an_issuer(tmp_path: Path) -> None:
    from tests.access.stage import staged

    async def story() -> None:
        async with staged(tmp_path, admins=["root", "unix:root"]) as stage:
            for user in ("unix:root", "unix:x"):
                refused = await refusal(stage.scheduler(user).ListJobs(scheduler_pb2.ListJobsRequest()))
                assert refused == f"PERMISSION_DENIED the certificate names '{user}', which is no name of certificates"

    asyncio.run(story())


# The socket by itself, before a server that sends back what it gets.


@contextlib.asynccontextmanager
async def echoing(path: Path, **bounds: Any) -> AsyncIterator[LocalSocket]:
    opened = LocalSocket(str(path), Faults(), SocketBounds(**bounds))
    writers = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(echo, opened.inner_address.removeprefix("unix:"))
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close_door()
        server.close()
        await opened.close()


async def answers(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bool]:
    """Return a connection, and whether it is served."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    with contextlib.suppress(ConnectionError):
        writer.write(b"x")
        async with asyncio.timeout(LIMIT_S):
            return reader, writer, await reader.read(1) == b"x"
    return reader, writer, False


def test_a_flood_of_connections_of_one_account_is_bounded_and_the_rest_is_closed_at_once(place: Path) -> None:
    path = place / "s"

    async def story() -> None:
        async with echoing(path, connections=20, per_account=8) as opened:
            flood = await asyncio.gather(*(answers(path) for _ in range(100)))
            assert sum(served for _, _, served in flood) == 8
            assert opened.connections == 8
            if IS_ROOT:  # another account has its own places
                assert await asyncio.to_thread(them, path, "", _ECHO) == "b'x'"
            for _, writer, _ in flood:
                writer.close()
            await until(lambda: opened.connections == 0)
            _, writer, served = await answers(path)
            assert served
            writer.close()

    asyncio.run(story())


def test_beyond_the_bound_of_all_connections_others_wait_and_are_served_when_one_ends(place: Path) -> None:
    path = place / "s"

    async def story() -> None:
        async with echoing(path, connections=2, per_account=8) as opened:
            held = [await answers(path) for _ in range(2)]
            waiting = asyncio.ensure_future(answers(path))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            assert opened.connections == 2
            held[0][1].close()
            _, writer, served = await waiting
            assert served
            for one in (writer, held[1][1]):
                one.close()

    asyncio.run(story())


def test_bytes_arrive_whole_and_who_reads_nothing_is_not_read_from(place: Path) -> None:
    path = place / "s"

    async def story() -> None:
        async with echoing(path):
            reader, writer = await asyncio.open_unix_connection(str(path))
            sent = os.urandom(4 << 20)
            writer.write(sent)
            async with asyncio.timeout(LIMIT_S):
                assert await reader.readexactly(len(sent)) == sent
            writer.close()
            # One that writes and never reads is stopped: some buffers of the kernel and ours fill, and no more.
            with socket.socket(socket.AF_UNIX) as greedy:
                await asyncio.to_thread(greedy.connect, str(path))
                greedy.setblocking(False)
                taken = idle = 0
                while idle < 100:
                    try:
                        taken += greedy.send(b"y" * 65536)
                        idle = 0
                    except BlockingIOError:
                        idle += 1
                        await asyncio.sleep(0.005)
                assert taken < 8 << 20

    asyncio.run(story())


def test_a_connection_ends_when_either_side_closes_and_when_it_says_nothing(place: Path) -> None:
    path = place / "s"

    async def story() -> None:
        async with echoing(path, first_s=0.1) as opened:
            silent, closing = await asyncio.open_unix_connection(str(path))
            await until(lambda: opened.connections == 1)
            async with asyncio.timeout(LIMIT_S):
                assert await silent.read() == b""
            closing.close()
            await until(lambda: opened.connections == 0)
            _, writer, served = await answers(path)
            assert served
            await asyncio.sleep(0.2)
            assert opened.connections == 1  # it has spoken, and may be silent now
            writer.close()
            await until(lambda: opened.connections == 0)
            assert opened._users == {}

    asyncio.run(story())


def test_a_dead_masters_socket_is_replaced_and_a_living_one_or_a_file_is_refused(place: Path) -> None:
    path = place / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    (place / "s.d").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place / "s.d" / "left"))

    async def story() -> None:
        async with echoing(path):
            _, writer, served = await answers(path)
            assert served
            writer.close()
            with pytest.raises(ConfigError, match=r"server.socket: another master listens on .*/s: give each its own"):
                LocalSocket(str(path), Faults())
        assert list(place.iterdir()) == []
        with socket.socket(socket.AF_UNIX) as living:
            living.bind(str(path))
            living.listen()
            await _refused(path, "another program listens on .*/s: stop it, or choose another path")
        path.unlink()
        path.write_text("a file")
        await _refused(path, "/s is there, and is no socket: remove it, or choose another path")
        assert path.read_text() == "a file"

    asyncio.run(story())


async def _refused(path: Path, words: str) -> None:
    opened = LocalSocket(str(path), Faults())
    with pytest.raises(ConfigError, match=words):
        await opened.open()
    await opened.close()


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775], ids=oct)
def test_a_directory_in_which_others_can_write_is_refused(place: Path, mode: int) -> None:
    folder = place / "run"
    folder.mkdir()
    folder.chmod(mode)

    async def story() -> None:
        with pytest.raises(ConfigError, match=r"other users can write in .*/run .*chmod go-w .*/run"):
            LocalSocket(str(folder / "s"), Faults())
        with pytest.raises(ConfigError, match=r"none cannot be used .*make it for the account of this master"):
            LocalSocket(str(place / "none" / "s"), Faults())

    asyncio.run(story())


def test_the_socket_of_another_program_that_took_the_path_meanwhile_is_not_removed(place: Path) -> None:
    path = place / "s"

    async def story() -> None:
        async with echoing(path):
            path.unlink()
            with socket.socket(socket.AF_UNIX) as another:
                another.bind(str(path))
        assert stat.S_ISSOCK(path.stat().st_mode)

    asyncio.run(story())


def test_an_account_that_the_system_does_not_know_has_a_name_that_no_other_has(monkeypatch: Any) -> None:
    class Found:
        pw_name = gr_name = "uid-7"

    monkeypatch.setattr(pwd, "getpwuid", lambda uid: {7: pwd.getpwuid}.get(uid) or Found)
    unknown = Credentials(uid=4_123_456_789, gids=(4_123_456_789,))

    async def story() -> None:
        accounts = LocalAccounts()
        found = await accounts.user(unknown)
        assert found.user == "unix:uid-4123456789"  # and not the name that belongs to another number
        assert found.groups == ("unix:gid-4123456789",)
        accounts.close()

    asyncio.run(story())


def test_a_master_stops_at_once_though_connections_are_open_and_leaves_nothing(place: Path) -> None:
    path = place / "m.sock"

    async def story() -> None:
        async with master_at(path, access={"admins": [ME]}):
            mine = access(path)
            await mine.CheckAccess(access_pb2.CheckAccessRequest(), timeout=LIMIT_S)
        assert list(place.iterdir()) == []

    async def bounded() -> None:
        async with asyncio.timeout(LIMIT_S):
            await story()

    asyncio.run(bounded())


def test_two_masters_without_a_socket_make_no_file(place: Path) -> None:
    async def story() -> None:
        async with two_masters():
            assert list(place.iterdir()) == []

    asyncio.run(story())
