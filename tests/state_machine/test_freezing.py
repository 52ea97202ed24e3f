"""Jobs that are suspended in place: their tasks stand still, and keep their room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.commands.cluster import PassTime
from gosched.core.commands.jobs import Action, ControlJob
from gosched.core.events import FenceChanged, JobFrozen, JobUpdated
from gosched.core.records.job import JobIntent, JobState
from gosched.core.records.task import TaskState
from gosched.core.spec.array import Array
from tests.state_machine.cluster import Cluster, gang, group, retrying, spec
from tests.state_machine.test_evictions import evict, forced, high, low

T, J = TaskState, JobState
FREEZE, SUSPEND, RESUME, REQUEUE, HOLD = (
    Action.FREEZE, Action.SUSPEND, Action.RESUME, Action.REQUEUE, Action.HOLD)  # fmt: skip


@pytest.fixture
def c() -> Cluster:
    made = Cluster()
    for node in ("n1", "n2"):
        made.node(node)
    return made


def do(c: Cluster, action: Action, job: str = "j1") -> None:
    c.accept(ControlJob(job_id=job, action=action))


def frozen(c: Cluster, wanted=None) -> None:
    c.submit(wanted or retrying(), "j1")
    c.place("j1", "n1", "n2")
    c.run_all("j1")
    do(c, FREEZE)


def test_a_frozen_job_keeps_its_room_is_shown_as_suspended_and_runs_on_when_it_is_resumed(c):
    frozen(c)
    assert c.events == (JobFrozen(job_id="j1", frozen=True, node_ids=("n1", "n2")), JobUpdated(job_id="j1"))
    job = c.job("j1")
    assert (job.state, job.shown_state, job.frozen, job.active) == (J.RUNNING, J.SUSPENDED, True, 2)
    assert c.task_states("j1") == [T.RUNNING] * 2
    assert c.accept(ControlJob(job_id="j1", action=FREEZE)).unchanged
    do(c, RESUME)
    assert c.events == (JobFrozen(job_id="j1", frozen=False, node_ids=("n1", "n2")), JobUpdated(job_id="j1"))
    assert (c.job("j1").shown_state, c.job("j1").attempt) == (J.RUNNING, 1)
    assert c.accept(ControlJob(job_id="j1", action=RESUME)).unchanged
    c.succeed_all("j1")
    assert c.job("j1").state is J.SUCCEEDED


@pytest.mark.parametrize(
    ("stop", "after"),
    [
        (lambda c: do(c, SUSPEND), J.SUSPENDED),
        (lambda c: do(c, REQUEUE), J.PENDING),
        (lambda c: c.cancel("j1"), J.CANCELLED),
        (lambda c: c.report("j1", 0, T.FAILED, 1), J.SUSPENDED),
        (lambda c: c.die("n1"), J.SUSPENDED),
        (lambda c: (do(c, HOLD), do(c, REQUEUE)), J.PENDING),
    ],
    ids=["suspended", "requeued", "cancelled", "a member fails", "a node dies", "held and requeued"],
)
def test_what_stops_a_frozen_job_thaws_it(c, stop, after):
    frozen(c)
    stop(c)
    assert not c.job("j1").frozen
    assert JobUpdated(job_id="j1") in c.events
    for rank in (0, 1):
        if c.tasks("j1")[rank].state is T.STOPPING:
            c.report("j1", rank, T.KILLED)
    assert (c.job("j1").state, c.job("j1").frozen) == (after, False)


def test_a_frozen_job_that_loses_its_room_waits_for_a_resume(c):
    frozen(c)
    c.die("n1")
    c.report("j1", 1, T.KILLED)
    assert (c.job("j1").state, c.job("j1").reason, c.state.pending) == (J.SUSPENDED, "NODE_LOST", {})
    do(c, RESUME)
    assert list(c.state.pending) == ["j1"]


def test_a_frozen_job_that_ends_all_the_same_is_not_frozen(c):
    frozen(c)
    c.succeed_all("j1")
    assert (c.job("j1").state, c.job("j1").frozen) == (J.SUCCEEDED, False)


def test_the_timeout_of_a_frozen_job_goes_on(c):
    frozen(c, spec(timeout_ms=1000))
    end = c.job("j1").placed_at_ms + 1000
    assert c.state.timers.next_ms() == end
    c.accept(PassTime(), at_ms=end)
    assert (c.job("j1").reason, c.job("j1").intent, c.job("j1").frozen) == ("TIMEOUT", JobIntent.FAIL, False)


def test_a_frozen_job_may_be_evicted(c):
    c.submit(low(), "v")
    c.place("v", "n1")
    do(c, FREEZE, "v")
    c.submit(high(), "p")
    assert c.plan(forced(c, "p", evict(c.job("v")))) == ()
    assert (c.job("v").intent, c.job("v").frozen) == (JobIntent.SUSPEND, False)


def test_nothing_joins_a_frozen_job_and_a_fence_for_that_is_dropped(c):
    c.submit(spec("grow", group(count=3, min_count=1), priority=9), "j1")
    assert c.plan(gang(c.job("j1"), "n2", ranks=(0,))) == ()
    c.submit(low(), "v")
    c.place("v", "n1")
    joining = gang(c.job("j1"), "n1", ranks=(1,))
    assert c.plan(replace(joining, evictions=(evict(c.job("v")),))) == ()
    do(c, FREEZE)
    dropped = [e.why for e in c.events if isinstance(e, FenceChanged)]
    assert dropped == ["the job is RUNNING and does not wait for it any more"]
    assert (c.state.pending, c.state.fences, c.job("j1").unplaced) == ({}, {}, 2)
    assert c.refused(joining) == "the job is RUNNING and does not wait for a place"
    do(c, RESUME)
    assert list(c.state.pending) == ["j1"]


def test_a_job_that_waits_is_suspended_instead(c):
    c.submit(spec(), "j1")
    do(c, FREEZE)
    assert (c.job("j1").state, c.job("j1").frozen) == (J.SUSPENDED, False)
    do(c, RESUME)
    assert c.job("j1").state is J.PENDING


def test_a_job_that_stops_to_start_again_is_suspended_once_it_has(c):
    c.submit(retrying(), "j1")
    c.place("j1", "n1", "n2")
    c.report("j1", 0, T.FAILED, 1)
    do(c, FREEZE)
    assert (c.job("j1").intent, c.job("j1").frozen) == (JobIntent.SUSPEND, False)
    c.report("j1", 1, T.KILLED)
    assert c.job("j1").state is J.SUSPENDED


def test_of_an_array_what_runs_is_frozen_what_waits_is_suspended_and_no_more_is_made(c):
    c.submit(spec("sweep", group(), array=Array(last=9, step=1, parallelism=2)), "a")
    c.place("a.0", "n1")
    do(c, FREEZE, "a")
    states = [c.job(j).shown_state for j in ("a", "a.0", "a.1")]
    assert (states, c.job("a.0").frozen, c.job("a.1").frozen) == ([J.SUSPENDED] * 3, True, False)
    c.succeed_all("a.0")
    assert c.job("a").children.made == 2
    do(c, RESUME, "a")
    assert ([c.job(j).state for j in ("a", "a.1")], c.job("a").children.made) == ([J.RUNNING, J.PENDING], 3)


def test_a_frozen_array_gives_its_room_back_when_it_is_suspended_for_that(c):
    c.submit(spec("sweep", group(), array=Array(last=9, step=1, parallelism=1)), "a")
    c.place("a.0", "n1")
    do(c, FREEZE, "a")
    do(c, SUSPEND, "a")
    assert (c.task_states("a.0"), c.job("a.0").intent) == ([T.STOPPING], JobIntent.SUSPEND)
    c.report("a.0", 0, T.KILLED)
    do(c, RESUME, "a")
    assert (c.job("a").state, c.job("a.0").state, c.job("a.0").attempt) == (J.RUNNING, J.PENDING, 2)
