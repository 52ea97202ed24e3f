"""What authentication costs a call: GetJob over gRPC and `GET /api/v1/status`, at the leader of three masters of real
processes on loopback. The callers have no TLS, a client's certificate, a token, or a JWT of an issuer; the latter two
over TLS without a certificate.

Latencies are of one caller by itself (`p50`, `p99`) and of 16 at once (`16_p50`, `16_p99`), each with a connection that
stays open, all on this machine; `cpu` is the CPU time of the leader's front for each call of the one caller, with what
it does beside (heartbeats, cycles). Callers take turns: a busy machine is so for all of them.

`--other DIR` compares with another checkout, whose `.venv` has its programs, such as the commit before access control:
callers without TLS and with a certificate call both, turn by turn, and the figures are ratios, this one to the other.
"""

from __future__ import annotations

import http.client
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import yaml

from benchmarks.report import Report
from gosched.wire.v1 import access_pb2, access_pb2_grpc, scheduler_pb2, scheduler_pb2_grpc, types_pb2
from tests.identity.issuer import Issuer, issuer
from tests.integration.support import until
from tests.ports import HeldPort
from tests.replication.certificates import Authority

CALLERS = 16
TIMEOUT_S = 30.0
HOUR_S = 3600
MEMBERS = ("m1", "m2", "m3")
LIMITS = {"calls_per_second": 1_000_000, "burst": 10_000_000}
HERE = Path(sys.executable).parent

Call = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one turn of one kind of caller."""

    one_s: list[float]
    many_s: list[float]
    cpu_s: float


class Masters:
    """Three masters, of the programs in `folder`; `oidc`: their issuer, of which those of another checkout know
    nothing."""

    def __init__(
        self, running: ExitStack, programs: Path, home: Path, authority: Authority | None, oidc: Issuer | None = None
    ) -> None:
        self.authority = authority
        uses = ("grpc", "http", "raft", *(("token",) if oidc else ()))
        self.ports = {m: {use: HeldPort() for use in uses} for m in MEMBERS}
        self._programs: dict[str, subprocess.Popen[bytes]] = {}
        for m in MEMBERS:
            ports, folder = self.ports[m], home / m
            peers = [f"{other}={self.ports[other]['raft'].address}" for other in MEMBERS if other != m]
            settings: dict[str, Any] = {
                "server": {f"{use}_addr": ports[use].address for use in uses if use != "raft"},
                "raft": {"enabled": True, "node_id": m, "bind_addr": ports["raft"].address, "peers": peers},
                "limits": LIMITS,
                "data_dir": str(folder),
            }
            if authority:
                files = authority.files(m)
                settings["tls"] = {"cert": files.cert, "key": files.key, "ca": files.ca}
            if oidc:
                settings["oidc"] = {"issuer": oidc.url, "client_id": "gosched"}
                settings["access"] = {"admins": ["ann", "oidc:alice@example.com"]}
            folder.mkdir(parents=True)
            (folder / "config.yaml").write_text(yaml.safe_dump(settings))
            log = running.enter_context((folder / "log").open("w"))
            command = [str(programs / "gosched-master"), "--config", str(folder / "config.yaml")]
            self._programs[m] = running.enter_context(subprocess.Popen(command, stdout=log, stderr=log))
            running.callback(self._programs[m].terminate)
        self.leader = ""
        until(self._has_leader, "the masters serve", 60)
        made = {"name": "one", "run": "true", "hold": True}
        with self.https(self.leader, "ann") as connection:
            connection.request("POST", "/api/v1/jobs", json.dumps(made), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status != 201:
                raise SystemExit(f"the job is not taken: {answer.status} {answer.read()[:300]!r}")

    def led_by(self) -> str:
        """Return the leader now; empty: none is known."""
        try:
            with self.https("m1", "ann") as connection:
                connection.request("GET", "/api/v1/status")
                answer = connection.getresponse()
                return str(json.loads(answer.read()).get("leader", "")) if answer.status == 200 else ""
        except OSError:
            return ""

    def _has_leader(self) -> bool:
        for program in self._programs.values():
            if program.poll() is not None:
                raise SystemExit("a master has ended: see its log")
        self.leader = self.led_by()
        return bool(self.leader)

    def cpu_s(self) -> float:
        """Return the CPU time that the leader's front has used; its replica is another process."""
        threads = Path(f"/proc/{self._programs[self.leader].pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9

    def context(self, user: str) -> ssl.SSLContext | None:
        if self.authority is None:
            return None
        found = ssl.create_default_context(cafile=str(self.authority.folder / "ca.pem"))  # noqa: TID251 - a client
        if user:
            files = self.authority.files(user, "client")
            found.load_cert_chain(files.cert, files.key)
        return found

    @contextmanager
    def https(self, member: str, user: str) -> Iterator[http.client.HTTPConnection]:
        address, context = self.ports[member]["http"].address, self.context(user)
        made = (
            http.client.HTTPConnection(address, timeout=TIMEOUT_S)
            if context is None
            else http.client.HTTPSConnection(address, timeout=TIMEOUT_S, context=context)
        )
        try:
            yield made
        finally:
            made.close()

    def channel(self, user: str) -> grpc.Channel:
        """Return a connection of its own to the leader; without a user one that shows no certificate."""
        own = [("grpc.use_local_subchannel_pool", 1)]
        ports = self.ports[self.leader]
        if self.authority is None:
            return grpc.insecure_channel(ports["grpc"].address, own)
        ca = (self.authority.folder / "ca.pem").read_bytes()
        if not user:
            return grpc.secure_channel(ports["token"].address, grpc.ssl_channel_credentials(ca), own)
        files = self.authority.files(user, "client")
        pair = Path(files.key).read_bytes(), Path(files.cert).read_bytes()
        return grpc.secure_channel(ports["grpc"].address, grpc.ssl_channel_credentials(ca, *pair), own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    masters: Masters
    #: In its certificate; empty: it has none.
    user: str
    #: Empty: it has none.
    token: str = ""

    @contextmanager
    def grpc(self) -> Iterator[Call]:
        """Yield a call on a connection of its own."""
        metadata = (("authorization", f"Bearer {self.token}"),) if self.token else ()
        with self.masters.channel(self.user) as channel:
            stub = scheduler_pb2_grpc.SchedulerServiceStub(channel)
            request = scheduler_pb2.GetJobRequest(job="one")

            def call() -> None:
                stub.GetJob(request, metadata=metadata, timeout=TIMEOUT_S)

            yield call

    @contextmanager
    def rest(self) -> Iterator[Call]:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        with self.masters.https(self.masters.leader, self.user) as connection:

            def call() -> None:
                connection.request("GET", "/api/v1/status", headers=headers)
                answer = connection.getresponse()
                body = answer.read()
                if answer.status != 200:
                    raise SystemExit(f"GET /api/v1/status: {answer.status} {body[:300]!r}")

            yield call

    def turn(self, kind: str, n: int) -> Figures:
        """Make `n` calls by one caller, and as many by all of them."""
        opened = self.grpc if kind == "grpc" else self.rest
        with ExitStack() as running:
            calls = [running.enter_context(opened()) for _ in range(CALLERS)]
            for call in calls:
                call()
            began = self.masters.cpu_s()
            one = took(calls[0], n)
            cpu_s = (self.masters.cpu_s() - began) / n
            with futures.ThreadPoolExecutor(CALLERS) as pool:
                many = [s for part in pool.map(lambda call: took(call, n // CALLERS), calls) for s in part]
        return Figures(one_s=one, many_s=many, cpu_s=cpu_s)


def took(call: Call, n: int) -> list[float]:
    found = []
    for _ in range(n):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return found


def measure(report: Report, callers: dict[str, Caller], n: int, rounds: int) -> None:
    """Report each caller by itself; they take turns, each round in the other direction."""
    for kind in ("grpc", "rest"):
        found: dict[str, list[Figures]] = {name: [] for name in callers}
        for number in range(rounds):
            for name in list(callers)[:: 1 if number % 2 == 0 else -1]:
                found[name].append(callers[name].turn(kind, n))
        for name, turns in found.items():
            for title, rows in (("", [t.one_s for t in turns]), ("16_", [t.many_s for t in turns])):
                every = sorted(s for row in rows for s in row)
                report.add(f"access_{kind}_{name}_{title}p50", every[len(every) // 2], "s", len(every))
                report.add(f"access_{kind}_{name}_{title}p99", every[len(every) * 99 // 100], "s", len(every))
            report.add(f"access_{kind}_{name}_cpu", statistics.median(t.cpu_s for t in turns), "s/call", n * rounds)


def compare(report: Report, pairs: dict[str, tuple[Caller, Caller]], n: int, rounds: int) -> None:
    """Report the medians over the rounds of this checkout's figures, in parts of the other's of the same round."""
    for kind in ("grpc", "rest"):
        for name, pair in pairs.items():
            ratios: dict[str, list[float]] = {"p50": [], "16_p50": [], "cpu": []}
            for number in range(rounds):
                order = (0, 1) if number % 2 == 0 else (1, 0)
                turns = {side: pair[side].turn(kind, n) for side in order}
                ratios["p50"].append(statistics.median(turns[0].one_s) / statistics.median(turns[1].one_s))
                ratios["16_p50"].append(statistics.median(turns[0].many_s) / statistics.median(turns[1].many_s))
                ratios["cpu"].append(turns[0].cpu_s / turns[1].cpu_s)
            for figure, values in ratios.items():
                title = f"access_paired_{kind}_{name}_{figure}"
                report.add(title, statistics.median(values), "of the other", rounds)
                print(f"    each round: {' '.join(f'{value:.3f}' for value in values)}")


def token_of(masters: Masters) -> str:
    with masters.channel("ann") as channel:
        request = access_pb2.CreateTokenRequest(
            name="measured", role=types_pb2.ACCESS_ROLE_VIEWER, lasts_ms=HOUR_S * 1000
        )
        return str(access_pb2_grpc.AccessServiceStub(channel).CreateToken(request, timeout=TIMEOUT_S).secret)


def main() -> None:
    arguments = sys.argv[1:]
    other: Path | None = None
    if "--other" in arguments:
        at = arguments.index("--other")
        if at + 1 == len(arguments):
            raise SystemExit("--other needs the folder of another checkout")
        other = Path(arguments[at + 1]).resolve() / ".venv/bin"
        del arguments[at : at + 2]
        if not (other / "gosched-master").exists():
            raise SystemExit(f"there is no {other / 'gosched-master'}: make its .venv first")
    report = Report(arguments)
    n, rounds = (32, 2) if report.smoke else (800, 6)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running, issuer() as login:
        home = Path(folder)
        secured = Masters(running, HERE, home / "secured", Authority(home / "ca"), login)
        plain = Masters(running, HERE, home / "plain", None)
        now = int(time.time())
        callers = {
            "plain": Caller(masters=plain, user=""),
            "certificate": Caller(masters=secured, user="ann"),
            "token": Caller(masters=secured, user="", token=token_of(secured)),
            "jwt": Caller(masters=secured, user="", token=login.token(iat=now, exp=now + HOUR_S)),
        }
        clusters = [secured, plain]
        if other is None:
            measure(report, callers, n, rounds)
        else:
            secured_there = Masters(running, other, home / "other-secured", Authority(home / "other-ca"))
            plain_there = Masters(running, other, home / "other-plain", None)
            clusters += [secured_there, plain_there]
            pairs = {
                "plain": (callers["plain"], Caller(masters=plain_there, user="")),
                "certificate": (callers["certificate"], Caller(masters=secured_there, user="ann")),
            }
            compare(report, pairs, n, rounds)
        moved = [one for one in clusters if one.led_by() != one.leader]
        if moved:
            raise SystemExit("another master leads than at the start: the figures are not those of a leader")


if __name__ == "__main__":
    main()
