"""Each mistake gets one clear line with the way out and the right exit code, and changes nothing."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.core.records.job import JobState

from .support import PATIENCE_S, goschedctl, ledger_job, until


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(masters=1, agents=[AgentShape(resources={"cpu": 4, "memory": "4Gi", "gpu": 8})]) as running:
        yield running


GOOD = "name: ok\nrun: 'true'\n"

MISTAKES = {
    "bad yaml": (b"name: [unclosed\n", r"job\.yaml:\d+"),
    "not a mapping": (b"- 1\n- 2\n", r"job\.yaml"),
    "unknown key": (b"name: a\nrun: 'true'\nrersources: {cpu: 1}\n", "resources"),
    "nothing to run": (b"name: a\n", "run"),
    "zero count": (GOOD.encode() + b"count: 0\n", "count"),
    "negative count": (GOOD.encode() + b"count: -3\n", "count"),
    "memory without a unit": (GOOD.encode() + b"resources: {memory: 12}\n", "unit"),
    "ten megabytes": (GOOD.encode() + b"env: {A: " + b"x" * 10_000_000 + b"}\n", "large|bytes|MiB|KiB"),
    "control characters in the name": (b'name: "a\\u0007b"\nrun: "true"\n', "name"),
    "not UTF-8": (b"name: \xff\xfe\nrun: x\n", "UTF-8"),
    "unknown queue": (GOOD.encode() + b"queue: nowhere\n", "nowhere"),
    "an image for a process": (GOOD.encode() + b"runtime: process\nimage: busybox\n", "image"),
    "a job that waits for itself": (GOOD.encode() + b"after: {ok: any}\n", "ok waits for ok"),
    "a job that waits for one that is not there": (GOOD.encode() + b"after: {nobody: any}\n", "nobody"),
    "a deadline that has passed": (
        GOOD.encode() + b"timeout: 1m\ndeadline: {at: 2020-01-01T00:00:00Z, on_miss: refuse}\n",
        "deadline",
    ),
    "a schedule that never comes": (GOOD.encode() + b"schedule: {cron: '0 0 30 2 *'}\n", "Bad day-of-month"),
    "an array of none": (GOOD.encode() + b"array: {range: 9-1}\n", "must ascend"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_bad_job_file_is_refused_with_one_line(cluster: LocalCluster, tmp_path: Path, mistake: str) -> None:
    text, expected = MISTAKES[mistake]
    file = tmp_path / "job.yaml"
    file.write_bytes(text)
    with cluster.client() as client:
        before = len(client.list_jobs())
        answer = goschedctl(cluster.endpoints, "submit", str(file))
        assert answer.returncode in (1, 2), answer.stderr
        assert answer.stdout == ""
        assert len(answer.stderr.strip().splitlines()) == 1, answer.stderr
        assert len(answer.stderr) < 600
        assert re.search(expected, answer.stderr), answer.stderr
        assert len(client.list_jobs()) == before


def test_a_duplicate_name_with_another_spec_is_refused_and_with_the_same_spec_is_the_same_job(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(ledger_job("twin", tmp_path / "ledger", then="sleep 600"))
    first = goschedctl(cluster.endpoints, "submit", "-o", "name", str(file))
    again = goschedctl(cluster.endpoints, "submit", "-o", "name", str(file))
    assert first.returncode == again.returncode == 0
    assert first.stdout == again.stdout
    file.write_text(ledger_job("twin", tmp_path / "ledger", then="sleep 601"))
    other = goschedctl(cluster.endpoints, "submit", str(file))
    assert other.returncode == 1
    assert "another name" in other.stderr or "cancel" in other.stderr
    with cluster.client() as client:
        client.cancel("twin")
        assert client.wait("twin", timeout=PATIENCE_S).state is JobState.CANCELLED


def test_a_request_that_nothing_can_hold_is_accepted_with_a_warning_and_waits_with_that_reason(
    cluster: LocalCluster,
) -> None:
    answer = goschedctl(cluster.endpoints, "submit", "--name", "nine", "--gpu", "9", "--", "true")
    assert answer.returncode == 0
    assert "9 GPUs on one node; the largest has 8" in answer.stderr
    with cluster.client() as client:
        until(lambda: client.get_job("nine").waiting_for is not None, "the reason is known")
        waiting = client.get_job("nine").waiting_for
        assert waiting is not None
        assert "9 GPUs" in waiting[1]
        client.cancel("nine")


def test_a_command_that_does_not_exist_fails_with_its_reason(cluster: LocalCluster) -> None:
    answer = goschedctl(cluster.endpoints, "submit", "--name", "nope", "--wait", "--", "/no/such/program")
    assert answer.returncode == 127
    with cluster.client() as client:
        job = client.get_job("nope")
        assert job.state is JobState.FAILED
        assert job.tasks[0].reason == "COMMAND_NOT_FOUND"
        assert "/no/such/program" in job.tasks[0].detail


def _run(program: str, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name(program)), *words],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def _one_line(answer: subprocess.CompletedProcess[str], code: int, expected: str) -> None:
    assert answer.returncode == code, answer.stderr
    last = answer.stderr.strip().splitlines()[-1]
    assert re.search(expected, last), answer.stderr
    assert "Traceback" not in answer.stderr


def test_an_agent_whose_clock_is_an_hour_off_says_so_and_waits(cluster: LocalCluster, open_path: Path) -> None:
    (open_path / "sitecustomize.py").write_text(
        "import time\nreal, real_ns = time.time, time.time_ns\n"
        "time.time = lambda: real() + 3600\ntime.time_ns = lambda: real_ns() + 3600 * 10**9\n"
    )
    master = cluster.endpoints
    log = open_path / "late.log"
    command = [str(Path(sys.executable).with_name("gosched-agent")), f"--master={master}"]
    with log.open("wb") as stderr, cluster.client() as client:
        agent = subprocess.Popen(
            [*command, f"--data-dir={open_path / 'late'}"],
            env={**os.environ, "PYTHONPATH": str(open_path)},
            stderr=stderr,
        )
        try:
            until(lambda: " s ahead of the masters'" in log.read_text() or agent.poll() is not None, "it says so")
            time.sleep(2)  # it asks several times
            assert agent.poll() is None
            assert log.read_text().count(" s ahead of the masters'") == 1
            assert len(client.list_nodes()) == 1
        finally:
            agent.terminate()
            agent.wait(PATIENCE_S)


def test_an_agent_id_used_twice_at_once_is_refused_and_the_first_agent_goes_on(
    cluster: LocalCluster, open_path: Path
) -> None:
    copied = open_path / "copied"
    copied.mkdir()
    shutil.copy(cluster.data_dir / "agent-1" / "node_id", copied / "node_id")
    answer = _run("gosched-agent", f"--master={cluster.endpoints}", f"--data-dir={copied}")
    _one_line(answer, 1, "in use")
    assert cluster.agents["agent-1"].is_alive
    with cluster.client() as client:
        assert client.get_status().nodes_ready == 1


def test_two_agents_on_one_data_directory_and_a_port_in_use_and_an_unwritable_directory(
    cluster: LocalCluster, open_path: Path
) -> None:
    home = cluster.data_dir / "agent-1"
    _one_line(_run("gosched-agent", f"--master={cluster.endpoints}", f"--data-dir={home}"), 2, str(home))
    blocked = open_path / "file"
    blocked.write_text("")
    for program, flags in (("gosched-agent", [f"--master={cluster.endpoints}"]), ("gosched-master", [])):
        _one_line(_run(program, *flags, f"--data-dir={blocked / 'below'}"), 2, "below")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for flag in ("--grpc-addr", "--http-addr"):
            other = "--http-addr" if flag == "--grpc-addr" else "--grpc-addr"
            words = [f"{flag}=127.0.0.1:{port}", f"{other}=127.0.0.1:0", f"--data-dir={open_path / 'master'}"]
            _one_line(_run("gosched-master", *words), 2, str(port))
        words = [f"--grpc-addr=127.0.0.1:{port}", f"--data-dir={open_path / 'agent'}"]
        _one_line(_run("gosched-agent", f"--master={cluster.endpoints}", *words), 2, str(port))


def test_bad_flags_and_configs_end_with_2_and_name_the_place(tmp_path: Path) -> None:
    config = tmp_path / "gosched.yaml"
    config.write_text("server:\n  grpc_adr: ':9090'\n")
    _one_line(_run("gosched-master", f"--config={config}"), 2, r"gosched\.yaml:2.*grpc_adr.*grpc_addr")
    _one_line(_run("gosched-master", "--grpc-addr=0.0.0.0:9090", f"--data-dir={tmp_path}"), 2, "insecure")
    assert _run("gosched-master", "--no-such-flag").returncode == 2
    assert goschedctl("127.0.0.1:1", "submit", "--count", "0", "--", "true").returncode == 2
