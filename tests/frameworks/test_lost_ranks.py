"""A rank that is killed: the gang starts again where it was, or the others go on."""

from __future__ import annotations

import pytest

from gosched.core.records.job import JobState
from tests.frameworks.conftest import NewRun
from tests.frameworks.hosts import kill, kill_task
from tests.frameworks.jobs import CONTINUE, FAILED, sleepers
from tests.integration.support import until


@pytest.mark.parametrize("framework", ["torch", "torchrun", "mpi"])
def test_a_gang_that_starts_again_keeps_its_places_though_another_job_waits(new_run: NewRun, framework: str) -> None:
    run = new_run(framework, FAILED)
    run.start()
    run.client.submit(sleepers("beside"))
    until(lambda: run.client.get_job("beside").state is JobState.RUNNING, "all CPUs are taken")
    run.client.submit(sleepers("later"))
    until(lambda: run.client.get_job("later").waiting_for is not None, "the later job waits")
    run.strike("rank 1 is killed, another job waits", lambda: kill(run.last()[1].pid), ranks=[1])
    run.recover()
    assert run.client.get_job("later").state is JobState.PENDING
    assert run.detail().state is JobState.RUNNING
    assert run.is_beyond()
    assert run.moved() == []


@pytest.mark.parametrize("framework", ["alone", "torchrun c10d"])
def test_a_member_of_an_elastic_gang_that_fails_is_started_again_beside_the_others(
    new_run: NewRun, framework: str
) -> None:
    run = new_run(framework, f"{CONTINUE}\n{FAILED}")
    run.start()
    tasks = {task.rank: task.allocation_id for task in run.detail().tasks}
    run.strike("task of rank 1 is killed", lambda: kill_task(run.last()[1].pid), ranks=[1])
    run.recover()
    found = run.detail()
    assert (found.state, found.job.running) == (JobState.RUNNING, 3)
    assert [task.rank for task in found.tasks if task.allocation_id != tasks[task.rank]] == [1]
    assert run.is_beyond()
    if framework == "alone":  # torchrun starts all its workers again when there are more or fewer of them
        assert run.kept_pids() == [0, 2]
