"""Whole local clusters of real processes, as a user runs them."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import psutil
import pytest

from gosched import GoSchedClient
from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.wire.shared_token import LINK, SharedToken
from gosched.wire.v1 import (
    node_pb2,
    node_pb2_grpc,
    scheduler_pb2,
    scheduler_pb2_grpc,
    worker_pb2,
    worker_pb2_grpc,
)

CTL = [sys.executable, "-m", "gosched.cli.main"]


@pytest.fixture
def scratch(tmp_path, monkeypatch) -> Path:
    """Where temporary directories of clusters appear."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp"


def processes_in(folder: Path) -> list[list[str]]:
    """The command lines of what works in the folder or names it there, this test's own process aside."""
    found = []
    for process in psutil.process_iter():
        try:
            place, words = process.cwd(), process.cmdline()
        except (psutil.Error, OSError):  # OSError: it stands deeper than a path can name
            continue
        if process.pid != os.getpid() and any(str(folder) in word for word in [place, *words]):
            found.append(words)
    return found


def interrupted_run(env: dict[str, str]) -> int:
    """The exit code of a `run` that gets SIGINT once its task has written a line."""
    words = [*CTL, "run", "--name", "forever", "--", "sh", "-c", "echo started; sleep 1000"]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "started\n"
        run.send_signal(signal.SIGINT)
        return run.wait(60)


def check_closed_to_others(cluster, home, token):
    """Who does not show the token runs nothing and learns nothing, at whichever port; its owner's browser logs in once
    by the link."""
    left = home / "left"
    job = f"name: intruder\nrun: touch {left}\n"
    master, agent = cluster["masters"][0], cluster["agents"][0]
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(f"http://{master['http']}/api/v1/jobs", job.encode()))
    refused.value.close()
    assert refused.value.code == 401
    order = worker_pb2.TaskOrder(allocation_id="j/main/0.1", command=["touch", str(left)], runtime=1)
    start = worker_pb2.StartTasksRequest(epoch=1, node_id=agent["id"], orders=[order])
    with grpc.insecure_channel(master["grpc"]) as to_master, grpc.insecure_channel(agent["grpc"]) as to_agent:
        worker = worker_pb2_grpc.WorkerServiceStub(to_agent)
        scheduler = scheduler_pb2_grpc.SchedulerServiceStub(to_master)
        for call in (
            lambda: scheduler.GetClusterStatus(scheduler_pb2.GetClusterStatusRequest()),
            lambda: scheduler.SubmitJob(scheduler_pb2.SubmitJobRequest()),
            lambda: list(scheduler.WatchJob(scheduler_pb2.GetJobRequest())),
            lambda: list(scheduler.StreamJobLogs(scheduler_pb2.StreamJobLogsRequest())),
            lambda: list(scheduler.ExecTask(iter([scheduler_pb2.ExecRequest()]))),
            lambda: node_pb2_grpc.NodeServiceStub(to_master).RegisterNode(node_pb2.RegisterNodeRequest()),
            lambda: worker.GetIdentity(worker_pb2.GetIdentityRequest()),
            lambda: worker.StartTasks(start),
            lambda: worker.StopTasks(worker_pb2.StopTasksRequest()),
            lambda: list(worker.StreamLogs(worker_pb2.StreamLogsRequest())),
            lambda: list(worker.Exec(iter([scheduler_pb2.ExecRequest()]))),
        ):
            with pytest.raises(grpc.RpcError) as error:
                call()
            assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED, error.value
    assert not left.exists()
    for private in ("token", "master-1.log", "agent-1.log"):
        assert stat.S_IMODE((home / private).stat().st_mode) == 0o600
    shown = {"Authorization": f"Bearer {token}"}
    url = f"http://{master['http']}"
    with urllib.request.urlopen(urllib.request.Request(f"{url}/api/v1/status", headers=shown)) as answer:
        assert answer.status == 200
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    link = f"{url}/login?code={SharedToken(token).proof(LINK)}"
    with browser.open(urllib.request.Request(link, headers={"Accept": "text/html"})) as page:
        assert (page.status, page.url) == (200, f"{url}/")
    with pytest.raises(urllib.error.HTTPError) as spent:
        urllib.request.urlopen(link)
    spent.value.close()
    assert spent.value.code == 401
    with GoSchedClient(url) as client:  # who has the account finds the token
        assert client.get_status().leader == master["id"]


def test_local_up_serves_until_sigterm_and_leaves_no_process_not_even_tasks_of_killed_agents(tmp_path):
    home = tmp_path / "cluster"
    command = [*CTL, "local", "up", "--masters", "1", "--agents", "2", "--data-dir", str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as up:
        try:
            line = up.stdout.readline()  # the pipe ends with the process, so this ends too
            assert line.startswith("export GOSCHED_ENDPOINTS=127.0.0.1:"), up.stderr.read()
            env = {**os.environ, "GOSCHED_ENDPOINTS": line.strip().partition("=")[2]}
            cluster = json.loads((home / "cluster.json").read_text())
            assert [m["id"] for m in cluster["masters"]] == ["master-1"]
            assert all(psutil.pid_exists(program["pid"]) for program in [*cluster["masters"], *cluster["agents"]])
            token = up.stdout.readline().strip().removeprefix("export GOSCHED_TOKEN=")
            check_closed_to_others(cluster, home, token)

            def ctl(*args: str) -> subprocess.CompletedProcess[str]:
                return subprocess.run([*CTL, *args], env=env, capture_output=True, text=True, timeout=60, check=False)

            assert ctl("node", "list", "-o", "name").stdout.split() == ["agent-1", "agent-2"]
            assert ctl("run", "--name", "hello", "--", "sh", "-c", "echo out; echo err >&2; exit 3").returncode == 3
            assert ctl("logs", "hello").stdout == "out\n"
            assert "err" in ctl("logs", "hello").stderr
            assert interrupted_run(env) == 130
            assert ctl("job", "wait", "forever").returncode == 1
            assert json.loads(ctl("job", "show", "forever", "-o", "json").stdout)["state"] == "CANCELLED"
            submitted = ctl("submit", "--name", "long", "--count", "4", "--", "sleep", "1000")
            assert submitted.returncode == 0, submitted.stderr
            ends = time.monotonic() + 60
            while json.loads(ctl("job", "show", "long", "-o", "json").stdout)["running"] < 4:
                assert time.monotonic() < ends, ctl("job", "show", "long").stdout
            for agent in cluster["agents"]:
                os.kill(agent["pid"], signal.SIGKILL)
            assert [words for words in processes_in(home) if "sleep" in words] == [["sleep", "1000"]] * 4
        finally:
            up.send_signal(signal.SIGTERM)
            up.communicate(timeout=60)
    assert up.returncode == 0
    assert processes_in(home) == []


@pytest.mark.parametrize(
    ("run", "code"), [("echo done", 0), ("exit 7", 7), ("kill -9 $$", 137), ("/no/such/program", 127)]
)
def test_local_run_returns_the_code_of_the_job_and_leaves_nothing(scratch, tmp_path, run, code):
    job = tmp_path / "job.yaml"
    job.write_text(f"name: a\nrun: {run}\nretry: {{max: 0}}\n")
    done = subprocess.run(
        [*CTL, "local", "run", str(job), "--masters", "1", "--agents", "1"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stdout == ("done\n" if code == 0 else "")
    assert processes_in(scratch) == []
    assert list(scratch.iterdir()) == []


DEEP = """
import os, time
for _ in range(30):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
print("deep", flush=True)
time.sleep(600)
"""


def test_a_cluster_ends_beside_a_process_that_stands_deeper_than_a_path_can_name(tmp_path):
    words = [sys.executable, "-c", DEEP]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as stranger:
        try:
            assert stranger.stdout.readline() == "deep\n"
            with pytest.raises(OSError, match="too long"):
                psutil.Process(stranger.pid).cwd()
            with LocalCluster(tmp_path / "data", masters=1, agents=[AgentShape(resources={"cpu": 1})]):
                pass
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_local_up_that_cannot_start_says_why_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [*CTL, "local", "up", "--data-dir", str(tmp_path / "file" / "x")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("goschedctl: cannot use the data directory")
    assert done.stderr.count("\n") == 1
