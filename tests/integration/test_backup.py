"""Backups of a cluster that works, and new clusters made of them: real masters, and the agents that were there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gosched.cli.local_cluster import LocalCluster
from gosched.cli.local_program import Program
from gosched.client import GoSchedClient
from gosched.core.records.job import JobState

from .support import PATIENCE_S, goschedctl, kill_whole, ledger_job, starts, until, until_there

NEW = ("--new-cluster", "second")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(masters=3, agents=2) as running:
        yield running


def lose_all_masters(cluster: LocalCluster) -> None:
    """Their disks, too."""
    for master in cluster.masters.values():
        kill_whole(master)
        shutil.rmtree(cluster.data_dir / master.id)


def restore(cluster: LocalCluster, master: Program, backup: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    config = str(cluster.data_dir / f"{master.id}.yaml")
    return goschedctl("", "cluster", "restore", str(backup), "--config", config, *flags)


def restore_all(cluster: LocalCluster, backup: Path, *flags: str) -> None:
    for master in cluster.masters.values():
        done = restore(cluster, master, backup, *flags)
        assert done.returncode == 0, done.stderr
    for master in cluster.masters.values():
        cluster.restart(master)
    cluster.wait_ready()


def take(endpoints: str, file: Path, *flags: str) -> None:
    done = goschedctl(endpoints, "cluster", "backup", str(file), *flags)
    assert done.returncode == 0, done.stderr


def pids(ledger: Path, job: str) -> list[int]:
    return [pid for task, _, pid in starts(ledger) if task.startswith(job)]


def log_of(program: Program) -> str:
    return program.log.read_text("utf-8", "replace")


def run(client: GoSchedClient, ledger: Path, name: str, go: Path, *, count: int = 1, more: str = "") -> str:
    """A job whose tasks run until the file is there."""
    job = client.submit(ledger_job(name, ledger, count=count, then=until_there(go), more=more)).job_id
    until(lambda: len(pids(ledger, job)) == count, f"{name} runs")
    until(lambda: client.get_job(job).job.running == count, f"{name} is seen to run")
    return job


@pytest.mark.timeout(300)
def test_a_new_cluster_made_of_a_backup_adopts_what_runs_and_what_has_ended_meanwhile(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    ledger, go, end = tmp_path / "ledger", tmp_path / "go", tmp_path / "end"
    passphrase, file = tmp_path / "passphrase", tmp_path / "backup"
    passphrase.touch(mode=0o600)
    passphrase.write_text("correct horse\n")
    flags = ("--passphrase-file", str(passphrase))
    with cluster.client() as client:
        gang = run(client, ledger, "gang", go, count=2)
        ends_soon = run(client, ledger, "ends-soon", end)
        moved = run(client, ledger, "moved", go)
        pending = client.submit(ledger_job("pending", ledger, cpu="1000")).job_id
        follower = next(m for m in cluster.masters.values() if m is not cluster.leader())
        take(follower.grpc, file, *flags)
        shown = json.loads(goschedctl("", "cluster", "backup-show", str(file), *flags, "-o", "json").stdout)
        assert (shown["jobs"], shown["tasks_running"]) == ({"PENDING": 1, "RUNNING": 3}, 4)

        client.control(moved, "requeue")
        until(lambda: len(pids(ledger, moved)) == 2, "it starts again after the backup")
        later = run(client, ledger, "after-the-backup", go)
        end.touch()
        assert client.wait(ends_soon, timeout=PATIENCE_S).state is JobState.SUCCEEDED

    refused = restore(cluster, follower, file, *flags, *NEW, "--tasks", "adopt")
    assert refused.returncode == 2
    assert "a backup is never restored into a cluster that runs" in refused.stderr
    kill_whole(follower)
    shutil.rmtree(cluster.data_dir / follower.id)
    refused = restore(cluster, follower, file, *flags, *NEW, "--tasks", "adopt")
    assert refused.returncode == 2
    assert "a backup makes a new cluster: it is never restored into one that runs" in refused.stderr
    cluster.restart(follower)
    lose_all_masters(cluster)
    refused = restore(cluster, follower, file, *flags, "--tasks", "adopt")
    assert "give it to all of them, such as --new-cluster c" in refused.stderr

    before = pids(ledger, gang)
    (doomed,) = pids(ledger, later)
    restore_all(cluster, file, *flags, *NEW, "--tasks", "adopt")
    with cluster.client() as client:
        until(lambda: not psutil.pid_exists(doomed), "the task of a job that is not in the backup is ended")
        until(lambda: client.get_job(ends_soon).state is JobState.SUCCEEDED, "how it ended is known again")
        found = client.get_job(gang)
        assert (found.state, found.job.attempt, found.job.running) == (JobState.RUNNING, 1, 2)
        assert all(psutil.pid_exists(pid) for pid in before)
        assert client.get_job(pending).state is JobState.PENDING
        until(lambda: client.get_job(moved).job.running == 1, "what was stopped after the backup starts again")
        assert later not in [job.id for job in client.list_jobs()]
        named = [log_of(program) for program in cluster.programs if f"{later}/" in log_of(program)]
        assert any("does not know" in text for text in named), "the masters name what is lost"
        assert any("leftovers are stopped" in text for text in named), "and so does the agent"
        homes = [cluster.data_dir / agent / "cluster" for agent in cluster.agents]
        until(lambda: all(home.read_text().startswith("second-") for home in homes), "all agents belong to it")
        client.submit(ledger_job("newer", ledger))
        assert client.wait("newer", timeout=PATIENCE_S).state is JobState.SUCCEEDED
        go.touch()
        assert client.wait(gang, timeout=PATIENCE_S).state is JobState.SUCCEEDED
        assert client.wait(moved, timeout=PATIENCE_S).state is JobState.SUCCEEDED
        client.cancel(pending)
    assert pids(ledger, gang) == before, "each task of the gang started once"
    assert len(pids(ledger, ends_soon)) == 1


@pytest.mark.timeout(300)
def test_a_new_cluster_that_declares_what_ran_lost_ends_it_and_jobs_go_on_by_their_policy(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    ledger, go, file = tmp_path / "ledger", tmp_path / "go", tmp_path / "backup"
    retried = "retry: {max: 3, backoff: 0s, when: [node_lost]}"
    with cluster.client() as client:
        again = run(client, ledger, "again", go, more=retried)
        once = run(client, ledger, "once", go, more="retry: {max: 0}")
        take(cluster.endpoints, file)
        before = [*pids(ledger, again), *pids(ledger, once)]
    lose_all_masters(cluster)
    restore_all(cluster, file, "--new-cluster", "third", "--tasks", "lost")
    with cluster.client() as client:
        until(lambda: not any(psutil.pid_exists(pid) for pid in before), "agents end what they have")
        until(lambda: len(pids(ledger, again)) == 2, "it starts again")
        lost = client.wait(once, timeout=PATIENCE_S)
        assert (lost.state, lost.job.reason) == (JobState.FAILED, "NODE_LOST")
        go.touch()
        done = client.wait(again, timeout=PATIENCE_S)
        assert (done.state, done.job.attempt) == (JobState.SUCCEEDED, 2)
        assert len(pids(ledger, once)) == 1


def test_a_backup_that_breaks_off_leaves_nothing(cluster: LocalCluster, tmp_path: Path) -> None:
    """The disk is full, the program is killed, the key is another's: no file, or the one before."""
    file = tmp_path / "backup"
    take(cluster.endpoints, file)
    whole = file.read_bytes()
    script = str(Path(sys.executable).with_name("goschedctl"))
    limited = ["prlimit", "--fsize=200", script, "cluster", "backup", str(file)]
    env = {**os.environ, "GOSCHED_ENDPOINTS": cluster.endpoints}
    done = subprocess.run(limited, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1, done
    assert f"cannot write {file}: File too large" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]
    assert file.read_bytes() == whole
    cut = tmp_path / "cut"
    cut.write_bytes(whole[:-40])
    shown = goschedctl("", "cluster", "backup-show", str(cut))
    assert (shown.returncode, "its end is missing" in shown.stderr) == (1, True)
    piped = subprocess.run(
        [script, "cluster", "backup", "-"], env=env, capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert piped.stdout.startswith(b"GOSCHED-BACKUP 1\n")
    nobody = goschedctl("127.0.0.1:1", "cluster", "backup", str(tmp_path / "none"))
    assert (nobody.returncode, (tmp_path / "none").exists()) == (5, False)
