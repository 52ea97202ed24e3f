"""Masters whose disks were wiped or rolled back, on real processes: no second cluster, no entry lost without a word."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from gosched.cli.local_program import Program
from gosched.client import GoSchedError
from tests.chaos.hosts import HostCluster
from tests.integration.support import PATIENCE_S, until

WATCHED_S = 8.0  # longer than an election, and than a master that joins keeps quiet
JOBS = 28
_names = count()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[HostCluster]:
    with HostCluster(tmp_path / "c", masters=3, agents=1) as cluster:
        yield cluster


def job() -> str:
    return f"name: job-{next(_names)}\nrun: sleep 600\nresources: {{cpu: 1m, memory: 1Mi}}\n"


def raft(cluster: HostCluster, master: Program) -> Path:
    return cluster.data_dir / master.id / "raft"


def kill(*masters: Program) -> None:
    for master in masters:
        master.kill()


def restore(cluster: HostCluster, master: Program, source: Path) -> None:
    shutil.rmtree(raft(cluster, master), ignore_errors=True)
    script = Path(sys.executable).with_name("gosched-master")
    config = cluster.data_dir / f"{master.id}.yaml"
    words = [str(script), "--config", str(config), "--restore-from", str(source)]
    asked = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    words += ["--yes-i-lost", asked.stderr.split('"')[1]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr


def leads(cluster: HostCluster) -> bool:
    try:
        cluster.leader(timeout_s=1.0)
    except Exception:
        return False
    return True


@pytest.mark.timeout(600)
def test_two_wiped_masters_found_no_cluster_while_the_third_is_away_and_its_directory_brings_all_jobs_back(
    cluster: HostCluster,
) -> None:
    with cluster.client() as client:
        jobs = {client.submit(job()).job_id for _ in range(JOBS)}
        kept, *wiped = cluster.masters.values()
        kill(kept, *wiped)
        for master in wiped:
            shutil.rmtree(raft(cluster, master))
            master.start()
        ends = time.monotonic() + WATCHED_S
        while time.monotonic() < ends:
            assert all(master.is_alive for master in wiped), [m.last_line() for m in wiped]
            with pytest.raises(GoSchedError):
                client.submit(job())
        kept.start()
        time.sleep(WATCHED_S)
        assert all(master.is_alive for master in (kept, *wiped)), "nobody stops, and nobody leads"
        kill(kept, *wiped)
        for master in wiped:
            restore(cluster, master, cluster.data_dir / kept.id)
        for master in (kept, *wiped):
            master.start()
        began = time.monotonic()
        until(lambda: leads(cluster), "a leader")
        until(lambda: jobs <= {found.id for found in client.list_jobs()}, "all jobs are there")
        print(f"restored: a leader and all {JOBS} jobs after {time.monotonic() - began:.1f} s")


@pytest.mark.timeout(600)
def test_one_wiped_master_after_the_other_joins_by_itself(cluster: HostCluster) -> None:
    took = []
    with cluster.client() as client:
        jobs = {client.submit(job()).job_id for _ in range(JOBS)}
        for master in cluster.masters.values():
            kill(master)
            shutil.rmtree(raft(cluster, master))
            master.start()
            began = time.monotonic()
            identity = raft(cluster, master) / "identity.json"
            until(lambda file=identity: file.exists() and '"joined": true' in file.read_text(), "it votes again")  # type: ignore[misc]
            took.append(time.monotonic() - began)
            client.submit(job())
        assert jobs <= {found.id for found in client.list_jobs()}
    print(f"wiped masters voted again after {sorted(took)[1]:.1f} s (median), {max(took):.1f} s (worst)")


@pytest.mark.timeout(600)
def test_the_master_that_holds_what_a_rolled_back_majority_lost_says_so_and_restores_the_cluster(
    cluster: HostCluster,
) -> None:
    with cluster.client() as client:
        client.submit(job())
        kept = cluster.leader()
        others = [master for master in cluster.masters.values() if master is not kept]
        for master in others:
            shutil.copytree(raft(cluster, master), cluster.data_dir / f"copy of {master.id}")
        jobs = {client.submit(job()).job_id for _ in range(JOBS)}
        time.sleep(1.5)  # a second after it, the commit index is on the disk of each
        kill(kept, *others)
        for master in others:
            shutil.rmtree(raft(cluster, master))
            shutil.copytree(cluster.data_dir / f"copy of {master.id}", raft(cluster, master))
            master.start()
        until(lambda: leads(cluster), "the rolled-back majority goes on: it cannot know")
        client.submit(job())
        kept.start()
        until(lambda: not kept.is_alive, "the one that holds the jobs stops")
        assert "holds entries that were committed up to" in kept.last_line()
        assert "Keep its data directory" in kept.last_line()
        kill(*others)
        for master in others:
            restore(cluster, master, cluster.data_dir / kept.id)
        for master in (kept, *others):
            master.start()
        began = time.monotonic()
        until(lambda: leads(cluster), "a leader")
        until(lambda: jobs <= {found.id for found in client.list_jobs()}, "all jobs are there")
        print(f"restored: a leader and all {JOBS} jobs after {time.monotonic() - began:.1f} s")
