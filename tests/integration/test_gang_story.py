"""Gangs on a real cluster: whole or not at all, nothing held, started the moment there is room."""

from __future__ import annotations

from pathlib import Path

import pytest

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.core.records.job import JobState

from .support import PATIENCE_S, ledger_job, starts, until

FOUR_CPUS = AgentShape(resources={"cpu": 4, "memory": "8Gi"})
ONE_CPU = AgentShape(resources={"cpu": 1, "memory": "8Gi"})


def test_a_gang_of_8_cpus_waits_on_4_with_the_reason_and_starts_when_a_second_node_joins(tmp_path: Path) -> None:
    # The period is long: it does not start because the next cycle comes by.
    settings = {"server": {"schedule_period": "1h"}}
    with LocalCluster(masters=1, agents=[FOUR_CPUS], settings=settings) as cluster, cluster.client() as client:
        ledger = tmp_path / "ledger"
        submitted = client.submit(ledger_job("gang", ledger, count=8, cpu="1", then="sleep 2"))
        assert submitted.warnings, "asking for more than the cluster has is warned of"
        until(lambda: client.get_job("gang").waiting_for is not None, "the reason is known")
        waiting = client.get_job("gang").waiting_for
        assert waiting is not None
        assert "8" in waiting[1]
        assert "4" in waiting[1]
        assert client.get_job("gang").state is JobState.PENDING
        cluster.add_agent(FOUR_CPUS)
        done = client.wait("gang", timeout=PATIENCE_S)
        assert done.state is JobState.SUCCEEDED
        assert {t.node_id for t in done.tasks} == {"agent-1", "agent-2"}
        assert len(starts(ledger)) == 8


def test_three_of_four_nodes_hold_nothing_and_a_small_job_behind_the_gang_runs(tmp_path: Path) -> None:
    with LocalCluster(masters=1, agents=[ONE_CPU] * 3) as cluster, cluster.client() as client:
        client.submit(ledger_job("gang", tmp_path / "gang", count=4, cpu="1"))
        until(lambda: client.get_job("gang").waiting_for is not None, "the gang waits with a reason")
        assert client.get_status().used.cpu_millis == 0
        client.submit(ledger_job("small", tmp_path / "small", cpu="1"))
        assert client.wait("small", timeout=PATIENCE_S).state is JobState.SUCCEEDED
        assert client.get_job("gang").state is JobState.PENDING
        assert starts(tmp_path / "gang") == []


@pytest.mark.parametrize("policy", ["restart_gang", "fail_job"])
def test_a_dead_node_restarts_the_gang_whole_elsewhere_or_fails_it_as_its_policy_says(
    tmp_path: Path, policy: str
) -> None:
    settings = {"lease": {"node_timeout": "4s", "first_lease": "5s", "heartbeat": "500ms"}}
    with LocalCluster(masters=1, agents=[ONE_CPU] * 3, settings=settings) as cluster, cluster.client() as client:
        ledger = tmp_path / "ledger"
        more = f"gang: {{min: all, on_member_failure: {policy}}}\nplacement: {{strategy: spread}}"
        only_the_first = "[ $GOSCHED_ATTEMPT -gt 1 ] || sleep 600"
        client.submit(ledger_job("gang", ledger, count=2, cpu="1", then=only_the_first, more=more))
        until(lambda: len(starts(ledger)) == 2, "both tasks run")
        victim = cluster.agents[client.get_job("gang").tasks[0].node_id]
        victim.freeze()
        done = client.wait("gang", timeout=PATIENCE_S)
        if policy == "fail_job":
            assert done.state is JobState.FAILED
            assert done.job.reason == "NODE_LOST"
        else:
            assert done.state is JobState.SUCCEEDED
            assert done.job.attempt == 2
            assert victim.id not in {t.node_id for t in done.tasks}
            begun = [(task, attempt) for task, attempt, _ in starts(ledger)]
            assert len(begun) == len(set(begun)) == 4, "each attempt of each task started once"
        victim.thaw()
        until(lambda: client.get_status().nodes_ready == 3, "the node is back")
