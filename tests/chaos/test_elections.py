"""Slow disks and slow links on real masters: nobody is deposed, and a dead leader is replaced in single seconds."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gosched.cli.local_program import Program
from tests.chaos.faults import slow_syncs
from tests.chaos.hosts import HostCluster
from tests.chaos.recovery import raft_term, submit, time_to_commit
from tests.integration.support import kill_whole, replica_of, until

STEADY_S = 12.0
LIMIT_S = 15.0  # of what takes 2 to 3 s on a machine that has nothing else to do


def all_healthy(cluster: HostCluster) -> None:
    with cluster.client() as client:
        until(lambda: sum(m.healthy for m in client.get_status().masters) == 3, "all masters are healthy")


def followers(cluster: HostCluster) -> list[Program]:
    leader = cluster.leader()
    return [master for master in cluster.masters.values() if master is not leader]


def terms_in(cluster: HostCluster, seconds: float, do: Callable[[], object] = lambda: None) -> set[int]:
    """All terms of all masters while submissions go on."""
    seen = {raft_term(master) for master in cluster.masters.values()}
    do()
    ends = time.monotonic() + seconds
    with cluster.client() as client:
        while time.monotonic() < ends:
            submit(client)
            time.sleep(0.05)
    return seen | {raft_term(master) for master in cluster.masters.values()}


@pytest.mark.timeout(300)
def test_a_follower_with_a_slow_disk_deposes_nobody(tmp_path: Path) -> None:
    with HostCluster(tmp_path / "c", masters=3, agents=1) as cluster:
        all_healthy(cluster)
        cluster.faults(followers(cluster)[0], slow_syncs(0.5))
        assert len(terms_in(cluster, STEADY_S)) == 1


@pytest.mark.timeout(300)
def test_a_master_that_returns_deposes_nobody(tmp_path: Path) -> None:
    with HostCluster(tmp_path / "c", masters=3, agents=1) as cluster:
        all_healthy(cluster)
        away = followers(cluster)[0]

        def leave_and_return() -> None:
            cluster.hosts.cut_off(away.id)
            time.sleep(5.0)
            cluster.hosts.join(away.id)
            replica_of(away).send_signal(signal.SIGSTOP)
            time.sleep(3.0)
            replica_of(away).send_signal(signal.SIGCONT)

        assert len(terms_in(cluster, 4.0, leave_and_return)) == 1
        all_healthy(cluster)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sync_s", [0.3, 0.5, 1.0])
def test_a_dead_leader_is_replaced_though_one_survivor_has_a_slow_disk(tmp_path: Path, sync_s: float) -> None:
    with HostCluster(tmp_path / "c", masters=3, agents=1) as cluster:
        all_healthy(cluster)
        leader = cluster.leader()
        cluster.faults(followers(cluster)[0], slow_syncs(sync_s))
        time.sleep(1.0)
        assert time_to_commit(cluster, lambda: kill_whole(leader)) < LIMIT_S


@pytest.mark.timeout(300)
def test_a_dead_leader_is_replaced_over_links_of_100_ms(tmp_path: Path) -> None:
    with HostCluster(tmp_path / "c", masters=3, agents=1, long_wires=True) as cluster:
        all_healthy(cluster)
        for name in cluster.masters:
            cluster.hosts.delay(name, 50)
        all_healthy(cluster)
        assert len(terms_in(cluster, 5.0)) == 1, "nobody is deposed by the delay"
        leader = cluster.leader()
        assert time_to_commit(cluster, lambda: kill_whole(leader)) < LIMIT_S


@pytest.mark.timeout(300)
def test_a_leader_whose_front_stands_still_gives_up_the_lead_and_follows_when_it_goes_on(tmp_path: Path) -> None:
    with HostCluster(tmp_path / "c", masters=3, agents=1) as cluster, cluster.client() as client:
        all_healthy(cluster)
        job = client.submit("name: gang\nrun: sleep 1000\nstop_grace: 1s\non_disconnect: stop\n").job_id
        until(lambda: client.get_job(job).job.state.name == "RUNNING", "the gang runs")
        leader = cluster.leader()
        assert time_to_commit(cluster, lambda: leader.send(signal.SIGSTOP)) < LIMIT_S
        time.sleep(20.0)
        leader.send(signal.SIGCONT)
        all_healthy(cluster)
        assert cluster.leader() is not leader
        found = client.get_job(job).job
        assert (found.state.name, found.attempt) == ("RUNNING", 1)
