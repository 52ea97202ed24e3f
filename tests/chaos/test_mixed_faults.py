"""Faults of many kinds, one after the other, under a stream of submissions: what was acknowledged runs, once.

Each master and agent is a host of its own. What is drawn comes from a seed, which a failure names.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gosched.cli.local_cluster import AgentShape
from gosched.cli.local_program import Program
from gosched.client import GoSchedError
from gosched.core.records.job import JobState
from tests.chaos.faults import NONE, DiskFault, Faults, slow_syncs
from tests.chaos.hosts import HostCluster
from tests.integration.support import PATIENCE_S, kill_whole, ledger_job, starts, until

SEED = 20261122
ROUNDS = 14
_HOLDS_S = (1.0, 4.0)  # how long a fault stays; a node is DEAD after 10 s of silence
_PAUSE_S = 0.05  # between submissions
_HOUR_S = 3600.0


@dataclass
class Witness:
    """A client that submits and reads all the while. `acknowledged`: job id -> name."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    failed_calls: int = 0
    revision: int = 0

    def work(self, cluster: HostCluster, ledger: Path, stop: threading.Event) -> None:
        with cluster.client(timeout_s=60.0) as client:
            number = 0
            while not stop.wait(_PAUSE_S):
                number += 1
                name = f"job-{number}"
                try:
                    self.acknowledged[client.submit(ledger_job(name, ledger, cpu="10m")).job_id] = name
                    self._read(client.get_status().revision)
                except GoSchedError:
                    self.failed_calls += 1  # not acknowledged, or only not read

    def _read(self, revision: int) -> None:
        if revision < self.revision:
            self.problems.append(f"revision {revision} was read after {self.revision}")
        self.revision = revision


Undo = Callable[[], None]


def _kill(cluster: HostCluster, master: Program) -> Undo:
    kill_whole(master)
    return lambda: cluster.restart(master)


def _pause(cluster: HostCluster, master: Program) -> Undo:
    master.freeze()
    return master.thaw


def _cut_off(cluster: HostCluster, master: Program) -> Undo:
    cluster.hosts.cut_off(master.id)
    return lambda: cluster.hosts.join(master.id)


def _delay(cluster: HostCluster, master: Program) -> Undo:
    cluster.hosts.delay(master.id, 60)
    return lambda: cluster.hosts.delay(master.id, 0)


def _meets(faults: Faults) -> Callable[[HostCluster, Program], Undo]:
    def fault(cluster: HostCluster, master: Program) -> Undo:
        cluster.faults(master, faults)

        def undo() -> None:
            cluster.faults(master, NONE)
            if not master.is_alive:  # it met an error of its disk, and ended
                cluster.restart(master)

        return undo

    return fault


_FAILING_SYNC = Faults(calls={"fdatasync": (DiskFault(error="EIO", times=1),)})
_FULL_DISK = Faults(calls={"write": (DiskFault(error="ENOSPC"),)})

KINDS: dict[str, Callable[[HostCluster, Program], Undo]] = {
    "killed": _kill,
    "paused": _pause,
    "cut off": _cut_off,
    "far away": _delay,
    "slow disk": _meets(slow_syncs(0.4)),
    "failing disk": _meets(_FAILING_SYNC),
    "full disk": _meets(_FULL_DISK),
    "clock ahead": _meets(Faults(clock_ahead_s=_HOUR_S)),
    "clock behind": _meets(Faults(clock_ahead_s=-_HOUR_S)),
}


@pytest.mark.timeout(900)
def test_what_was_acknowledged_runs_once_whatever_befalls_one_master_after_the_other(tmp_path: Path) -> None:
    r = random.Random(SEED)
    ledger, witness, met = tmp_path / "ledger", Witness(), []
    agents = [AgentShape(resources={"cpu": 64, "memory": "64Gi"})] * 2
    settings = {"retention": {"max_jobs": 1_000_000}}
    with ExitStack() as stack:
        cluster = stack.enter_context(
            HostCluster(tmp_path / "c", masters=3, agents=agents, settings=settings, long_wires=True)
        )
        stop = threading.Event()
        thread = threading.Thread(target=witness.work, args=(cluster, ledger, stop))
        thread.start()
        stack.callback(thread.join)
        stack.callback(stop.set)
        kinds = list(KINDS)
        r.shuffle(kinds)
        for round_ in range(ROUNDS):
            kind = kinds[round_ % len(kinds)]
            leader = cluster.leader()
            followers = [master for master in cluster.masters.values() if master is not leader]
            victim = leader if r.random() < 0.6 else r.choice(followers)
            met.append(f"{kind}: {'the leader' if victim is leader else 'a follower'}, {victim.id}")
            undo = KINDS[kind](cluster, victim)
            time.sleep(r.uniform(*_HOLDS_S))
            undo()
            _recover(cluster, witness)
        stop.set()
        thread.join()
        _judge(cluster, witness, ledger)
    assert witness.problems == [], f"seed {SEED}: {met}"
    assert len(witness.acknowledged) > 100


def _recover(cluster: HostCluster, witness: Witness) -> None:
    """All masters are well again, and the client is served."""
    with cluster.client(timeout_s=PATIENCE_S) as client:
        until(lambda: all(m.healthy for m in client.get_status().masters), "all masters are healthy")
    before = len(witness.acknowledged)
    until(lambda: len(witness.acknowledged) > before, "a submission is acknowledged")


def _judge(cluster: HostCluster, witness: Witness, ledger: Path) -> None:
    with cluster.client() as client:
        for job, name in witness.acknowledged.items():
            try:
                detail = client.wait(job, timeout=PATIENCE_S)
            except GoSchedError as error:
                witness.problems.append(f"{name}: {error}")
                continue
            if detail.state is not JobState.SUCCEEDED:
                witness.problems.append(f"{name}: {detail.state.name} {detail.job.reason}")
    begun = [(task, attempt) for task, attempt, _ in starts(ledger)]
    if len(begun) != len(set(begun)):
        witness.problems.append("an attempt of a task was started twice")
    missing = {f"{job}/task/0" for job in witness.acknowledged} - {task for task, _ in begun}
    if missing:
        witness.problems.append(f"{len(missing)} acknowledged jobs never ran")
