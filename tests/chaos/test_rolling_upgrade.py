"""A rolling upgrade of real masters and agents, and a step back, under a stream of jobs: nobody notices."""

from __future__ import annotations

import signal
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from gosched import __version__
from gosched.cli.local_program import Program
from gosched.client import GoSchedClient, GoSchedError
from gosched.core.features import NEWEST_LEVEL
from gosched.core.records.job import JobState
from tests.integration.support import PATIENCE_S, applied_index, goschedctl, ledger_job, starts, until, until_there
from tests.upgrade import previous
from tests.upgrade.mixed_cluster import MixedCluster

PAUSE_S = 0.25  # between two submissions


@dataclass(frozen=True)
class Submission:
    job_id: str
    began: float
    took_s: float


class Stream(threading.Thread):
    """Submits small jobs, one after the other, until it is told to end."""

    def __init__(self, cluster: MixedCluster, ledger: Path) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._ledger = ledger
        self._over = threading.Event()
        self.done: list[Submission] = []
        self.failed: list[str] = []

    def run(self) -> None:
        with self._cluster.client() as client:
            while not self._over.is_set():
                began = time.monotonic()
                try:
                    job = client.submit(ledger_job(f"s{len(self.done)}", self._ledger)).job_id
                    self.done.append(Submission(job, began, time.monotonic() - began))
                except GoSchedError as error:
                    self.failed.append(str(error))
                self._over.wait(PAUSE_S)

    def end(self) -> None:
        self._over.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()

    def longest_s(self, since: float) -> float:
        """The slowest submission of those that were open since then: so long nothing was accepted."""
        until(lambda: self.done[-1].began > time.monotonic() - 2, "the stream goes on")
        return max(one.took_s for one in self.done if one.began + one.took_s >= since)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    with MixedCluster(previous.unpack(tmp_path / "previous")) as running:
        yield running


def stop(program: Program) -> None:
    """As systemd and Kubernetes do it: a leader hands the lead over first."""
    program.send(signal.SIGTERM)
    assert program.wait(PATIENCE_S) == 0, program.last_line()


def replaced(cluster: MixedCluster, master: Program, stream: Stream) -> float:
    """The master as the other release, with all that was committed; return for how long nothing was accepted."""
    began, index = time.monotonic(), applied_index(cluster.leader())
    stop(master)
    cluster.install(master)
    cluster.restart(master)
    until(lambda: applied_index(master) >= index, f"{master.id} is back")
    return stream.longest_s(began)


def check(cluster: MixedCluster) -> None:
    """What an operator waits for before the next master."""
    ends = time.monotonic() + PATIENCE_S
    while (said := goschedctl(cluster.endpoints, "cluster", "upgrade-check", __version__)).returncode:
        assert time.monotonic() < ends, said.stdout + said.stderr


@pytest.mark.timeout(420)
def test_an_upgrade_and_a_step_back_lose_double_and_disturb_nothing(
    cluster: MixedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, go = tmp_path / "ledger", tmp_path / "go"
    with cluster.client() as client:
        gang = client.submit(ledger_job("gang", ledger, count=2, then=until_there(go))).job_id
        until(lambda: len(starts(ledger)) == 2, "the gang runs")
        pids = [pid for _, _, pid in starts(ledger)]
        stream = Stream(cluster, ledger)
        stream.start()
        until(lambda: len(stream.done) >= 3, "the stream runs")

        refused = goschedctl(cluster.endpoints, "cluster", "upgrade-check", "9.0.0")
        assert (refused.returncode, "NO" in refused.stdout) == (1, True)
        pauses: dict[str, list[float]] = {"followers": [], "leaders": []}
        last = cluster.leader()
        for master in [m for m in cluster.masters.values() if m is not last] + [last]:
            kind = "leaders" if master is cluster.leader() else "followers"
            pauses[kind].append(replaced(cluster, master, stream))
            check(cluster)
        for agent in cluster.agents.values():
            stop(agent)
            cluster.install(agent)
            cluster.restart(agent)
        cluster.wait_ready()
        assert all(psutil.pid_exists(pid) for pid in pids)

        back = next(m for m in cluster.masters.values() if m is not cluster.leader())
        began = time.monotonic()
        stop(back)
        cluster.downgrade(back)  # as docs/operations/upgrades.md says: with an empty directory
        index = applied_index(cluster.leader())
        until(lambda: applied_index(back) >= index, "the release before has joined again")
        pauses["followers"].append(stream.longest_s(began))
        waits = goschedctl(cluster.endpoints, "cluster", "finalize-upgrade")
        assert "upgrade it first" in waits.stderr
        pauses["followers"].append(replaced(cluster, back, stream))
        check(cluster)
        pauses["leaders"].append(replaced(cluster, cluster.leader(), stream))  # once more, between two of this release
        until(lambda: goschedctl(cluster.endpoints, "cluster", "finalize-upgrade").returncode == 0, "it is finished")
        assert client.get_status().feature_level == NEWEST_LEVEL
        done = goschedctl(cluster.endpoints, "cluster", "upgrade-check")
        assert done.returncode == 0, done.stdout

        stream.end()
        ends = Counter(end_of(client, one.job_id).name for one in stream.done)
        found = client.get_job(gang)
        assert (found.state, found.job.attempt, found.job.restarts) == (JobState.RUNNING, 1, 0)
        assert all(psutil.pid_exists(pid) for pid in pids)
        go.touch()
        assert client.wait(gang, timeout=PATIENCE_S).state is JobState.SUCCEEDED
    ran = Counter(task.partition("/")[0] for task, _, _ in starts(ledger) if not task.startswith(gang))
    twice = [job for job, count in ran.items() if count > 1]
    lost = [one.job_id for one in stream.done if one.job_id not in ran]
    every = [pause for each in pauses.values() for pause in each]
    with capsys.disabled():
        print(
            f"\nrolling upgrade: {len(stream.done)} submissions, failed {len(stream.failed)}, lost {len(lost)}, twice "
            f"{len(twice)}, disturbed 0; nothing accepted for at most: median {statistics.median(every):.2f} s, worst "
            f"{max(every):.2f} s (n {len(every)}; leaders {' '.join(f'{p:.2f}' for p in pauses['leaders'])})"
        )
    assert (stream.failed, lost, twice) == ([], [], [])
    assert ends == {"SUCCEEDED": len(stream.done)}
    assert len([task for task, _, _ in starts(ledger) if task.startswith(gang)]) == 2, "each task started once"


def end_of(client: GoSchedClient, job: str) -> JobState:
    return client.wait(job, timeout=PATIENCE_S).state
