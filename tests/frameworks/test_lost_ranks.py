"""A rank that is killed: the gang starts again where it was, or the others go on."""

from __future__ import annotations

import pytest

from gosched.core.records.job import JobState
from tests.frameworks.conftest import NewRun
from tests.frameworks.hosts import kill
from tests.frameworks.jobs import FAILED, job, sleepers
from tests.integration.support import until


@pytest.mark.parametrize("framework", ["torch", "torchrun"])
def test_a_gang_that_starts_again_keeps_its_places_though_another_job_waits(new_run: NewRun, framework: str) -> None:
    run = new_run(framework, f"retry {FAILED}, another job waits")
    run.start(job(framework, run.shared, more=f"retry: {FAILED}"))
    run.client.submit(sleepers("beside"))
    until(lambda: run.client.get_job("beside").state is JobState.RUNNING, "all CPUs are taken")
    run.client.submit(sleepers("later"))
    until(lambda: run.client.get_job("later").waiting_for is not None, "the later job waits")
    run.strike("rank 1 is killed", lambda: kill(run.last()[1].pid), ranks=[1])
    run.recover()
    assert run.client.get_job("later").state is JobState.PENDING
    assert run.detail().state is JobState.RUNNING
    assert run.is_beyond()
    assert run.moved() == []
