"""An agent that is lost for a while: its task goes on, and so does the gang."""

from __future__ import annotations

import time

import psutil
import pytest

from gosched.core.records.job import JobState
from tests.frameworks.conftest import NewRun
from tests.frameworks.jobs import CONTINUE, LOST

AWAY_S = 20.0  # long after the masters count its node as lost
SETTLED_S = 15.0  # after it is back: its rank was ended at once, or is kept


@pytest.mark.parametrize("framework", ["alone", "torch", "torchrun c10d"])
def test_an_agent_that_comes_back_finds_its_task_at_work(new_run: NewRun, framework: str) -> None:
    run = new_run(framework, f"{CONTINUE}\n{LOST}")
    run.start()
    node = run.node_of(1)

    def away() -> None:
        run.cluster.kill_agent(node)
        time.sleep(AWAY_S)
        run.cluster.restart(run.cluster.agents[node])

    pids = {rank: step.pid for rank, step in run.last().items()}
    run.strike("agent of rank 1 is away for 20 s", away)
    time.sleep(SETTLED_S)
    run.recover()
    assert run.detail().state is JobState.RUNNING
    assert run.detail().job.attempt == 1
    assert {rank: step.pid for rank, step in run.last().items()} == pids
    assert all(psutil.pid_exists(pid) for pid in pids.values())
    assert run.is_beyond()
