"""A node that is lost costs no retry and ends no job, though the other ranks fail before it is known lost."""

from __future__ import annotations

import pytest

from gosched.core.records.job import JobState
from tests.frameworks.conftest import NewRun
from tests.frameworks.jobs import LOST, job
from tests.frameworks.runs import Run

FRAMEWORKS = pytest.mark.parametrize("framework", ["torch", "torchrun"])


def assert_restarted_for_the_node(run: Run) -> None:
    found = run.detail()
    assert found.state is JobState.RUNNING
    assert [event.code for event in run.events() if event.kind in ("job_retried", "job_requeued")] == ["NODE_LOST"]
    assert (found.job.attempt, found.job.restarts) == (2, 0)
    assert run.is_beyond()
    assert run.moved() == list(run.struck), "each other rank is where it was"


@FRAMEWORKS
def test_a_gang_starts_again_when_a_node_crashes(new_run: NewRun, framework: str) -> None:
    run = new_run(framework, f"retry {LOST}")
    run.start(job(framework, run.shared, more=f"retry: {LOST}"))
    node = run.last()[1].node
    run.strike("node of rank 1 crashes", lambda: run.cluster.crash(node), ranks=[1])
    run.recover()
    assert_restarted_for_the_node(run)


@FRAMEWORKS
def test_a_gang_starts_again_when_a_node_is_cut_from_the_masters(new_run: NewRun, framework: str) -> None:
    run = new_run(framework, f"retry {LOST}, on_disconnect: stop")
    run.start(job(framework, run.shared, more=f"on_disconnect: stop\nretry: {LOST}"))
    node = run.last()[1].node
    run.strike("node of rank 1 is cut from the masters", lambda: run.cluster.cut_from_masters(node), ranks=[1])
    run.recover()
    assert_restarted_for_the_node(run)
