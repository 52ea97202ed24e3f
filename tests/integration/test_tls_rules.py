"""Old TLS and weak suites, tried on each port of real masters and agents, and on all that dials."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from gosched.client import targets
from gosched.client.http_endpoint import _context as http_context
from gosched.client.masters import _open
from gosched.replication.replica_config import TlsFiles
from gosched.wire.certificates import dialling_context
from gosched.wire.grpc_tls import channel_credentials
from gosched.wire.tls_watch import TlsPem
from tests.agent.conftest import wait_for
from tests.ports import HeldPort
from tests.replication.certificates import Authority

LIMIT_S = 60.0
GOOD, WEAK = "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA"
TLS_1_1, TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
pytestmark = [
    pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated"),
    pytest.mark.timeout(180),
]


def lax(kind: int, files: TlsFiles, version: ssl.TLSVersion, suite: str) -> ssl.SSLContext:
    """Return a context that speaks this version and this suite alone, however weak."""
    context = ssl.SSLContext(kind)
    context.check_hostname = False
    context.set_ciphers(f"{suite}:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    context.load_cert_chain(files.cert, files.key)
    context.load_verify_locations(files.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    return context


def takes(port: int, files: TlsFiles, version: ssl.TLSVersion, suite: str = GOOD) -> bool:
    """Return whether the port's program agrees on this version and suite."""
    context = lax(ssl.PROTOCOL_TLS_CLIENT, files, version, suite)
    with socket.create_connection(("127.0.0.1", port), LIMIT_S) as sock:
        try:
            with context.wrap_socket(sock) as secure:
                assert (secure.version() or "").replace(".", "_") == version.name
                return True
        except (ssl.SSLError, ConnectionError):
            return False


@contextlib.contextmanager
def started(program: str, *flags: str, ports: list[int]) -> Iterator[None]:
    """Run a program until its ports are open. The environment asks for a weak suite, in vain."""
    command = [str(Path(sys.executable).with_name(program)), *flags]
    env = {**os.environ, "GRPC_SSL_CIPHER_SUITES": WEAK}
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            ends = time.monotonic() + LIMIT_S
            while not all(is_open(port) for port in ports):
                assert process.poll() is None, process.stderr and process.stderr.read()
                assert time.monotonic() < ends
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.communicate(timeout=LIMIT_S)


def is_open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def tls_flags(files: TlsFiles) -> list[str]:
    return ["--tls-cert", files.cert, "--tls-key", files.key, "--tls-ca", files.ca]


def test_no_port_of_a_master_or_an_agent_takes_old_tls_or_weak_suites(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    files = authority.files("m1")
    with contextlib.ExitStack() as stack:
        ports = {name: HeldPort() for name in ("grpc", "http", "raft", "agent", "metrics")}
        at = {name: held.address for name, held in ports.items()}
        master = [f"--grpc-addr={at['grpc']}", f"--http-addr={at['http']}", f"--raft-bind-addr={at['raft']}"]
        master += ["--node-id=m1", f"--peers=m1={at['raft']}", f"--data-dir={tmp_path / 'm1'}", *tls_flags(files)]
        own = authority.files(socket.gethostname(), "agent")
        agent = [f"--master={at['grpc']}", f"--data-dir={tmp_path / 'a1'}", *tls_flags(own)]
        agent += [f"--grpc-addr={at['agent']}", f"--http-addr={at['metrics']}", "--resources=cpu=1,memory=1Gi"]
        (tmp_path / "agent.yaml").write_text("users: {own: true}\n")
        agent += ["--config", str(tmp_path / "agent.yaml")]
        numbers = {name: held.number for name, held in ports.items()}
        stack.enter_context(started("gosched-master", *master, ports=[numbers[n] for n in ("grpc", "http", "raft")]))
        stack.enter_context(started("gosched-agent", *agent, ports=[numbers[n] for n in ("agent", "metrics")]))
        for name, port in numbers.items():
            assert takes(port, files, TLS_1_3), name
            assert takes(port, files, TLS_1_2) == (name != "raft"), name
            assert not takes(port, files, TLS_1_2, WEAK), name
            assert not takes(port, files, TLS_1_2, "AES128-GCM-SHA256"), name  # no forward secrecy
            assert not takes(port, files, TLS_1_1, WEAK), name


@pytest.mark.parametrize("version", [TLS_1_1, TLS_1_2])
def test_nothing_dials_a_server_of_old_tls_or_weak_suites(tmp_path: Path, version: ssl.TLSVersion) -> None:
    files = Authority(tmp_path / "ca").files("m1")
    given = targets.TlsFiles(cert=files.cert, key=files.key, ca=files.ca)
    ca, key, cert = given.read()
    answers: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        context = lax(ssl.PROTOCOL_TLS_SERVER, files, version, f"{WEAK}:AES128-SHA")
        threading.Thread(target=serve, args=(listening, context, answers), daemon=True).start()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        for make in (lambda: dialling_context(files.cert, files.key, files.ca), lambda: http_context(given)):
            assert not connects(make, address)
        assert not is_ready(_open(address, ("127.0.0.1",), given.read(), None))
        assert not is_ready(grpc.secure_channel(address, channel_credentials(TlsPem(cert=cert, key=key, ca=ca))))
        assert connects(lambda: lax(ssl.PROTOCOL_TLS_CLIENT, files, version, WEAK), address)
        wait_for(lambda: "agreed" in answers)
    assert answers.count("agreed") == 1
    assert answers.count("refused") >= 4


def serve(listening: socket.socket, context: ssl.SSLContext, answers: list[str]) -> None:
    with contextlib.suppress(OSError):  # the test has ended
        while True:
            sock, _ = listening.accept()
            try:
                with sock, context.wrap_socket(sock, server_side=True):
                    answers.append("agreed")
            except (ssl.SSLError, ConnectionError):
                answers.append("refused")


def connects(make: Callable[[], ssl.SSLContext], address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), LIMIT_S) as sock:
        try:
            with make().wrap_socket(sock, server_hostname=host):
                return True
        except (ssl.SSLError, ConnectionError):
            return False


def is_ready(channel: grpc.Channel) -> bool:
    with channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=2)
        except grpc.FutureTimeoutError:
            return False
        return True
