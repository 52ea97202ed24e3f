"""The hosts and faults of these tests do what they say, on real processes."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from gosched.replication.replica_config import split_address
from tests.chaos.faults import NONE, Faults, slow_syncs
from tests.chaos.hosts import HostCluster
from tests.integration.support import until


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
