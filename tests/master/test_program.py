"""The program itself: a real process with its real replica."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gosched.health import ask
from tests.ports import HeldPort
from tests.replication.certificates import Authority

LIMIT_S = 60
LOOPBACK = ("--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gosched.master.main", *arguments]


def refusal(*arguments: str) -> tuple[int, str]:
    """Exit code and the only line."""
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return done.returncode, lines[0]


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The process and where it listens: gRPC, HTTP."""
    with subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.fullmatch(r"gosched-master \S+ ready: gRPC (\S+), HTTP (\S+)\n", process.stdout.readline())
            assert found
            yield process, found[1], found[2]
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=LIMIT_S)


def test_it_says_once_that_it_is_ready_and_sigterm_ends_it_with_0(tmp_path: Path) -> None:
    with running(*LOOPBACK, "--data-dir", str(tmp_path)) as (process, _, http):
        with urllib.request.urlopen(f"http://{http}/api/v1/status", timeout=LIMIT_S) as answer:
            assert json.load(answer)["masters"][0]["id"] == "master-1"
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0


def test_it_comes_back_with_its_state_after_kill_9(tmp_path: Path) -> None:
    revisions = []
    for _ in range(2):
        with running(*LOOPBACK, "--data-dir", str(tmp_path)) as (process, _, http):
            while True:
                with urllib.request.urlopen(f"http://{http}/api/v1/status", timeout=LIMIT_S) as answer:
                    found = json.load(answer)
                if found["epoch"] > len(revisions):
                    break
            revisions.append(found["revision"])
            process.kill()
            process.wait(LIMIT_S)
    assert revisions[1] > revisions[0] > 0


def test_a_port_in_use_ends_it_with_2_and_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, line = refusal("--grpc-addr", address, "--http-addr", "127.0.0.1:0", "--data-dir", str(tmp_path))
        assert (code, line) == (
            2,
            f"gosched-master: server.grpc_addr: cannot listen on {address}: Address already in use",
        )
        code, line = refusal("--grpc-addr", "127.0.0.1:0", "--http-addr", address, "--data-dir", str(tmp_path))
        assert (code, line) == (
            2,
            f"gosched-master: server.http_addr: cannot listen on {address}: Address already in use",
        )


def test_an_address_open_to_the_network_without_tls_is_refused(tmp_path: Path) -> None:
    code, line = refusal("--grpc-addr", "0.0.0.0:0", "--http-addr", "127.0.0.1:0", "--data-dir", str(tmp_path))
    assert code == 2
    assert "--insecure" in line


def test_a_bad_config_file_ends_it_with_2_and_says_where(tmp_path: Path) -> None:
    config = tmp_path / "gosched.yaml"
    config.write_text("server:\n  grpc_adr: :1\n")
    code, line = refusal("--config", str(config), "--data-dir", str(tmp_path / "data"))
    assert code == 2
    assert f"{config}:2" in line
    assert "grpc_addr" in line


def test_a_data_dir_that_cannot_be_written_ends_it_with_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, line = refusal(*LOOPBACK, "--data-dir", str(tmp_path / "file" / "data"))
    assert (code, line) == (
        2,
        f"gosched-master: data_dir: cannot write in {tmp_path}/file/data: Not a directory",
    )


def test_a_damaged_log_ends_it_with_2_and_says_what_to_do(tmp_path: Path) -> None:
    with running(*LOOPBACK, "--data-dir", str(tmp_path)) as (process, _, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    (tmp_path / "raft" / "identity.json").write_text("not json")
    code, line = refusal(*LOOPBACK, "--data-dir", str(tmp_path))
    assert code == 2
    assert "identity.json" in line


def test_a_data_directory_is_restored_from_another_ones_copy_and_only_into_an_empty_one(tmp_path: Path) -> None:
    kept, new = tmp_path / "kept", tmp_path / "new"
    with running(*LOOPBACK, "--data-dir", str(kept)) as (process, _, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    restore = (*LOOPBACK, "--data-dir", str(new), "--restore-from", str(kept))
    code, line = refusal(*restore)
    assert code == 2
    assert "What a majority had acknowledged after that is lost for good. Say that you know it: --yes-i-lost" in line
    assert not new.joinpath("raft").exists()
    code, other = refusal(*restore, "--yes-i-lost", "some of it")
    assert (code, other) == (2, line)
    words = ("--yes-i-lost", line.split('"')[1])
    assert words[1].startswith("what came after revision ")
    code, line = refusal(*restore, *words)
    assert (code, "holds the log of" in line) == (0, True), line
    with running(*LOOPBACK, "--data-dir", str(new)):
        pass
    code, line = refusal(*restore, *words)
    assert (code, "is not empty: move it away first" in line) == (2, True), line


def test_sighup_takes_over_the_queues_of_a_config_that_can_be_read_and_no_other(tmp_path: Path) -> None:
    config = tmp_path / "gosched.yaml"
    config.write_text("queues: [{name: a}]\n")
    with running(*LOOPBACK, "--config", str(config), "--data-dir", str(tmp_path / "data")) as (process, _, http):
        assert queues_until(http, lambda names: names == ["a", "default"])
        config.write_text("queues: [{name: a}, {nme: b}]\n")
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        line = next(line for line in process.stderr if "config" in line)
        assert "changes nothing" in line
        assert f"{config}:1" in line
        config.write_text("queues: [{name: a}, {name: b}]\n")
        process.send_signal(signal.SIGHUP)
        assert queues_until(http, lambda names: names == ["a", "b", "default"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0


def test_an_unknown_plugin_ends_it_with_2_and_one_line(tmp_path: Path) -> None:
    config = tmp_path / "gosched.yaml"
    config.write_text("plugins: [{name: nobody-has-this}]\n")
    code, line = refusal(*LOOPBACK, "--config", str(config), "--data-dir", str(tmp_path / "data"))
    assert code == 2
    assert "nobody-has-this" in line


def queues_until(http: str, met: Callable[[list[str]], bool]) -> bool:
    """Asks again until the names of the queues are as wanted."""
    ends = time.monotonic() + LIMIT_S
    while time.monotonic() < ends:
        with urllib.request.urlopen(f"http://{http}/api/v1/status", timeout=LIMIT_S) as answer:
            names = [queue["name"] for queue in json.load(answer)["queues"]]
        if met(names):
            return True
        time.sleep(0.02)
    return False


def test_probes_tell_a_master_that_is_ready_from_one_that_only_lives(tmp_path: Path) -> None:
    alone, without_quorum = HeldPort(), HeldPort()
    with running(*LOOPBACK, "--data-dir", str(tmp_path / "a"), "--health-addr", alone.address):
        ends = time.monotonic() + LIMIT_S
        while ask(alone.address, "ready"):
            assert time.monotonic() < ends
        assert ask(alone.address, "") == ""
    peers = ("--peers", "m2=127.0.0.1:1,m3=127.0.0.1:2", "--raft-bind-addr", "127.0.0.1:0")
    with running(*LOOPBACK, *peers, "--data-dir", str(tmp_path / "b"), "--health-addr", without_quorum.address):
        assert ask(without_quorum.address, "") == ""
        assert ask(without_quorum.address, "ready") == "ready is NOT_SERVING"


def test_the_data_directory_is_closed_to_other_users_and_so_is_all_that_is_made_in_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o777)
    with running(*LOOPBACK, "--data-dir", str(data)):
        paths = [data, *data.rglob("*")]
        assert any(path.suffix == ".db" for path in paths), paths
        assert [path for path in paths if path.stat().st_mode & 0o077] == []


def test_a_key_that_others_can_read_ends_it_with_2_and_the_command_that_helps(tmp_path: Path) -> None:
    files = Authority(tmp_path / "ca").files("master-1")
    Path(files.key).chmod(0o644)
    tls = ("--tls-cert", files.cert, "--tls-key", files.key, "--tls-ca", files.ca)
    code, line = refusal(*LOOPBACK, *tls, "--data-dir", str(tmp_path / "data"))
    assert code == 2
    assert line.endswith(f"chmod 600 {files.key}")


def test_a_port_beyond_loopback_needs_tls_or_insecure_and_the_start_with_it_says_so_once(tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    code, line = refusal(*LOOPBACK, "--raft-bind-addr", "0.0.0.0:0", "--peers", "m2=127.0.0.1:1", *data)
    assert code == 2
    assert "is not loopback and there is no TLS" in line
    everywhere = ("--grpc-addr", "0.0.0.0:0", "--http-addr", "0.0.0.0:0")
    with running(*everywhere, *data, "--insecure") as (process, _, _):
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=LIMIT_S)
    (line,) = [line for line in said.splitlines() if "--insecure" in line]
    assert json.loads(line)["level"] == "warning"
    assert "server.grpc_addr 0.0.0.0:0, server.http_addr 0.0.0.0:0" in line
