"""Masters are added, removed and replaced under submissions: real daemons, and the command line of their operator."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.cli.local_program import Program
from gosched.core.records.job import JobState
from tests.integration.support import PATIENCE_S, goschedctl, kill_whole, ledger_job, starts, until

_PAUSE_S = 0.05


class Submitter:
    """Submits until it is told to end; what was acknowledged must run, and once."""

    def __init__(self, cluster: LocalCluster, ledger: Path) -> None:
        self._cluster, self._ledger = cluster, ledger
        self.acknowledged: list[str] = []
        self.problems: list[str] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._cluster.client(timeout_s=PATIENCE_S) as client:  # by the first three masters alone
            while not self._ends.is_set():
                name = f"job-{len(self.acknowledged)}"
                try:
                    job = client.submit(ledger_job(name, self._ledger, cpu="10m")).job_id
                    self.acknowledged.append(job)
                except Exception as error:
                    self.problems.append(f"{name}: {error}")
                time.sleep(_PAUSE_S)

    def end(self) -> None:
        self._ends.set()
        self._thread.join()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("members")
    agents = [AgentShape(resources={"cpu": 64, "memory": "64Gi"})]
    with LocalCluster(folder, masters=3, agents=agents, settings={"retention": {"max_jobs": 100_000}}) as made:
        yield made


def members(cluster: LocalCluster) -> dict[str, dict[str, object]]:
    shown = goschedctl(cluster.endpoints, "cluster", "members", "-o", "json")
    assert shown.returncode == 0, shown.stderr
    return {member["id"]: member for member in json.loads(shown.stdout)}


def do(cluster: LocalCluster, *words: str) -> str:
    done = goschedctl(cluster.endpoints, "cluster", *words)
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout


def remove(cluster: LocalCluster, member: str) -> Program:
    """Also of the one that leads, which hands over before."""
    assert f"{member} is removed" in do(cluster, "remove-master", member)
    return cluster.masters.pop(member)


def test_three_masters_become_five_and_three_others_while_no_acknowledged_job_is_lost_or_runs_twice(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    submitter = Submitter(cluster, ledger)
    try:
        until(lambda: len(submitter.acknowledged) > 20, "submissions are acknowledged")
        for member in ("master-4", "master-5"):
            cluster.new_master(member, ["master-1"]).start()
            took = time.monotonic()
            assert f"{member} is a voter" in do(cluster, "add-master", member, cluster.replicas[member])
            print(f"{member} voted after {time.monotonic() - took:.1f} s")
        assert {m["role"] for m in members(cluster).values()} == {"leader", "voter"}
        leader = cluster.leader().id
        for member in [leader, *(m for m in ("master-1", "master-2", "master-3") if m != leader)][:2]:
            gone = remove(cluster, member)
            until(lambda gone=gone: gone.exit_code is not None, f"{member} ends by itself")
            # Not always the last line: its replica may log that it lost a peer afterwards.
            assert f"{member} was removed from the cluster, so it stops" in gone.log.read_text()
        acknowledged = len(submitter.acknowledged)
        until(lambda: len(submitter.acknowledged) > acknowledged + 20, "the cluster goes on")
    finally:
        submitter.end()
    assert not submitter.problems
    with cluster.client() as client:
        for job in submitter.acknowledged:
            assert client.wait(job, timeout=PATIENCE_S).state is JobState.SUCCEEDED
    ran = [task for task, _, _ in starts(ledger)]
    lost = {f"{job}/task/0" for job in submitter.acknowledged} - set(ran)
    print(f"acknowledged {len(submitter.acknowledged)}, lost {len(lost)}, twice {len(ran) - len(set(ran))}")
    assert not lost
    assert len(ran) == len(set(ran))


def test_masters_restart_with_lists_of_peers_that_are_long_out_of_date(cluster: LocalCluster) -> None:
    for master in list(cluster.masters.values()):
        kill_whole(master)
    for master in cluster.masters.values():
        master.start()
    cluster.wait_ready()
    assert set(members(cluster)) == set(cluster.masters)
    assert "master-1" not in members(cluster) or "master-2" not in members(cluster)


def test_a_killed_master_is_replaced_by_one_that_asks_to_be_added_itself(cluster: LocalCluster, tmp_path: Path) -> None:
    dead = cluster.leader()
    kill_whole(dead)
    shutil.rmtree(cluster.data_dir / dead.id)
    del cluster.masters[dead.id]
    until(lambda: cluster.leader(), "another one leads")
    assert f"{dead.id} is removed" in do(cluster, "remove-master", dead.id)
    new = cluster.new_master("master-6", [next(iter(cluster.masters))], join=True)
    new.start()
    until(lambda: members(cluster).get("master-6", {}).get("role") == "voter", "it votes, without a command")
    with cluster.client() as client:
        done = client.wait(client.submit(ledger_job("after", tmp_path / "after")).job_id, timeout=PATIENCE_S)
        assert done.state is JobState.SUCCEEDED
    # The agent was told of the first three masters; whatever it knows now, it has found those that there are.
    assert {member["healthy"] for member in members(cluster).values()} == {True}


def test_what_cannot_be_is_refused_in_one_line_that_says_what_to_do(cluster: LocalCluster) -> None:
    one, other = list(cluster.masters)[:2]
    address = cluster.replicas[one]
    for words, why in (
        (["add-master", "master-9", "nowhere"], "'nowhere' is no address of a master's replica: expected host:port"),
        (["add-master", "master-9", "0.0.0.0:7000"], "must name the host by which the other masters reach master-9"),
        (["add-master", "a b", "127.0.0.1:1"], "master id"),
        (["add-master", "master-9", address], f"{address} is the Raft address of {one}: name the address of master-9"),
        (["add-master", other, "127.0.0.1:1"], f"{other} is a master already, at {cluster.replicas[other]}: remove it"),
    ):
        refused = goschedctl(cluster.endpoints, "cluster", *words)
        assert refused.returncode == 1
        assert why in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1
    assert "not a master of this cluster" in do(cluster, "remove-master", "master-77")
    late = goschedctl(cluster.endpoints, "cluster", "add-master", "master-8", "127.0.0.1:1", "--timeout", "1s")
    assert late.returncode == 5
    assert "goschedctl cluster remove-master master-8" in late.stderr
    assert members(cluster)["master-8"]["role"] == "learner"
    assert "master-8 is removed" in do(cluster, "remove-master", "master-8")
