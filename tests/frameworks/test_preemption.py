"""A gang that saves itself before it gives way loses nothing, and nothing says that it does."""

from __future__ import annotations

import re

import pytest

from gosched.core.records.job import JobState
from tests.frameworks.conftest import NewRun
from tests.frameworks.jobs import LOST, sleepers

POLICY = f"priority: 100\n{LOST}\npreemption: {{checkpoint_signal: SIGUSR1, grace: 1m}}"


@pytest.mark.parametrize("framework", ["torch", "torchrun", "mpi"])
def test_a_gang_that_saves_itself_loses_no_step(new_run: NewRun, framework: str) -> None:
    run = new_run(framework, POLICY)
    run.start()
    urgent = sleepers("urgent", cpu=4, seconds=3, more="priority: 900")
    run.strike("a job of higher priority comes", lambda: run.client.submit(urgent), ranks=[0, 1, 2])
    run.recover()
    assert run.detail().state is JobState.RUNNING
    assert run.is_beyond()
    row = run.row()
    assert (row.steps_lost, row.restarts) == (0, 0)
    said = [event.message for event in run.events() if event.kind == "job_evicted"]
    assert len(said) == 1
    assert not re.search(r"[1-9]\d* \w+ of work is lost", said[0]), said
