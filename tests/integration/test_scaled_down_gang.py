"""A gang that was scaled down loses a node while its surplus still stops: it is repaired, and no master minds."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState

from .support import PATIENCE_S, ledger_job, starts, until

TWO_CPUS = AgentShape(resources={"cpu": 2, "memory": "8Gi"})
SETTINGS = {"lease": {"node_timeout": "4s", "first_lease": "5s", "heartbeat": "500ms"}}
# Its tasks stop only when they are killed.
STUBBORN = """\
name: elastic
gang: {{min: 2, on_member_failure: restart_gang}}
stop_grace: 10m
retry: {{max: 3, when: [node_lost, failed]}}
tasks:
  exec:
    count: 4
    resources: {{cpu: 1, memory: 1Mi}}
    run: "trap '' TERM; echo $GOSCHED_TASK_ID $GOSCHED_ATTEMPT $$ >> {ledger}; while :; do sleep 0.1; done"
"""


def test_a_gang_that_was_scaled_down_loses_a_node_and_the_cluster_goes_on(tmp_path: Path) -> None:
    ledger = tmp_path / "elastic"
    with (
        LocalCluster(masters=3, agents=[TWO_CPUS] * 3, settings=SETTINGS) as cluster,
        cluster.client() as client,
    ):
        client.submit(STUBBORN.format(ledger=ledger))
        until(lambda: len(starts(ledger)) == 4, "all four run, and ignore SIGTERM")
        client.scale("elastic", 2)
        stopping = [TaskState.STOPPING] * 2
        until(lambda: [t.state for t in client.get_job("elastic").tasks][2:] == stopping, "two are to stop")
        cluster.agents[client.get_job("elastic").tasks[0].node_id].kill()
        until(lambda: client.get_job("elastic").job.reason == "NODE_LOST", "the node is given up")
        client.submit(ledger_job("other", tmp_path / "other", cpu="1"))
        assert client.wait("other", timeout=PATIENCE_S).state is JobState.SUCCEEDED, "the leader goes on planning"
        assert all(master.is_alive for master in cluster.masters.values())
        assert not any(b"met a bug" in master.log.read_bytes() for master in cluster.masters.values())
        # Once what still stops has ended, the gang runs again as small as it was scaled.
        for _, _, pid in starts(ledger):
            with suppress(ProcessLookupError):  # that of the lost agent's task may be gone
                os.kill(pid, signal.SIGKILL)
        until(lambda: len([None for _, attempt, _ in starts(ledger) if attempt == 2]) == 2, "two run again")
        job = client.get_job("elastic")
        assert (job.state, job.job.attempt, job.job.active) == (JobState.RUNNING, 2, 2)
