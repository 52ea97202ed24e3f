"""A job that begins later: nothing starts it before, whatever is done to it, and a retry knows nothing of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.commands.cluster import PassTime
from gosched.core.commands.jobs import Action, ControlJob, SubmitJob
from gosched.core.features import FeatureLevel
from gosched.core.outcome import Code
from gosched.core.records.job import Children, JobState
from gosched.core.records.task import TaskState
from gosched.core.spec.array import Array
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.policies import GangPolicy
from gosched.core.state.restore import restore
from tests.state_machine.cluster import Cluster, gang, group, retrying, spec

LATER = 5000
HOLD, RELEASE, SUSPEND, RESUME, REQUEUE = (
    Action.HOLD,
    Action.RELEASE,
    Action.SUSPEND,
    Action.RESUME,
    Action.REQUEUE,
)


@pytest.fixture
def c() -> Cluster:
    cluster = Cluster()
    cluster.node("n1", cpus=64)
    return cluster


def control(c: Cluster, *actions: Action, job_id: str = "j1") -> None:
    for action in actions:
        c.accept(ControlJob(job_id=job_id, action=action))


def starts_at_its_begin_and_not_before(c: Cluster, job_id: str = "j1") -> None:
    assert c.job(job_id).not_before_ms == LATER
    c.accept(PassTime(), at_ms=LATER - 2)
    assert "the job waits another" in c.refused(gang(c.job(job_id), "n1"))
    c.place(job_id, "n1")
    assert c.job(job_id).started_at_ms > LATER - 1


@pytest.mark.parametrize(
    "done", [(), (HOLD, RELEASE), (SUSPEND, RESUME), (REQUEUE,), (HOLD, SUSPEND, RESUME, RELEASE)], ids=str
)
def test_a_job_does_not_start_before_its_begin_whatever_is_done_to_it(c, done):
    c.submit(spec(begin_at_ms=LATER), "j1")
    control(c, *done)
    c.state = restore(c.state.freeze())
    starts_at_its_begin_and_not_before(c)


def test_a_begin_counts_from_the_submission(c):
    c.submit(spec(begin_in_ms=LATER - c.state.clock_ms - 1), "j1")
    starts_at_its_begin_and_not_before(c)


def test_a_begin_that_has_passed_is_now(c):
    c.submit(spec(begin_at_ms=1), "j1")
    assert c.job("j1").not_before_ms == 0
    c.place("j1", "n1")


def test_a_held_job_that_is_released_after_its_begin_starts_at_once(c):
    c.submit(spec(begin_at_ms=LATER, hold=True), "j1")
    c.accept(PassTime(), at_ms=LATER + 10)
    control(c, RELEASE)
    c.place("j1", "n1")


@pytest.mark.parametrize("ends_at_ms", [100, LATER + 100])
def test_a_job_waits_for_its_begin_and_for_the_jobs_before_it(c, ends_at_ms):
    c.submit(spec("etl"), "e1")
    c.submit(spec(begin_at_ms=LATER, after=(Dependency(job="etl", condition=Condition.SUCCESS),)), "j1")
    c.place("e1", "n1")
    c.accept(PassTime(), at_ms=ends_at_ms)
    assert "j1" not in c.state.pending
    c.succeed_all("e1")
    if ends_at_ms < LATER:
        starts_at_its_begin_and_not_before(c)
    else:
        c.place("j1", "n1")


def test_once_it_has_begun_its_retries_and_requeues_wait_as_those_of_any_job(c):
    c.submit(replace(retrying(backoff_ms=300), begin_at_ms=LATER), "j1")
    c.accept(PassTime(), at_ms=LATER)
    c.place("j1", "n1")
    c.report("j1", 0, TaskState.FAILED, 1)
    c.report("j1", 1, TaskState.KILLED)
    assert 0 < c.job("j1").not_before_ms - c.state.clock_ms <= 300
    c.accept(PassTime(), at_ms=c.job("j1").not_before_ms)
    c.place("j1", "n1")
    control(c, REQUEUE)
    c.report("j1", 0, TaskState.KILLED)
    c.report("j1", 1, TaskState.KILLED)
    assert c.job("j1").not_before_ms == 0
    c.place("j1", "n1")


def test_the_patience_of_a_gang_counts_from_its_begin(c):
    c.submit(spec(begin_at_ms=LATER, gang=GangPolicy(min_tasks=2, wait_ms=500)), "j1")
    assert c.state.timers.next_ms() == LATER + 500
    control(c, HOLD, RELEASE)
    assert c.state.timers.next_ms() == LATER + 500


@pytest.mark.parametrize(
    "done", [(), (HOLD, RELEASE), (SUSPEND, RESUME), (REQUEUE,), (HOLD, SUSPEND, RESUME, RELEASE)], ids=str
)
@pytest.mark.parametrize("array", [Array(last=2, step=1), Array(last=2, step=1, parallelism=1)], ids=["all", "one"])
def test_an_array_makes_its_elements_at_its_begin_and_they_begin_no_later(c, array, done):
    c.submit(spec("train", group(cpus=1), begin_at_ms=LATER, array=array), "a1")
    control(c, *done, job_id="a1")
    c.accept(PassTime(), at_ms=LATER - 1)
    assert (c.job("a1").state, c.job("a1").children, c.state.timers.next_ms()) == (JobState.PENDING, Children(), LATER)
    c.accept(PassTime(), at_ms=LATER)
    assert c.job("a1").children.live == (array.parallelism or 3)
    c.place("a1.0", "n1")
    c.succeed_all("a1.0")
    assert c.job("a1.1").begin_ms == 0
    c.place("a1.1", "n1")


@pytest.mark.parametrize("released_at_ms", [100, LATER + 100])
def test_an_array_waits_for_its_begin_its_release_and_the_jobs_before_it(c, released_at_ms):
    c.submit(spec("etl"), "e1")
    after = (Dependency(job="etl", condition=Condition.ANY),)
    c.submit(spec("train", begin_at_ms=LATER, hold=True, after=after, array=Array(last=2, step=1)), "a1")
    c.accept(PassTime(), at_ms=released_at_ms)
    c.cancel("e1")
    c.accept(ControlJob(job_id="a1", action=RELEASE))
    assert bool(c.job("a1").children.made) == (released_at_ms > LATER)
    c.accept(PassTime(), at_ms=LATER + 200)
    assert c.job("a1").children.live == 3


def test_a_begin_after_the_deadline_is_refused_as_soon_as_both_are_known(c):
    now = c.state.clock_ms
    for late in (
        spec(begin_in_ms=500, deadline_at_ms=now + 200),
        spec(begin_at_ms=now + 500, deadline_in_ms=200),
    ):
        assert "would begin when its deadline is over" in c.reject(SubmitJob(job_id="j1", spec=late), Code.INVALID)
    c.submit(spec(begin_in_ms=500, deadline_at_ms=now + 2000), "j1")
    c.accept(PassTime(), at_ms=now + 1900)
    repeated = SubmitJob(job_id="j2", spec=spec(begin_in_ms=500, deadline_at_ms=now + 2000))
    assert c.accept(repeated).unchanged


def test_below_its_feature_level_no_job_has_a_begin(c):
    c.state.feature_level = FeatureLevel.BOUNDED - 1
    for early in (spec(begin_at_ms=LATER), spec(begin_in_ms=500)):
        detail = c.reject(SubmitJob(job_id="j1", spec=early), Code.INVALID)
        assert detail.startswith("this feature level has no begin: finalize the upgrade")
