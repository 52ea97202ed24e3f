"""Two clusters and an agent that changes sides by mistake: real masters on both."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil

from gosched.cli.local_cluster import LocalCluster
from gosched.core.records.job import JobState
from tests.agent.conftest import Agent, wait_for
from tests.integration.support import PATIENCE_S, PATIENT, ledger_job, starts, until, until_there


def test_an_agent_that_is_pointed_at_another_cluster_loses_no_task(tmp_path: Path) -> None:
    ledger, go = tmp_path / "ledger", tmp_path / "go"
    with (
        LocalCluster(masters=1, agents=1, settings=PATIENT) as ours,
        LocalCluster(masters=1, agents=0) as theirs,
        ours.client() as client,
        theirs.client() as other,
    ):
        client.submit(ledger_job("long", ledger, then=until_there(go)))
        until(lambda: starts(ledger), "the task runs")
        ((_, _, pid),) = starts(ledger)
        agent = ours.agents["agent-1"]
        agent.kill()
        lost = Agent(ours.data_dir / "agent-1", theirs.endpoints)
        lost.launch()
        try:
            wait_for(lambda: any("correct" in line for line in lost.lines), why=str(lost.lines))
            assert psutil.pid_exists(pid)
            assert not other.list_nodes()
        finally:
            lost.end(signal.SIGTERM)
        assert psutil.pid_exists(pid)
        ours.restart(agent)
        go.touch()
        done = client.wait("long", timeout=PATIENCE_S)
        assert (done.state, done.job.attempt) == (JobState.SUCCEEDED, 1)
        assert len(starts(ledger)) == 1
