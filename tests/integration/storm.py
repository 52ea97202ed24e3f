"""The failover storm: the leader is killed again and again under a stream of submissions.

Used by the chaos test, which judges what became of the jobs, and by the benchmark, which takes the times.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.core.records.job import JobState

from .support import PATIENCE_S, all_alive, applied_index, kill_whole, ledger_job, starts, until

_PAUSE_S = 0.1  # between submissions of one client
_CLIENTS = 2
_KEEP_ALL = {"retention": {"max_jobs": 1_000_000}}  # each is judged, and a slow storm has time for many
_DOWN_S = 2.0  # a killed master stays away so long at least


@dataclass
class Storm:
    """What happened. `gaps_s`: from each kill of the leader to the next committed placement."""

    acknowledged: dict[str, str] = field(default_factory=dict)  # job id -> name
    problems: list[str] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)


def run_storm(folder: Path, kills: int) -> Storm:
    storm = Storm()
    ledger = folder / "ledger"
    kill_times_ms: list[int] = []
    agents = [AgentShape(resources={"cpu": 64, "memory": "64Gi"})] * 2
    with LocalCluster(folder / "cluster", masters=3, agents=agents, settings=_KEEP_ALL) as cluster:
        with cluster.client() as client:
            client.submit(ledger_job("steady", folder / "steady", count=2, then="sleep 100000"))
            until(lambda: len(starts(folder / "steady")) == 2, "the steady job runs")
        stop = threading.Event()
        probe = cluster.client()
        threads = [
            threading.Thread(target=_submit_until, args=(cluster, ledger, storm, stop, k)) for k in range(_CLIENTS)
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in range(kills):
                _await_more(storm, 10)
                leader = cluster.leader()
                kill_whole(leader)
                kill_times_ms.append(int(time.time() * 1000))
                time.sleep(_DOWN_S)
                _await_more(storm, 1)
                cluster.restart(leader)
                until(lambda: all(m.healthy for m in probe.get_status().masters), "all masters are healthy")
                _await_caught_up(cluster)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
            probe.close()
        _judge(cluster, storm, ledger, folder / "steady", kill_times_ms)
    return storm


def _await_more(storm: Storm, count: int) -> None:
    """The next leader leads, so whatever is acknowledged now was placed after the kill, or will be."""
    before = len(storm.acknowledged)
    until(lambda: len(storm.acknowledged) >= before + count, "submissions are acknowledged")


def _await_caught_up(cluster: LocalCluster) -> None:
    """So that the next leader has a majority at once."""
    index = applied_index(cluster.leader())
    assert index > 0
    until(lambda: all(applied_index(m) >= index for m in cluster.masters.values()), "all masters have caught up")


def _submit_until(cluster: LocalCluster, ledger: Path, storm: Storm, stop: threading.Event, k: int) -> None:
    with cluster.client() as client:
        i = 0
        while not stop.is_set():
            name = f"job-{k}-{i}"
            i += 1
            try:
                storm.acknowledged[client.submit(ledger_job(name, ledger, cpu="10m")).job_id] = name
            except Exception as error:
                storm.problems.append(f"{name} was not accepted: {error}")
            time.sleep(_PAUSE_S)


def _judge(cluster: LocalCluster, storm: Storm, ledger: Path, steady: Path, kill_times_ms: list[int]) -> None:
    with cluster.client() as client:
        placed_ms = []
        for job, name in storm.acknowledged.items():
            detail = client.wait(job, timeout=PATIENCE_S)
            if detail.state is not JobState.SUCCEEDED or detail.job.attempt != 1:
                storm.problems.append(f"{name}: {detail.state.name} in attempt {detail.job.attempt}")
            placed_ms += [task.placed_at_ms for task in detail.tasks]
        begun = [task for task, _, _ in starts(ledger)]
        if len(begun) != len(set(begun)):
            storm.problems.append("a task ran twice")
        if set(begun) != {f"{job}/task/0" for job in storm.acknowledged}:
            storm.problems.append("the tasks that ran are not those of the acknowledged jobs")
        pids = [pid for _, _, pid in starts(steady)]
        if len(pids) != 2 or not all_alive(pids) or client.get_job("steady").job.attempt != 1:
            storm.problems.append("the running tasks were disturbed")
    storm.gaps_s = [(min(p for p in placed_ms if p > killed) - killed) / 1000 for killed in kill_times_ms]
