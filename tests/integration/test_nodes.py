"""Nodes on a real cluster: closed, drained, unfit; jobs frozen in place; what is used is shown. One test needs root, to
mount a small disk."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.client import GoSchedClient
from gosched.core.records.job import JobState
from gosched.core.records.node import ClosedBy, NodeState

from .support import PATIENCE_S, goschedctl, ledger_job, starts, until, until_there

FAST = {"lease": {"heartbeat": "500ms"}}
TWO_CPUS = AgentShape(resources={"cpu": 2, "memory": "4Gi"})

# Ends, when it has to leave, only after it has saved itself; its next attempt says what the one before saved. It tells
# of its start not before it can be asked to save itself.
SAVER = """\
name: saver
resources: {{cpu: 1, memory: 1Mi}}
stop_grace: 60s
retry: {{max: 1, when: [preempted]}}
preemption: {{checkpoint_signal: SIGUSR1, grace: 60s}}
run: |
  trap 'echo $GOSCHED_NODE > {home}/saved; touch $GOSCHED_CHECKPOINT_FILE' USR1
  trap 'exit 0' TERM
  echo "start $GOSCHED_NODE $GOSCHED_ATTEMPT $(cat {home}/saved 2>/dev/null)" >> {home}/ledger
  while :; do sleep 0.05; done
"""
STUBBORN = """\
name: stubborn
resources: {cpu: 1, memory: 1Mi}
stop_grace: 1s
retry: {max: 0, when: []}
run: sleep 600
"""


@contextmanager
def running(home: Path, shape: AgentShape) -> Iterator[tuple[LocalCluster, GoSchedClient]]:
    """A master and an agent of that shape."""
    with (
        LocalCluster(home / "data", masters=1, agents=[shape], settings=FAST) as cluster,
        cluster.client() as client,
    ):
        yield cluster, client


def shown(cluster: LocalCluster, *words: str) -> Any:
    done = goschedctl(cluster.endpoints, *words, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def node_of(cluster: LocalCluster, job: str) -> str:
    return str(shown(cluster, "job", "show", job)["tasks"][0]["node"])


def test_a_drain_lets_jobs_save_themselves_and_move_and_stops_the_rest_at_its_deadline(tmp_path: Path) -> None:
    with running(tmp_path, TWO_CPUS) as (cluster, client):
        client.submit(SAVER.format(home=tmp_path))
        client.submit(STUBBORN)
        until(lambda: (tmp_path / "ledger").exists() and client.get_status().running == 2, "both run")
        cluster.add_agent(TWO_CPUS)
        until(lambda: client.get_status().nodes_ready == 2, "the other node is there")
        began = time.monotonic()
        drained = goschedctl(
            cluster.endpoints, "node", "drain", "agent-1", "--deadline", "10s", "--reason", "kernel", "--wait"
        )
        took_s = time.monotonic() - began
        assert drained.returncode == 0, drained.stderr
        assert "stubborn" in drained.stderr
        assert drained.stderr.splitlines()[-1] == "agent-1: empty"
        assert took_s > 9, drained.stderr
        until(lambda: node_of(cluster, "saver") == "agent-2", "the saver moved")
        until(lambda: len((tmp_path / "ledger").read_text().splitlines()) == 2, "it started again")
        assert (tmp_path / "ledger").read_text().splitlines() == ["start agent-1 1 ", "start agent-2 2 agent-1"]
        saver = client.get_job("saver").job
        assert (saver.restarts, saver.state) == (0, JobState.RUNNING)
        stubborn = client.wait("stubborn", PATIENCE_S)
        assert (stubborn.state, stubborn.job.reason) == (JobState.FAILED, "DRAINED")
        node = client.get_node("agent-1").node
        assert (node.state, node.closed_by) == (NodeState.CORDONED, ClosedBy.OPERATOR)
        assert goschedctl(cluster.endpoints, "node", "uncordon", "agent-1").returncode == 0
        assert client.get_node("agent-1").node.state is NodeState.READY


def test_a_cordoned_node_goes_on_with_its_work_and_takes_no_more(tmp_path: Path) -> None:
    with running(tmp_path, TWO_CPUS) as (cluster, client):
        ledger = tmp_path / "ledger"
        client.submit(ledger_job("first", ledger, then=until_there(tmp_path / "go")))
        until(lambda: starts(ledger), "it runs")
        assert goschedctl(cluster.endpoints, "node", "cordon", "agent-1", "--reason", "new disk").returncode == 0
        client.submit(ledger_job("second", ledger))
        (tmp_path / "go").touch()
        assert client.wait("first", PATIENCE_S).state is JobState.SUCCEEDED
        assert "new disk" in goschedctl(cluster.endpoints, "node", "show", "agent-1").stdout
        assert client.get_job("second").state is JobState.PENDING
        assert goschedctl(cluster.endpoints, "node", "uncordon", "agent-1").returncode == 0
        assert client.wait("second", PATIENCE_S).state is JobState.SUCCEEDED


def test_a_suspended_job_stands_still_and_goes_on_in_the_same_process(tmp_path: Path) -> None:
    with running(tmp_path, TWO_CPUS) as (cluster, client):
        ledger, ticks, log = tmp_path / "ledger", tmp_path / "ticks", cluster.agents["agent-1"].log
        tick = f"while :; do echo x >> {ticks}; sleep 0.05; done"
        client.submit(ledger_job("a", ledger, then=tick, cpu="2"))
        until(lambda: ticks.exists(), "it ticks")
        assert goschedctl(cluster.endpoints, "job", "suspend", "a").returncode == 0
        assert shown(cluster, "job", "show", "a")["state"] == "SUSPENDED"

        def stands_still() -> bool:
            before = ticks.stat().st_size
            time.sleep(0.5)
            return ticks.stat().st_size == before

        until(lambda: log.read_text().count("task frozen") == 1, "its agent says that it is frozen")
        until(stands_still, "it stands still")
        client.submit(ledger_job("b", ledger, cpu="1"))
        until(lambda: client.explain("b").code, "a cycle has looked at it")
        time.sleep(1.5)  # so that heartbeats compare
        assert stands_still()
        assert client.get_job("b").state is JobState.PENDING, "a keeps its resources"
        (_, _, pid) = starts(ledger)[0]
        assert psutil.pid_exists(pid)
        assert goschedctl(cluster.endpoints, "job", "resume", "a").returncode == 0
        until(lambda: not stands_still(), "it goes on")
        assert len(starts(ledger)) == 1
        assert client.get_job("a").tasks[0].attempt == 1
        assert goschedctl(cluster.endpoints, "job", "suspend", "a").returncode == 0
        until(lambda: log.read_text().count("task frozen") == 2, "it stands still again")
        client.cancel("a")
        assert client.wait("a", PATIENCE_S).state is JobState.CANCELLED, "a frozen task can be ended"
        assert not psutil.pid_exists(pid)


def test_what_is_used_is_shown_while_a_job_runs_and_kept_when_it_has_ended(tmp_path: Path) -> None:
    busy = f"until [ -e {tmp_path / 'go'} ]; do :; done"
    with running(tmp_path, TWO_CPUS) as (cluster, client):
        client.submit(f"name: busy\nresources: {{cpu: 1, memory: 64Mi}}\nrun: '{busy}'\n")

        def cpus() -> float:
            rows = shown(cluster, "top", "jobs")
            return float(rows[0]["cpu"]) if rows else 0.0

        def used_s() -> float:
            return float(shown(cluster, "job", "show", "busy")["tasks"][0]["usage"]["cpu_s"])

        until(lambda: cpus() > 0, "top shows its CPU")
        # An agent looks at its machine less often than at its tasks.
        until(lambda: shown(cluster, "top", "nodes")[0]["usage"]["cpu"] > 0.2, "so does its node")
        until(lambda: used_s() > 1, "so is what it has used up")
        (tmp_path / "go").touch()
        ended = client.wait("busy", PATIENCE_S)
        assert ended.state is JobState.SUCCEEDED
        job = shown(cluster, "job", "show", "busy")
        (task,) = ended.tasks
        assert 1 < used_s() <= (task.ended_at_ms - task.started_at_ms) / 1000 + 1, "on one CPU"
        assert job["spent"]["cpu_s"] == job["tasks"][0]["usage"]["cpu_s"]
        assert job["spent"]["memory_byte_s"] > 0
        (quota,) = shown(cluster, "quota", "list")
        assert quota["spent"] == job["spent"]
        assert shown(cluster, "top", "jobs") == []


def test_a_task_that_must_not_run_twice_has_gone_before_another_one_starts(tmp_path: Path) -> None:
    lonely = (
        "name: lonely\nresources: {cpu: 2, memory: 1Mi}\nstop_grace: 500ms\non_disconnect: stop\n"
        "retry: {max: 1, when: [node_lost]}\n"
        f"run: 'while :; do date +%s%N >> {tmp_path}/$GOSCHED_NODE; sleep 0.05; done'\n"
    )

    def ticks(node: str) -> list[int]:
        file = tmp_path / node
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    leases = {"lease": {"heartbeat": "500ms", "node_timeout": "6s", "first_lease": "8s"}}
    with (
        LocalCluster(tmp_path / "data", masters=3, agents=[TWO_CPUS], settings=leases) as cluster,
        cluster.client() as client,
    ):
        client.submit(lonely)
        until(lambda: ticks("agent-1"), "it runs")
        cluster.add_agent(TWO_CPUS)
        until(lambda: client.get_status().nodes_ready == 2, "the other node is there")
        agent = cluster.agents["agent-1"]
        agent.send(signal.SIGSTOP)  # the agent alone: its tasks and their supervisors go on
        try:
            cluster.masters[client.get_status().leader].kill()
            until(lambda: ticks("agent-2"), "it has been replaced")
            last, first = ticks("agent-1")[-1], ticks("agent-2")[0]
            assert last < first, f"both ran for {(last - first) / 1e6:.0f} ms"
        finally:
            agent.send(signal.SIGCONT)
        until(lambda: client.get_node("agent-1").node.state is NodeState.READY, "it is back")
        assert ticks("agent-1")[-1] == last
        assert client.get_job("lonely").job.attempt == 2


@contextmanager
def small_disk(at: Path) -> Iterator[None]:
    at.mkdir(mode=0o700, parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "tmpfs", str(at)], check=True, timeout=10)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True, timeout=10)


def test_a_node_whose_disk_is_full_takes_no_work_until_it_has_room(tmp_path: Path) -> None:
    shape = AgentShape(resources={"cpu": 2, "memory": "4Gi"}, settings={"disk_free_pct": 20})
    disk = tmp_path / "data" / "agent-1"
    with small_disk(disk), running(tmp_path, shape) as (cluster, client):
        (disk / "ballast").write_bytes(bytes(56 << 20))
        until(lambda: client.get_node("agent-1").node.state is NodeState.CORDONED, "it says it is unfit")
        assert client.get_node("agent-1").node.closed_by is ClosedBy.AGENT
        assert "by its own agent" in goschedctl(cluster.endpoints, "node", "show", "agent-1").stdout
        client.submit("name: a\nrun: 'true'\nresources: {memory: 1Mi}\n")
        revision = client.get_status().revision
        time.sleep(2)
        assert client.get_status().revision - revision <= 2, "heartbeats that say it again are no news"
        assert client.get_job("a").state is JobState.PENDING
        (disk / "ballast").unlink()
        assert client.wait("a", PATIENCE_S).state is JobState.SUCCEEDED
        assert client.get_node("agent-1").node.state is NodeState.READY
