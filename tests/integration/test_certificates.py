"""Certificates, keys and authorities that are replaced under running masters and agents: real processes, under load."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
import yaml

from gosched.cli.main import run_cli
from gosched.client import GoSchedClient, GoSchedError, TlsFiles
from gosched.core.records.job import JobState
from gosched.wire.v1 import scheduler_pb2, scheduler_pb2_grpc
from tests.log_lines import records
from tests.ports import HeldPort
from tests.wire.tls import out_of_date

from .support import PATIENCE_S, until

BIN = Path(sys.executable).parent
REFUSED = "new certificates are refused, the old ones stay in use"
TAKEN_UP = "certificates taken up"
pytestmark = pytest.mark.timeout(900)


def cert(*words: str) -> None:
    assert run_cli(["cert", *words]) == 0


def replace(file: Path, data: bytes, mode: int = 0o600) -> None:
    new = file.with_name(f".{file.name}.new")
    new.touch(mode=mode)
    new.chmod(mode)
    new.write_bytes(data)
    os.replace(new, file)


class Holder:
    """The TLS files of one program or person: `me.pem`, `me.key`, `ca.pem` in a folder."""

    def __init__(self, folder: Path, authority: Path, role: str, name: str) -> None:
        self.folder = folder
        sans = [] if role == "client" else ["--san", "127.0.0.1"]
        cert("issue", role, name, "--cluster", "prod", "--dir", str(authority), "--out", str(folder), *sans)
        file = "any" if name == "*" else name
        (folder / f"{file}.pem").rename(folder / "me.pem")
        (folder / f"{file}.key").rename(folder / "me.key")
        shutil.copy(authority / "ca.pem", folder / "ca.pem")

    def __getattr__(self, name: str) -> str:
        return str(self.folder / {"cert": "me.pem", "key": "me.key", "ca": "ca.pem"}[name])

    def files(self) -> TlsFiles:
        return TlsFiles(cert=self.cert, key=self.key, ca=self.ca)

    def pem(self) -> tuple[bytes, bytes, bytes]:
        return tuple(Path(path).read_bytes() for path in (self.ca, self.key, self.cert))  # type: ignore[return-value]

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)  # noqa: TID251
        context.load_cert_chain(self.cert, self.key)
        return context


class Daemon:
    """A master or an agent as a process."""

    def __init__(self, running: ExitStack, program: str, home: Path, holder: Holder, settings: dict[str, Any]) -> None:
        self.holder, self.log = holder, home / "log"
        home.mkdir(exist_ok=True)
        tls = {"cert": holder.cert, "key": holder.key, "ca": holder.ca}
        (home / "config.yaml").write_text(
            yaml.safe_dump({**settings, "tls": tls, "data_dir": str(home / "data"), "logging": {"format": "json"}})
        )
        log = running.enter_context(self.log.open("w"))
        command = [str(BIN / program), "--config", str(home / "config.yaml")]
        self.process = running.enter_context(subprocess.Popen(command, stdout=log, stderr=log))
        running.callback(self.process.terminate)
        self.http = settings.get("http_addr") or settings["server"]["http_addr"]

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in records(self.log.read_text().splitlines()) if line.get("event") == event]

    def pids(self) -> set[int]:
        """This process, and the replica of a master."""
        children = psutil.Process(self.process.pid).children()
        return {self.process.pid, *(p.pid for p in children if "gosched.replication.replica" in p.cmdline())}


class Cluster:
    def __init__(self, folder: Path, running: ExitStack, *, masters: int, agents: int) -> None:
        self.old, self.new = folder / "old-ca", folder / "new-ca"
        for authority in (self.old, self.new):  # of one name: their keys tell them apart
            cert("init", "--dir", str(authority))
        self.alice = Holder(folder / "alice", self.old, "client", "alice")
        self.ports = {f"m{i}": {u: HeldPort() for u in ("grpc", "http", "raft")} for i in range(masters)}
        self.endpoints = [ports["grpc"].address for ports in self.ports.values()]
        self.masters: dict[str, Daemon] = {}
        for member, ports in self.ports.items():
            peers = [f"{m}={p['raft'].address}" for m, p in self.ports.items() if m != member]
            raft = {"enabled": True, "node_id": member, "bind_addr": ports["raft"].address, "peers": peers}
            server = {"grpc_addr": ports["grpc"].address, "http_addr": ports["http"].address}
            holder = Holder(folder / member / "tls", self.old, "master", member)
            raft = raft if masters > 1 else {**raft, "peers": []}
            # Masters that share two processors with other tests wait for them at times: an election is not the work of
            # new certificates before it has kept them for longer than that.
            raft["max_round_trip"] = "800ms"
            settings = {"server": server, "raft": raft, "access": {"admins": ["alice"]}}
            self.masters[member] = Daemon(running, "gosched-master", folder / member, holder, settings)
        self.agents: list[Daemon] = []
        self.agent_ports: list[HeldPort] = []
        for i in range(agents):
            holder = Holder(folder / f"agent{i}" / "tls", self.old, "agent", "*")
            ports = [HeldPort(), HeldPort()]
            self.agent_ports += ports
            settings = {"masters": self.endpoints, "resources": {"cpu": 4}, "users": {"own": True}}
            settings |= {"grpc_addr": ports[0].address, "http_addr": ports[1].address}
            self.agents.append(Daemon(running, "gosched-agent", folder / f"agent{i}", holder, settings))
            with self.client() as client:  # one after the other: the second one of a host takes another id
                until(lambda client=client, i=i: ready(client) == i + 1, "the node is ready")

    @property
    def daemons(self) -> list[Daemon]:
        return [*self.masters.values(), *self.agents]

    @property
    def holders(self) -> list[Holder]:
        return [*(daemon.holder for daemon in self.daemons), self.alice]

    def client(self) -> GoSchedClient:
        return GoSchedClient(self.endpoints, tls=self.alice.files(), timeout_s=PATIENCE_S)

    def certificates(self, daemon: Daemon) -> set[tuple[str, str]]:
        """What a daemon uses, by its metrics: (own or authority, id of the authority)."""
        connection = http.client.HTTPSConnection(daemon.http, timeout=PATIENCE_S, context=self.alice.context())
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        found = re.findall(r"^gosched_certificate_expiry_timestamp_seconds\{(.*)\}", text, re.MULTILINE)
        labels = [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in found]
        return {(one["kind"], one["authority"]) for one in labels}


def ready(client: GoSchedClient) -> int:
    try:
        return client.get_status().nodes_ready
    except GoSchedError:
        return 0


def id_of(authority: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    cert("show", str(authority / "ca.pem"), "-o", "json")
    found: str = json.loads(capsys.readouterr().out)["id"]
    return found


@pytest.fixture
def running() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class Load:
    """Calls of all kinds, one behind the other in a thread for each kind, until `stop`. None is repeated by this class,
    and of those over gRPC by nothing else either, but for `client`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.made: Counter[str] = Counter()
        self.failures: list[str] = []
        self.files = threading.Lock()  # alice's are three: she reads none of them while she replaces them
        self._ended = threading.Event()
        kinds = (self.client, self.held_grpc, self.fresh_grpc, self.held_http, self.fresh_http)
        self._threads = [threading.Thread(target=self._run, args=(kind.__name__, kind)) for kind in kinds]
        for thread in self._threads:
            thread.start()

    def is_well(self) -> bool:
        """Check that no call has failed."""
        assert self.failures == []
        return True

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(2 * PATIENCE_S)
            assert not thread.is_alive()

    def _run(self, name: str, make: Callable[[], Iterator[None]]) -> None:
        calls = make()
        while not self._ended.is_set():
            try:
                next(calls)
                self.made[name] += 1
            except Exception as error:
                self.failures.append(f"{name}: {type(error).__name__}: {error}"[:400])
                self._ended.wait(0.1)
                calls = make()
        calls.close()

    def _endpoint(self, use: str, turn: int) -> str:
        ports = list(self.cluster.ports.values())
        return ports[turn % len(ports)][use].address

    def client(self) -> Iterator[None]:
        """A client that lives long: submissions, and looks at them."""
        with self.files:
            client = self.cluster.client()
        with client:
            while True:
                job = client.submit(f"name: j-{uuid.uuid4().hex[:8]}\nresources: {{cpu: 10m}}\nrun: 'true'\n")
                yield
                client.get_job(job.job_id)
                yield
                assert client.get_status().nodes_ready == 2
                yield

    def held_grpc(self) -> Iterator[None]:
        """Channels that live long, to each master: two of them pass the call on to the leader."""
        channels = [self._channel(turn) for turn in range(3)]
        turn = 0
        with ExitStack() as closing:
            for channel in channels:
                closing.enter_context(channel)
            while True:
                self._call(channels[turn % 3])
                turn += 1
                yield

    def fresh_grpc(self) -> Iterator[None]:
        turn = 0
        while True:
            with self._channel(turn) as channel:
                self._call(channel)
            turn += 1
            yield

    def _channel(self, turn: int) -> grpc.Channel:
        with self.files:
            ca, key, certificate = self.cluster.alice.pem()
        return grpc.secure_channel(
            self._endpoint("grpc", turn),
            grpc.ssl_channel_credentials(ca, key, certificate),
            options=(("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)),
        )

    def _call(self, channel: grpc.Channel) -> None:
        stub = scheduler_pb2_grpc.SchedulerServiceStub(channel)
        stub.ListJobs(scheduler_pb2.ListJobsRequest(page_size=5), timeout=PATIENCE_S)

    def held_http(self) -> Iterator[None]:
        """A connection that stays for as long as its master wants."""
        while True:
            with closing(self._http(0)) as connection:
                will_close = False
                while not will_close:
                    will_close = self._get(connection)
                    yield

    def fresh_http(self) -> Iterator[None]:
        turn = 0
        while True:
            with closing(self._http(turn)) as connection:
                self._get(connection)
            yield
            with closing(self._http(turn + 1)) as connection:
                job = f"name: r-{uuid.uuid4().hex[:8]}\nresources: {{cpu: 10m}}\nrun: 'true'\n"
                connection.request("POST", "/api/v1/jobs", job, {"Content-Type": "application/yaml"})
                answer = connection.getresponse()
                body = answer.read()
                assert answer.status in (200, 201), body
            turn += 2
            yield

    def _http(self, turn: int) -> http.client.HTTPSConnection:
        with self.files:
            context = self.cluster.alice.context()
        return http.client.HTTPSConnection(self._endpoint("http", turn), timeout=PATIENCE_S, context=context)

    def _get(self, connection: http.client.HTTPSConnection) -> bool:
        connection.request("GET", "/api/v1/jobs?page_size=5")
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return answer.will_close


def test_an_authority_is_replaced_under_load_without_a_restart_and_without_a_failed_call(
    tmp_path: Path, running: ExitStack, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(tmp_path, running, masters=3, agents=2)
    old, new = id_of(cluster.old, capsys), id_of(cluster.new, capsys)
    pids = [daemon.pids() for daemon in cluster.daemons]
    stolen = tmp_path / "stolen"
    shutil.copytree(cluster.alice.folder, stolen)
    with cluster.client() as client:
        says = client.submit(
            "name: says\ncount: 2\nresources: {cpu: 3}\nrun: 'i=0; while :; do echo $i; i=$((i+1)); sleep 0.2; done'\n"
        ).job_id
        until(lambda: client.get_job(says).job.running == 2, "both nodes run a task")
        before = {node.node.id: node.node.incarnation for node in client.list_nodes()}
        epoch = client.get_status().epoch
    heard: list[tuple[str, bytes]] = []
    listener = running.enter_context(cluster.client())
    follower = threading.Thread(target=listen, args=(listener, says, heard))
    follower.start()
    load = Load(cluster)
    running.callback(load.stop)

    def until_all_use(*wanted: tuple[str, str]) -> None:
        until(lambda: all(cluster.certificates(d) == set(wanted) for d in cluster.daemons), f"all use {wanted}")
        until(lambda: all(replica_took_up(d) >= steps for d in cluster.masters.values()), "and so do the replicas")
        seen = Counter(load.made)
        until(lambda: load.is_well() and all(load.made[kind] > seen[kind] + 10 for kind in seen), "calls go on")

    until(lambda: load.is_well() and len(load.made) == 5 and min(load.made.values()) > 10, "calls are made")
    both = (cluster.new / "ca.pem").read_bytes() + (cluster.old / "ca.pem").read_bytes()
    steps = 1
    for holder in cluster.holders:
        replace(Path(holder.ca), both)
    until_all_use(("own", old), ("authority", old), ("authority", new))
    steps = 2
    for holder in cluster.holders:
        with load.files:
            cert("renew", holder.cert, "--dir", str(cluster.new), "--rotate")
    until_all_use(("own", new), ("authority", old), ("authority", new))
    steps = 3
    for holder in cluster.holders:
        with load.files:
            replace(Path(holder.ca), (cluster.new / "ca.pem").read_bytes())
    marks = {m: len(renewed(d)) for m, d in cluster.masters.items()}
    until_all_use(("own", new), ("authority", new))
    until(lambda: all(len(renewed(d)) > marks[m] for m, d in cluster.masters.items()), "masters connect anew")
    until_all_use(("own", new), ("authority", new))

    with cluster.client() as client:
        assert {node.node.id: node.node.incarnation for node in client.list_nodes()} == before
        assert client.get_status().epoch == epoch, "a new certificate costs no election"
        job = client.get_job(says).job
        assert (job.running, job.attempt) == (2, 1)
        done = [client.submit(f"name: after-{i}\nresources: {{cpu: 500m}}\nrun: 'true'\n").job_id for i in range(4)]
        for one in done:
            assert client.wait(one, timeout=PATIENCE_S).state is JobState.SUCCEEDED
        until(lambda: all(one.healthy for one in client.get_status().masters), "all masters hear each other")
        client.cancel(says)
        client.wait(says, timeout=PATIENCE_S)
    follower.join(PATIENCE_S)
    load.stop()
    print(f"\ncalls during the rotation: {dict(load.made)}, {load.made.total()} in all, failed: {len(load.failures)}")
    assert load.failures == []
    assert min(load.made.values()) > 50
    for lines in tasks_lines(heard):
        assert lines == sorted(set(lines)), "each line came once"
    assert [daemon.pids() for daemon in cluster.daemons] == pids

    ports = [port for uses in cluster.ports.values() for port in uses.values()] + cluster.agent_ports
    for port in ports:
        assert is_let_in(port, Path(cluster.alice.folder), cluster), port.address
        assert not is_let_in(port, stolen, cluster), port.address


def replica_took_up(daemon: Daemon) -> int:
    return len([line for line in daemon.said(TAKEN_UP) if line.get("process") == "replica"])


def renewed(daemon: Daemon) -> list[dict[str, Any]]:
    return [line for line in daemon.said("peer lost") if "made anew" in line["why"]]


def listen(client: GoSchedClient, job: str, heard: list[tuple[str, bytes]]) -> None:
    with suppress(GoSchedError):
        heard.extend((chunk.task_id, chunk.data) for chunk in client.logs(job, follow=True))


def tasks_lines(heard: list[tuple[str, bytes]]) -> list[list[int]]:
    texts: dict[str, bytes] = {}
    for task, data in heard:
        texts[task] = texts.get(task, b"") + data
    assert texts
    return [[int(line) for line in text.split()] for text in texts.values()]


def is_let_in(port: HeldPort, folder: Path, cluster: Cluster) -> bool:
    """Return whether a server goes on with a caller that shows the certificate in the folder. With TLS 1.3 it says no
    only after the handshake."""
    context = ssl.create_default_context(cafile=cluster.alice.ca)  # noqa: TID251
    context.load_cert_chain(str(folder / "me.pem"), str(folder / "me.key"))
    context.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_connection(("127.0.0.1", port.number), PATIENCE_S) as sock:
        try:
            with context.wrap_socket(sock, server_hostname="127.0.0.1") as secure:
                secure.settimeout(1.5)
                return bool(secure.recv(1))
        except TimeoutError:
            return True  # it waits for a request
        except (ssl.SSLError, ConnectionError):
            return False


def garbage(holder: Holder, cluster: Cluster, elsewhere: Path) -> None:
    replace(Path(holder.cert), b"\x00\x01 garbage\n")


def key_of_another(holder: Holder, cluster: Cluster, elsewhere: Path) -> None:
    cert("issue", "client", "bob", "--dir", str(cluster.old), "--out", str(elsewhere))
    replace(Path(holder.key), (elsewhere / "bob.key").read_bytes())


def of_another_holder(holder: Holder, cluster: Cluster, elsewhere: Path) -> None:
    cert("issue", "master", "m9", "--cluster", "prod", "--dir", str(cluster.old), "--out", str(elsewhere))
    replace(Path(holder.key), (elsewhere / "m9.key").read_bytes())
    replace(Path(holder.cert), (elsewhere / "m9.pem").read_bytes())


def expired(holder: Holder, cluster: Cluster, elsewhere: Path) -> None:
    old = out_of_date(cluster.old, holder, begins_in_days=-9, ends_in_days=-2)  # type: ignore[arg-type]
    replace(Path(holder.cert), Path(old.cert).read_bytes())


def open_to_all(holder: Holder, cluster: Cluster, elsewhere: Path) -> None:
    cert("renew", str(elsewhere / "me.pem"), "--dir", str(cluster.old))
    replace(Path(holder.key), (elsewhere / "me.key").read_bytes(), mode=0o644)
    replace(Path(holder.cert), (elsewhere / "me.pem").read_bytes())


def of_an_unknown_authority(holder: Holder, cluster: Cluster, elsewhere: Path) -> None:
    cert("renew", holder.cert, "--dir", str(cluster.new), "--rotate")


MISTAKES = {
    garbage: "holds no certificate in PEM form",
    key_of_another: "is not the key of the certificate",
    of_another_holder: "that needs a restart",
    expired: "expired at",
    open_to_all: "chmod 600",
    of_an_unknown_authority: "the authority in",
}


def test_bad_files_are_refused_with_one_line_and_what_was_in_use_stays_in_use(
    tmp_path: Path, running: ExitStack, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(tmp_path, running, masters=1, agents=1)
    authority = id_of(cluster.old, capsys)
    in_use = {("own", authority), ("authority", authority)}
    for count, (spoil, said) in enumerate(MISTAKES.items(), 1):
        kept = {}
        for number, daemon in enumerate(cluster.daemons):
            kept[daemon], elsewhere = (tmp_path / f"{spoil.__name__}-{number}-{use}" for use in ("kept", "other"))
            shutil.copytree(daemon.holder.folder, kept[daemon])
            shutil.copytree(daemon.holder.folder, elsewhere)
            spoil(daemon.holder, cluster, elsewhere)
            daemon.process.send_signal(1)
        for daemon in cluster.daemons:
            until(lambda daemon=daemon, count=count: len(daemon.said(REFUSED)) >= count, f"{spoil.__name__} is refused")
            line = daemon.said(REFUSED)[-1]["why"]
            assert said in line
            assert "\n" not in line
            assert cluster.certificates(daemon) == in_use
        with cluster.client() as client:
            job = client.submit(f"name: with-{count}\nresources: {{cpu: 100m}}\nrun: 'true'\n").job_id
            assert client.wait(job, timeout=PATIENCE_S).state is JobState.SUCCEEDED
        for daemon, good in kept.items():
            for file in ("me.key", "me.pem", "ca.pem"):
                replace(daemon.holder.folder / file, (good / file).read_bytes())
    taken = [len(daemon.said(TAKEN_UP)) for daemon in cluster.daemons]
    for daemon in cluster.daemons:
        cert("renew", daemon.holder.cert, "--dir", str(cluster.old))
    for daemon, before in zip(cluster.daemons, taken, strict=True):
        until(lambda daemon=daemon, before=before: len(daemon.said(TAKEN_UP)) > before, "a good one is taken up")
        whys = [line["why"] for line in daemon.said(REFUSED)]
        assert all(why != again for why, again in pairwise(whys)), "each is said once"
