"""The hosts and faults of these tests do what they say, on real processes."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from gosched.core.records.job import JobState
from gosched.replication.replica_config import split_address
from tests.chaos.faults import NONE, Faults, slow_syncs
from tests.chaos.hosts import HostCluster
from tests.integration.support import PATIENCE_S, kill_whole, until


@pytest.mark.timeout(300)
def test_a_cluster_on_hosts_of_its_own_meets_slow_disks_wrong_clocks_and_cuts(tmp_path: Path) -> None:
    with HostCluster(tmp_path / "c", masters=3, agents=1, long_wires=True) as cluster, cluster.client() as client:
        leader = cluster.leader()
        for master in cluster.masters.values():
            cluster.faults(master, slow_syncs(0.3))
        time.sleep(0.2)  # they hold within 0.05 s
        began = time.monotonic()
        client.submit("name: slow\nrun: 'true'\n")
        assert time.monotonic() - began > 0.25
        for master in cluster.masters.values():
            cluster.faults(master, NONE)
        cluster.faults(leader, Faults(clock_ahead_s=-5.0))
        cluster.hosts.cut_off(leader.id)
        until(lambda: cluster.leader().id != leader.id, "another leader")
        cluster.hosts.join(leader.id)
        cluster.hosts.delay(leader.id, 20)
        began = time.monotonic()
        socket.create_connection(split_address(leader.grpc), timeout=20).close()
        assert time.monotonic() - began > 0.035
        until(lambda: sum(m.healthy for m in client.get_status().masters) == 3, "all masters are back")


@pytest.mark.timeout(300)
def test_masters_agents_and_clients_find_each_other_over_paths_of_300_ms(tmp_path: Path) -> None:
    settings = {"raft": {"max_round_trip": "400ms"}}
    with HostCluster(tmp_path / "c", masters=3, agents=1, settings=settings, long_wires=True) as cluster:
        for id in [*cluster.masters, *cluster.agents]:
            cluster.hosts.delay(id, 75)  # at either end of a path: 300 ms there and back
        leader = cluster.leader()
        kill_whole(leader)
        cluster.restart(leader)
        agent = next(iter(cluster.agents.values()))
        agent.kill()
        cluster.restart(agent)
        with cluster.client(timeout_s=PATIENCE_S) as client:
            client.submit("name: far\nrun: 'true'\n")
            assert client.wait("far", timeout=PATIENCE_S).state is JobState.SUCCEEDED
            until(lambda: sum(m.healthy for m in client.get_status().masters) == 3, "all masters are back")
