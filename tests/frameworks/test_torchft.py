"""torchft: a replica is lost, the others go on, and another one takes its place and gets their state."""

from __future__ import annotations

import pytest

from gosched.core.records.job import JobState
from tests.frameworks.conftest import NewRun
from tests.frameworks.hosts import kill
from tests.frameworks.jobs import FAILED, LOST
from tests.frameworks.runs import Run

CONTINUE = 'gang: {min: "50%", on_member_failure: continue, replace_after: 0s}'  # the lighthouse and two replicas


def lost_replica(run: Run) -> int:
    """Return a replica that is not on the node of the lighthouse."""
    lighthouse = run.detail().tasks[0].node_id
    return next(rank for rank, step in run.last().items() if step.node != lighthouse)


def assert_healed(run: Run) -> None:
    found = run.detail()
    assert (found.state, found.job.running) == (JobState.RUNNING, 4)
    assert run.is_beyond()
    assert len(run.kept_pids()) == 2
    assert run.row().steps_lost == 0


@pytest.mark.parametrize(
    ("lease", "words"),
    [({}, ""), ({"heartbeat": "500ms", "node_timeout": "2s"}, ", `node_timeout` 2 s")],
    ids=["default", "short"],
)
def test_replicas_go_on_while_the_one_of_a_crashed_node_is_replaced(new_run: NewRun, words: str) -> None:
    run = new_run("torchft", f"{CONTINUE}\n{LOST}")
    run.start()
    rank = lost_replica(run)
    run.strike(f"node of a replica crashes{words}", lambda: run.cluster.crash(run.node_of(rank)), ranks=[rank])
    run.recover()
    assert_healed(run)
    assert run.detail().job.restarts == 0


def test_replicas_go_on_while_one_that_failed_is_started_again(new_run: NewRun) -> None:
    run = new_run("torchft", f"{CONTINUE}\n{FAILED}")
    run.start()
    rank = lost_replica(run)
    run.strike("a replica is killed", lambda: kill(run.last()[rank].pid), ranks=[rank])
    run.recover()
    assert_healed(run)
