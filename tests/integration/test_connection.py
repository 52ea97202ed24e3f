"""What programs say when they cannot connect: mistakes in TLS on both sides, and masters without a quorum. Real
masters, agents and commands, with certificates of `goschedctl cert`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from gosched.cli.local_cluster import LocalCluster
from gosched.cli.local_program import own_environment
from tests.ports import HeldPort
from tests.wire.tls import TlsPaths, authority, issued, out_of_date

from .support import PATIENCE_S, until

BIN = Path(sys.executable).parent


def flags(files: TlsPaths | None) -> list[str]:
    return ["--tls-cert", files.cert, "--tls-key", files.key, "--tls-ca", files.ca] if files else []


def ctl(address: str, files: TlsPaths | None, *words: str) -> subprocess.CompletedProcess[str]:
    tls = (
        {} if files is None else {f"GOSCHED_TLS_{part.upper()}": getattr(files, part) for part in ("cert", "key", "ca")}
    )
    return subprocess.run(
        [str(BIN / "goschedctl"), "--endpoints", address, *words],
        env={**os.environ, **tls},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@contextmanager
def running(program: str, log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(BIN / program), *words]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, env=own_environment()) as process:
        try:
            yield process
        finally:
            process.terminate()


def records(log: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


def agent_words(home: Path) -> list[str]:
    """Return flags of an agent whose tasks run as its own user, who can pass through the directories of tests."""
    config = home.with_suffix(".yaml")
    config.write_text("users: {own: true}\n")
    return ["--config", str(config), "--data-dir", str(home)]


class Secured:
    """A master with TLS."""

    def __init__(self, folder: Path, started: ExitStack) -> None:
        self.folder = authority(folder / "ca")
        self.files = issued(self.folder, "master", "master-1", "localhost", "127.0.0.1")
        self.grpc, http = HeldPort(), HeldPort()
        self.address = f"localhost:{self.grpc.address.rpartition(':')[2]}"
        self.log = folder / "master.log"
        words = ["--grpc-addr", self.grpc.address, "--http-addr", http.address, "--data-dir", str(folder / "master")]
        words += ["--admins", "alice,anna"]
        started.enter_context(running("gosched-master", self.log, *words, *flags(self.files)))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with ExitStack() as started:
        one = Secured(tmp_path_factory.mktemp("secured"), started)
        alice = issued(one.folder, "client", "alice")
        until(lambda: ctl(one.address, alice, "status").returncode == 0, "the master answers")
        yield one


def handshakes(log: Path) -> set[str]:
    """Return why TLS handshakes failed, as a master's log says."""
    return {record["why"] for record in records(log) if record["event"] == "a TLS handshake failed"}


def test_a_command_names_the_mistake_in_one_line_and_the_master_too(secured: Secured, tmp_path: Path) -> None:
    alice, bob = issued(secured.folder, "client", "anna"), issued(secured.folder, "client", "bob")
    mallory = issued(authority(tmp_path / "other"), "client", "mallory")
    old = out_of_date(secured.folder, alice, begins_in_days=-9, ends_in_days=-2)
    mixed = TlsPaths(cert=mallory.cert, key=mallory.key, ca=alice.ca)
    cases: list[tuple[TlsPaths | None, int, str]] = [
        (None, 5, f"{secured.address}: it takes TLS alone, and this program has no certificate"),
        (mallory, 5, f"{secured.address}: its certificate "),
        (mixed, 2, f"the certificate {mallory.cert} "),
        (TlsPaths(cert=alice.cert, key=bob.key, ca=alice.ca), 2, f"{bob.key} is not the key of the certificate"),
        (old, 2, f"the certificate {old.cert} expired at 20"),
    ]
    for files, code, words in cases:
        done = ctl(secured.address, files, "status")
        assert (done.returncode, done.stderr.count("\n")) == (code, 1), done.stderr
        assert words in done.stderr
    renamed = ctl(secured.address.replace("localhost", "127.0.0.2"), alice, "status")
    assert "connection refused" in renamed.stderr  # it listens on 127.0.0.1 alone
    until(lambda: "the other side speaks plain text" in handshakes(secured.log), "gRPC's own line came to the log")


def test_an_agent_names_the_mistake_in_one_line(secured: Secured, tmp_path: Path) -> None:
    mallory = issued(authority(tmp_path / "other"), "agent", "*", "localhost")
    for name, files, words in (
        ("plain", None, "it takes TLS alone, and this program has no certificate"),
        ("mallory", mallory, "its certificate "),
    ):
        log = tmp_path / f"{name}.log"
        given = ["--master", secured.address, *agent_words(tmp_path / name), *flags(files)]
        with running("gosched-agent", log, *given):
            until(lambda log=log, words=words: any(words in r.get("why", "") for r in records(log)), f"{name} says why")
        (said, *_) = [record["why"] for record in records(log) if words in record.get("why", "")]
        assert "\n" not in said


@pytest.mark.parametrize("program", ["gosched-master", "gosched-agent"])
def test_a_daemon_does_not_start_with_files_that_do_not_go_together(program: str, tmp_path: Path) -> None:
    folder = authority(tmp_path / "ca")
    role = program.removeprefix("gosched-")
    mine = issued(folder, role, "master-1" if role == "master" else os.uname().nodename, "localhost")
    other = issued(folder, role, "other", "localhost")
    old = out_of_date(folder, mine, begins_in_days=-9, ends_in_days=-2)
    for files, words in (
        (TlsPaths(cert=mine.cert, key=other.key, ca=mine.ca), "is not the key of the certificate"),
        (old, "expired at 20"),
    ):
        home = tmp_path / "data"
        words_of_home = agent_words(home) if role == "agent" else ["--data-dir", str(home)]
        done = subprocess.run(
            [str(BIN / program), *words_of_home, *flags(files)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        (line,) = [line for line in done.stderr.splitlines() if words in line]
        assert (done.returncode, line.startswith(f"{program}: ")) == (2, True), done.stderr


def test_status_without_a_quorum_shows_who_answers_and_who_is_missing() -> None:
    with LocalCluster(masters=3, agents=0) as cluster:
        with cluster.client() as client:
            until(lambda: all(m.grpc_address for m in client.get_status().masters), "the state knows all masters")
        first, second, third = cluster.masters.values()
        first.kill()
        second.kill()
        # Until it has missed the others for a while, the last one may go on as the leader that it was.
        until(lambda: ctl(cluster.endpoints, None, "status").returncode == 5, "the last one knows")
        done = ctl(cluster.endpoints, None, "status", "-o", "json")
        assert done.returncode == 5, done.stderr
        shown = json.loads(done.stdout)
        assert shown["leader"] == ""
        by_id = {master["id"]: master for master in shown["masters"]}
        assert set(by_id) == {first.id, second.id, third.id}
        assert by_id[first.id]["problem"] == by_id[second.id]["problem"] == "does not answer"
        assert by_id[third.id]["last_index"] > 0
        text = ctl(cluster.endpoints, None, "status")
        assert text.returncode == 5
        assert "1 master of 3 answers" in text.stdout
