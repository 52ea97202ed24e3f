"""The history of three real masters: over failovers, restarts and a wiped master it is whole, and the same on each."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from gosched.api.history import HistoryEvent
from gosched.cli.local_cluster import LocalCluster
from gosched.cli.local_program import Program
from gosched.client import GoSchedClient
from gosched.core.records.job import JobState
from gosched.master.history.rows import TABLES, Row
from tests.integration.support import PATIENCE_S, goschedctl, kill_whole, ledger_job, until

TWICE = "if [ $GOSCHED_ATTEMPT -lt 3 ]; then exit 3; fi"  # it fails twice, and wins the third time
RETRY = "retry: {max: 5, backoff: 0s, when: [failed, node_lost]}"
LARGE = "x" * 200_000  # in a job's environment: some forty of these fill the log, so that it is compacted


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(agents=1) as running:
        yield running


def get(master: Program, path: str) -> Any:
    with urllib.request.urlopen(f"http://{master.http}{path}", timeout=PATIENCE_S) as answer:
        return json.loads(answer.read())


def kept(cluster: LocalCluster, master: str) -> dict[str, list[Row]]:
    """Return all rows of a master's file."""
    file = cluster.data_dir / master / "history.db"
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        return {
            table.name: database.execute(f"SELECT * FROM {table.name} ORDER BY {', '.join(table.key_names)}").fetchall()
            for table in TABLES
        }


def until_all_have(cluster: LocalCluster, masters: list[str]) -> dict[str, list[Row]]:
    """Wait until these masters have written the same, and return it."""

    def same() -> bool:
        try:
            first, *others = [kept(cluster, master) for master in masters]
        except sqlite3.OperationalError:
            return False  # one is just starting, and has no tables yet
        return bool(first["events"]) and all(other == first for other in others)

    until(same, "the masters have the same history")
    return kept(cluster, masters[0])


def test_a_job_that_failed_twice_and_won_has_its_three_attempts_by_cli_grpc_and_rest(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    with cluster.client() as client:
        job = client.submit(ledger_job("third", tmp_path / "ledger", then=TWICE, more=RETRY)).job_id
        assert client.wait(job, timeout=PATIENCE_S).state is JobState.SUCCEEDED
        found = client.list_attempts("third")
        assert [(a.number, a.state.name, a.exit_code) for a in found] == [
            (1, "FAILED", 3), (2, "FAILED", 3), (3, "SUCCEEDED", 0)]  # fmt: skip
        (node,) = [detail.node.name for detail in client.list_nodes()]
        assert all(a.placed_at_ms <= a.ended_at_ms and a.tasks[0].node_name == node for a in found)
    follower = next(master for master in cluster.masters.values() if master is not cluster.leader())
    rest = get(follower, f"/api/v1/jobs/{job}/attempts")
    assert [(a["number"], a["state"], a["exit_code"]) for a in rest] == [
        (1, "FAILED", 3), (2, "FAILED", 3), (3, "SUCCEEDED", 0)]  # fmt: skip
    shown = goschedctl(cluster.endpoints, "job", "show", "third").stdout
    lines = [line.split() for line in shown.splitlines()]
    assert [line[:3] for line in lines if line[1:2] in (["FAILED"], ["SUCCEEDED"])][-3:] == [
        ["1", "FAILED", node], ["2", "FAILED", node], ["3", "SUCCEEDED", node]]  # fmt: skip
    document = json.loads(goschedctl(cluster.endpoints, "job", "show", "third", "-o", "json").stdout)
    assert document["attempts"] == rest
    assert "NONZERO_EXIT" in goschedctl(cluster.endpoints, "explain", "third").stdout
    told = goschedctl(cluster.endpoints, "events", "third").stdout
    assert told.count("job_retried") == 2
    text = goschedctl(cluster.endpoints, "job", "history", "--state", "succeeded", "-o", "csv").stdout
    (row,) = [row for row in csv.DictReader(io.StringIO(text)) if row["name"] == "third"]
    assert (row["state"], row["attempts"], row["exit_code"]) == ("SUCCEEDED", "3", "0")


class Follower(threading.Thread):
    """Keeps the events that a client is told of."""

    def __init__(self, client: GoSchedClient, after: int) -> None:
        super().__init__(daemon=True)
        self.seen: list[HistoryEvent] = []
        self.failure: BaseException | None = None
        self._events = client.watch_events(after=after)

    def run(self) -> None:
        try:
            for event in self._events:
                self.seen.append(event)
        except BaseException as error:
            self.failure = error


def test_followed_events_are_neither_lost_nor_doubled_over_failovers_and_each_master_keeps_the_same(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    with cluster.client() as client, cluster.client() as watching:
        begin = client.list_events(limit=1).revision
        follower = Follower(watching, begin)
        follower.start()
        for number in range(3):
            job = client.submit(ledger_job(f"over-{number}", tmp_path / "ledger")).job_id
            client.wait(job, timeout=PATIENCE_S)
            leader = cluster.leader()
            kill_whole(leader)
            cluster.restart(leader)
            cluster.wait_ready()
        end = client.submit(ledger_job("the-end", tmp_path / "ledger")).job_id
        client.wait(end, timeout=PATIENCE_S)
        wanted = [
            event
            for event in client.list_events(after=begin, limit=10_000).events
            if event.job_name != "the-end" or event.kind == "job_submitted"
        ]
        until(lambda: len(follower.seen) >= len(wanted), f"all events come ({follower.failure})")
        assert follower.seen[: len(wanted)] == wanted
        assert sum(event.kind == "leader_changed" for event in wanted) >= 3
    everywhere = until_all_have(cluster, [*cluster.masters])
    assert {"third", "over-0", "over-2"} <= {row[3] for row in everywhere["jobs"]}


def test_a_wiped_master_and_one_that_missed_a_snapshot_fetch_what_they_lack(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    with cluster.client() as client:
        client.wait(client.submit(ledger_job("early", tmp_path / "ledger")).job_id, timeout=PATIENCE_S)
        leader = cluster.leader()
        wiped, away = [master for master in cluster.masters.values() if master is not leader][:2]
        kill_whole(wiped)
        shutil.rmtree(cluster.data_dir / wiped.id)
        for number in range(45):
            blob = f"env: {{BLOB: {LARGE}}}"
            job = client.submit(ledger_job(f"large-{number}", tmp_path / "l", cpu="1000", more=blob)).job_id
            client.cancel(job)
        config = cluster.data_dir / f"{wiped.id}.yaml"
        settings = yaml.safe_load(config.read_text())
        settings["raft"]["bootstrap"] = False
        config.write_text(yaml.safe_dump(settings))
        cluster.restart(wiped)
        cluster.wait_ready()
        page = client.list_events(limit=1)
        found = until_all_have(cluster, [leader.id, wiped.id, away.id])
        assert {"early", "large-0", "large-44"} <= {row[3] for row in found["jobs"]}
        complete = "the history is complete again"
        until(lambda: complete in wiped.log.read_text(), "it got a snapshot, and the history by itself")
        assert page.oldest == 1, "complete from the beginning"
        until(lambda: get(wiped, "/api/v1/events?stale=true&limit=1")["oldest"] == page.oldest, "and it says so")
