"""A job that failed twice and won the third time, and where its three logs are: on its node, over a restart of the
agent, and in the archive once the node is gone: a shared directory, and a bucket of a real S3 server."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.cli.local_program import Program
from gosched.client import NotFound
from gosched.wire.v1 import scheduler_pb2, scheduler_pb2_grpc

from .s3_server import credentials, s3_server
from .support import PATIENCE_S, goschedctl, until

JOB = """
name: thrice
count: 2
resources: {cpu: 100m, memory: 1Mi}
gang: {on_member_failure: restart_gang}
retry: {max: 3, backoff: 100ms, when: [failed]}
run: |
  echo "task $GOSCHED_TASK_INDEX attempt $GOSCHED_ATTEMPT"
  echo "stderr of attempt $GOSCHED_ATTEMPT" >&2
  touch "FOLDER/$GOSCHED_ATTEMPT.$GOSCHED_TASK_INDEX"
  until [ -e "FOLDER/$GOSCHED_ATTEMPT.0" -a -e "FOLDER/$GOSCHED_ATTEMPT.1" ]; do sleep 0.05; done
  test "$GOSCHED_ATTEMPT" -eq 3
"""  # a gang's other task is stopped once one has failed: both have written before
LEASE = {"lease": {"heartbeat": "200ms", "node_timeout": "2s", "first_lease": "3s"}}


@contextlib.contextmanager
def archive_at(kind: str, folder: Path) -> Iterator[dict[str, str]]:
    if kind == "directory":
        (folder / "shared").mkdir()
        yield {"url": f"file://{folder}/shared"}
        return
    with s3_server(folder / "s3", "logs") as endpoint:
        file = credentials(folder / "credentials")
        yield {"url": "s3://logs/of/tasks", "endpoint": endpoint, "credentials_file": str(file)}


def lines(output: str) -> list[str]:
    """Without the task's name, which stands before each of several tasks' lines."""
    return sorted(line.partition(" | ")[2] for line in output.splitlines())


def check_all_attempts(endpoints: str) -> None:
    for number in (1, 2, 3):
        done = goschedctl(endpoints, "logs", "thrice", "--attempt", str(number))
        assert done.returncode == 0, done.stderr
        assert lines(done.stdout) == [f"task {task} attempt {number}" for task in (0, 1)]
        assert lines(done.stderr) == [f"stderr of attempt {number}"] * 2
    before = goschedctl(endpoints, "logs", "thrice", "--previous", "--task", "task/1")
    assert (before.returncode, before.stdout) == (0, "task 1 attempt 2\n"), before.stderr
    newest = goschedctl(endpoints, "logs", "thrice", "--task", "task/0")
    assert (newest.returncode, newest.stdout) == (0, "task 0 attempt 3\n")
    of_one = ("logs", "thrice", "--attempt", "1", "--task", "1")
    timed = goschedctl(endpoints, *of_one, "--timestamps", "--since", "1h", "--tail", "1")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z task 1 attempt 1\n", timed.stdout), timed
    assert goschedctl(endpoints, *of_one, "--tail", "0").stdout == ""
    none = goschedctl(endpoints, "logs", "thrice", "--attempt", "4")
    assert (none.returncode, none.stdout) == (1, "")
    assert "job thrice has had 3 attempts: there is no attempt 4" in none.stderr


def node_states(endpoints: str) -> dict[str, str]:
    found = json.loads(goschedctl(endpoints, "node", "list", "-o", "json").stdout)
    return {node["id"]: node["state"] for node in found}


@pytest.mark.parametrize("kind", ["directory", "s3"])
def test_the_logs_of_three_attempts_outlive_the_agent_and_the_node(kind: str, tmp_path: Path) -> None:
    with archive_at(kind, tmp_path) as archive:
        settings = {"heartbeat": "200ms", "keep_finished": "200ms", "archive": archive}
        shape = AgentShape(settings=settings)
        with LocalCluster(
            masters=3 if kind == "s3" else 1, agents=[shape], settings={**LEASE, "archive": archive}
        ) as c:
            run_thrice(c, tmp_path)
            check_all_attempts(c.endpoints)
            agent = c.agents["agent-1"]
            tasks = c.data_dir / "agent-1" / "tasks"
            until(lambda: not any(tasks.iterdir()), "the tasks' directories go")
            agent.kill()
            c.restart(agent)
            until_it_serves(agent)
            check_all_attempts(c.endpoints)
            until(lambda: is_archived(c, 6), "all logs are in the archive")
            agent.kill()
            until(lambda: node_states(c.endpoints) == {"agent-1": "DEAD"}, "the node is dead")
            check_all_attempts(c.endpoints)
            removed = goschedctl(c.endpoints, "node", "remove", "agent-1")
            assert removed.returncode == 0, removed.stderr
            check_all_attempts(c.endpoints)
            if kind == "directory":
                lose(tmp_path / "shared")
                check_that_all_is_said(c)


def until_it_serves(agent: Program) -> None:
    """Masters count on a node for a lease: its agent may not be back yet while they say READY."""
    with grpc.insecure_channel(agent.grpc) as channel:
        grpc.channel_ready_future(channel).result(PATIENCE_S)


def run_thrice(cluster: LocalCluster, folder: Path) -> None:
    file = folder / "job.yaml"
    file.write_text(JOB.replace("FOLDER", str(folder)))
    done = goschedctl(cluster.endpoints, "submit", str(file), "--wait")
    assert done.returncode == 0, done.stderr


def is_archived(cluster: LocalCluster, count: int) -> bool:
    records = [json.loads(file.read_text()) for file in (cluster.data_dir / "agent-1/logs").glob("*/record.json")]
    return len(records) == count and all(record["is_archived"] for record in records)


def lose(shared: Path) -> None:
    """But for the log of one task of the first attempt."""
    for file in shared.rglob("*.gz"):
        if not file.name.startswith("0.1."):
            file.unlink()


def check_that_all_is_said(cluster: LocalCluster) -> None:
    gone = f"node {socket.gethostname()} (agent-1) is not in the cluster any more; the archive has no copy of it"
    part = goschedctl(cluster.endpoints, "logs", "thrice", "--attempt", "1")
    assert part.returncode == 1
    assert lines(part.stdout) == ["task 0 attempt 1"]
    missing = [line for line in part.stderr.splitlines() if " | " not in line]
    assert missing == [f"task/1: the log of attempt 1 is missing: {gone}"]
    with (
        cluster.client() as client,
        pytest.raises(NotFound, match="2 of 2 logs are missing: task/0: the log of attempt 3"),
    ):
        list(client.logs("thrice"))
    master = next(iter(cluster.masters.values()))
    request = scheduler_pb2.StreamJobLogsRequest(job="thrice", task="task/1")
    with grpc.insecure_channel(master.grpc) as channel:
        stub = scheduler_pb2_grpc.SchedulerServiceStub(channel)
        with pytest.raises(grpc.RpcError) as raised:
            list(stub.StreamJobLogs(request, timeout=30))
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND
    # Only the history still knows the name of a removed node; of the newest attempt it is not asked.
    assert "node agent-1 is not in the cluster any more; the archive has no copy of it" in raised.value.details()


def test_an_archive_that_cannot_be_used_stops_neither_the_agent_nor_its_tasks(tmp_path: Path) -> None:
    archive = {"url": "s3://logs", "endpoint": "http://127.0.0.1:9", "credentials_file": str(tmp_path / "not there")}
    shape = AgentShape(settings={"heartbeat": "200ms", "archive": archive})
    with LocalCluster(masters=1, agents=[shape]) as cluster:
        run_thrice(cluster, tmp_path)
        check_all_attempts(cluster.endpoints)
