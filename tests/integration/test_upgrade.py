"""Masters of two releases side by side, as in a rolling upgrade: none ends, and all come to the same state."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from gosched.cli.local_program import LocalClusterError, Program
from gosched.client import GoSchedClient
from gosched.core.features import NEWEST_LEVEL, FeatureLevel
from gosched.core.records.job import JobState
from gosched.replication.disk.journal_format import FILE as JOURNAL
from gosched.replication.disk.log_files import entries_in
from tests.upgrade import previous
from tests.upgrade.mixed_cluster import MixedCluster

from .support import (
    PATIENCE_S,
    applied_index,
    goschedctl,
    kill_whole,
    ledger_job,
    starts,
    state_digest_at,
    until,
    until_there,
)

LARGE = "x" * 200_000  # in a job's environment: some forty of these fill the log, so that it is compacted


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    with MixedCluster(previous.unpack(tmp_path / "previous")) as running:
        yield running


def work(client: GoSchedClient, ledger: Path, name: str) -> None:
    """A job that runs, one that is cancelled while it waits, an array."""
    client.submit(ledger_job(f"{name}-waits", ledger, cpu="1000"))
    client.submit(ledger_job(f"{name}-array", ledger, more="array: {range: 0-9, parallelism: 3}"))
    client.submit(ledger_job(name, ledger))
    assert client.wait(name, timeout=PATIENCE_S).state is JobState.SUCCEEDED
    assert client.wait(f"{name}-array", timeout=PATIENCE_S).state is JobState.SUCCEEDED
    client.cancel(f"{name}-waits")
    assert client.wait(f"{name}-waits", timeout=PATIENCE_S).state is JobState.CANCELLED


def fill_the_log(client: GoSchedClient, ledger: Path, tag: str) -> None:
    for n in range(45):
        job = client.submit(ledger_job(f"{tag}-{n}", ledger, cpu="1000", more=f"env: {{BLOB: {LARGE}}}")).job_id
        client.cancel(job)


def lead(cluster: MixedCluster, client: GoSchedClient, *, new: bool) -> None:
    """Kill leaders until one of that release leads."""
    for _ in range(12):
        leader = cluster.leader()
        if cluster.is_new(leader) is new:
            until(lambda: all(m.healthy for m in client.get_status().masters), "the others are connected")
            return
        kill_whole(leader)
        with suppress(LocalClusterError):
            cluster.leader(timeout_s=20)
        cluster.restart(leader)
        cluster.wait_ready()
    raise AssertionError("no election was won by a master of the wanted release")


def snapshot_from_new(cluster: MixedCluster, client: GoSchedClient, ledger: Path) -> None:
    """An old follower that was away gets a snapshot of a new leader. Elections come as they like: where one took the
    lead away meanwhile, the snapshot may be another's, and it is tried again."""
    for attempt in range(4):
        lead(cluster, client, new=True)
        old = next(m for m in cluster.masters.values() if not cluster.is_new(m))
        kill_whole(old)
        before = first_index(cluster, old.id)
        fill_the_log(client, ledger, f"from-new-{attempt}")
        cluster.restart(old)
        index = applied_index(cluster.leader())
        until(partial(_has_applied, old, index), "the old follower has caught up")
        kept_the_lead = cluster.is_new(cluster.leader())
        all_run(cluster)
        agree(cluster, client)
        if kept_the_lead:
            assert first_index(cluster, old.id) > before, "its log begins behind the snapshot"
            return
    raise AssertionError("the new master lost the lead each time")


def _has_applied(master: Program, index: int) -> bool:
    return applied_index(master) >= index


def all_run(cluster: MixedCluster) -> None:
    for program in cluster.programs:
        assert program.exit_code is None, f"{program.id}: {program.last_line()}"


def agree(cluster: MixedCluster, client: GoSchedClient) -> None:
    """All masters, stopped at one revision, hold the same state on their disks. They are started again."""
    revision, index = client.get_status().revision, applied_index(cluster.leader())
    until(lambda: all(applied_index(m) >= index for m in cluster.masters.values()), "all masters have all of it")
    for master in cluster.masters.values():
        kill_whole(master)
    assert len({state_digest_at(cluster, name, revision) for name in cluster.masters}) == 1
    for master in cluster.masters.values():
        cluster.restart(master)
    cluster.wait_ready()


def first_index(cluster: MixedCluster, name: str) -> int:
    """Of the log on its disk, which is only read."""
    return entries_in((cluster.data_dir / name / "raft" / JOURNAL).read_bytes())[0][1]


@pytest.mark.timeout(900)  # it takes two minutes where nothing else runs
def test_masters_are_upgraded_one_by_one_while_jobs_run(cluster: MixedCluster, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with cluster.client() as client:
        gang = client.submit(ledger_job("gang", ledger, count=2, then=until_there(tmp_path / "go"))).job_id
        until(lambda: len(starts(ledger)) == 2, "the gang runs")
        client.submit(ledger_job("pending", ledger, cpu="1000"))
        work(client, ledger, "all-old")
        follower = next(m for m in cluster.masters.values() if m is not cluster.leader())

        cluster.upgrade(follower)
        all_run(cluster)
        lead(cluster, client, new=True)  # followers are old
        work(client, ledger, "new-leads")
        refused = goschedctl(cluster.endpoints, "cluster", "finalize-upgrade")
        assert refused.returncode == 1
        assert "upgrade it first" in refused.stderr  # of an old master too, which does not know the call
        leader = cluster.leader().grpc
        refused = goschedctl(leader, "cluster", "finalize-upgrade")
        assert "knows feature level 4 only: upgrade it first" in refused.stderr
        removed = goschedctl(leader, "node", "remove", "agent-1")
        assert "needs feature level 5, and the cluster is at 4" in removed.stderr

        snapshot_from_new(cluster, client, ledger)

        lead(cluster, client, new=False)  # and a follower is new
        work(client, ledger, "old-leads")
        all_run(cluster)
        agree(cluster, client)

        for master in [m for m in cluster.masters.values() if not cluster.is_new(m)]:
            cluster.upgrade(master)
            work(client, ledger, f"upgraded-{master.id}")
        agree(cluster, client)
        until(lambda: client.get_status().newest_feature_level == NEWEST_LEVEL, "the leader has heard of every master")
        status = json.loads(goschedctl(cluster.endpoints, "status", "-o", "json").stdout)
        assert (status["feature_level"], status["newest_feature_level"]) == (FeatureLevel.FIRST, NEWEST_LEVEL)
        assert "run goschedctl cluster finalize-upgrade" in goschedctl(cluster.endpoints, "status").stdout

        away = next(m for m in cluster.masters.values() if m is not cluster.leader())
        kill_whole(away)
        until(lambda: "is not connected" in _finalize(cluster), "a master that is away is not counted on")
        cluster.restart(away)
        until(lambda: f"now at feature level {NEWEST_LEVEL}" in _finalize(cluster), "the level is raised")
        assert f"the cluster is at feature level {NEWEST_LEVEL}" in _finalize(cluster)
        assert "Features" not in goschedctl(cluster.endpoints, "status").stdout
        levels = [_metric(m.http, "gosched_feature_level") for m in cluster.masters.values()]
        assert levels == [NEWEST_LEVEL] * 3
        work(client, ledger, "raised")

        idle = next(node.node.id for node in client.list_nodes() if not node.tasks)
        cluster.agents[idle].kill()
        until(lambda: "removed" in goschedctl(cluster.endpoints, "node", "remove", idle).stderr, "it is forgotten")
        assert idle not in [node.node.id for node in client.list_nodes()]
        cluster.restart(cluster.agents[idle])
        until(lambda: len(client.list_nodes()) == 2, "and joins as a new one")

        old = next(m for m in cluster.masters.values() if m is not cluster.leader())
        cluster.downgrade(old)
        until(lambda: old.exit_code is not None, "the previous release cannot read what is written now")
        said = old.log.read_text("utf-8", "replace")
        assert "upgrade" in said or "the replica process ended" in said  # its words could be cut off
        cluster.upgrade(old)
        agree(cluster, client)
        (tmp_path / "go").touch()
        assert client.wait("gang", timeout=PATIENCE_S).state is JobState.SUCCEEDED
        assert len([task for task, _, _ in starts(ledger) if task.startswith(gang)]) == 2, "each task started once"
        assert client.get_job("pending").job.state is JobState.PENDING


def _finalize(cluster: MixedCluster) -> str:
    return goschedctl(cluster.endpoints, "cluster", "finalize-upgrade").stderr


def _metric(address: str, name: str) -> float:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE_S) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
    raise AssertionError(f"no metric {name}")
