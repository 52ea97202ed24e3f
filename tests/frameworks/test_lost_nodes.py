"""A node that is lost costs no retry and ends no job, though the other ranks fail before it is known lost."""

from __future__ import annotations

from functools import partial

import pytest

from gosched.core.records.job import JobState
from tests.frameworks.conftest import NewRun
from tests.frameworks.jobs import CONTINUE, ELASTIC, LOST
from tests.frameworks.runs import Run

FRAMEWORKS = ["torch", "torchrun", "mpi"]


def assert_restarted_for_the_node(run: Run) -> None:
    found = run.detail()
    assert found.state is JobState.RUNNING
    assert [event.code for event in run.events() if event.kind in ("job_retried", "job_requeued")] == ["NODE_LOST"]
    assert (found.job.attempt, found.job.restarts) == (2, 0)
    assert run.is_beyond()
    assert run.moved() == list(run.struck), "each other rank is where it was"


# torchrun waits for the other launchers before it reports a failure, 300 s; but not once their store, rank 0, is gone.
@pytest.mark.parametrize(("framework", "rank"), [("torch", 1), ("torchrun", 1), ("torchrun", 0), ("mpi", 1)])
def test_a_gang_starts_again_when_a_node_crashes(new_run: NewRun, framework: str, rank: int) -> None:
    run = new_run(framework, LOST)
    run.start()
    run.strike(f"node of rank {rank} crashes", lambda: run.cluster.crash(run.node_of(rank)), ranks=[rank])
    run.recover()
    assert_restarted_for_the_node(run)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_gang_starts_again_when_a_node_loses_its_power(new_run: NewRun, framework: str) -> None:
    run = new_run(framework, LOST)
    run.start()
    run.strike("node of rank 1 loses its power", lambda: run.cluster.lose_power(run.node_of(1)), ranks=[1])
    run.recover()
    assert_restarted_for_the_node(run)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_gang_starts_again_when_a_node_is_cut_from_the_masters(new_run: NewRun, framework: str) -> None:
    run = new_run(framework, f"{LOST}\non_disconnect: stop")
    run.start()
    act = partial(run.cluster.cut_from_masters, run.node_of(1))
    run.strike("node of rank 1 is cut from the masters", act, ranks=[1])
    run.recover()
    assert_restarted_for_the_node(run)


def test_an_elastic_gang_is_whole_again_after_a_node_crashed(new_run: NewRun) -> None:
    run = new_run("torchrun c10d", f"{CONTINUE}\n{LOST}\non_disconnect: stop")
    run.start()
    run.strike("node of rank 1 crashes", lambda: run.cluster.crash(run.node_of(1)), ranks=[1])
    run.recover()
    found = run.detail()
    assert (found.state, found.job.running, found.job.attempt) == (JobState.RUNNING, 3, 1)
    assert run.is_beyond()


def test_ranks_that_meet_at_a_store_of_its_own_go_on_without_any_of_them(new_run: NewRun) -> None:
    gang = 'gang: {min: "60%", on_member_failure: continue}'  # the store and two of three workers
    run = new_run("torchrun c10d, own store", f"{gang}\n{LOST}\non_disconnect: stop")
    run.start()
    store = run.detail().tasks[0].node_id
    rank = next(rank for rank, step in run.last().items() if step.node != store)
    run.strike("node of a rank crashes", lambda: run.cluster.crash(run.node_of(rank)), ranks=[rank])
    run.recover()
    found = run.detail()
    assert (found.state, found.job.attempt, found.job.restarts) == (JobState.RUNNING, 1, 0)
    assert run.is_beyond()


@pytest.mark.parametrize("gang", [ELASTIC, CONTINUE], ids=["restart_gang", "continue"])
def test_an_elastic_gang_lives_through_the_loss_of_the_store_it_met_at(new_run: NewRun, gang: str) -> None:
    run = new_run("torchrun c10d", f"{gang}\n{LOST}")
    run.start()
    run.strike("node of rank 0, with the store, crashes", lambda: run.cluster.crash(run.node_of(0)), ranks=[0])
    run.recover()
    found = run.detail()
    assert found.state is JobState.RUNNING
    assert (found.job.attempt, found.job.restarts) == (2, 0)
    assert run.is_beyond()
