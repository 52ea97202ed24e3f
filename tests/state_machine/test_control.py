"""Hold and release, suspend and resume, requeue."""

import pytest

from gosched.core.commands.cluster import PassTime
from gosched.core.commands.jobs import Action, ControlJob, SubmitJob
from gosched.core.commands.plans import CommitPlan
from gosched.core.events import JobChanged, JobUpdated, ReservationChanged
from gosched.core.outcome import Code
from gosched.core.records.job import JobIntent, JobState
from gosched.core.records.reservation import Reservation, Share
from gosched.core.records.task import TaskState
from gosched.core.resources import ZERO
from gosched.core.spec.policies import GangPolicy
from tests.state_machine.cluster import Cluster, failing_fast, gang, group, retrying, spec

T = TaskState
HOLD, RELEASE, SUSPEND, RESUME, REQUEUE = (
    Action.HOLD, Action.RELEASE, Action.SUSPEND, Action.RESUME, Action.REQUEUE)  # fmt: skip


@pytest.fixture
def c() -> Cluster:
    cluster = Cluster()
    cluster.node("n1")
    return cluster


def control(c: Cluster, action: Action, job: str = "j1") -> bool:
    """Whether it changed anything; a repeat does not."""
    changed = not c.accept(ControlJob(job_id=job, action=action)).unchanged
    events = c.events
    assert c.accept(ControlJob(job_id=job, action=action)).unchanged
    assert c.events == ()
    c.events = events
    return changed


def refused(c: Cluster, action: Action) -> str:
    return c.reject(ControlJob(job_id="j1", action=action), Code.CONFLICT)


def running(c: Cluster, wanted=None) -> None:
    c.submit(wanted or spec(), "j1")
    c.place("j1", "n1")
    c.run_all("j1")


def stopped(c: Cluster) -> None:
    for rank in (0, 1):
        c.report("j1", rank, T.KILLED, 143)


def promised(c: Cluster) -> None:
    promise = Reservation(
        job_id="j1", attempt=1, start_ms=900, shares=(Share(group="worker", node_id="n1", count=2),), made_at_ms=1
    )
    assert c.accept(SubmitJob(job_id="j1", spec=spec(), reservation=(promise,))).refusals == ()
    assert c.state.reservations == {"j1": promise}


def test_a_held_job_is_not_placed_until_it_is_released(c):
    c.submit(spec(), "j1")
    assert control(c, HOLD, "train")
    assert (c.job("j1").held, c.state.pending) == (True, {})
    assert c.events == (JobUpdated(job_id="j1"),)
    assert "does not wait for a place" in c.refused(gang(c.job("j1"), "n1"))
    assert control(c, RELEASE)
    assert c.events == (JobUpdated(job_id="j1"),)
    c.place("j1", "n1")


def test_a_job_may_be_submitted_held(c):
    c.submit(spec(hold=True), "j1")
    assert (c.job("j1").held, c.state.pending) == (True, {})
    assert control(c, RELEASE)
    assert list(c.state.pending) == ["j1"]


def test_a_held_job_that_runs_goes_on_but_is_not_started_again(c):
    running(c, retrying())
    assert control(c, HOLD)
    assert c.task_states("j1") == [T.RUNNING] * 2
    c.report("j1", 0, T.FAILED, 1)
    c.report("j1", 1, T.KILLED)
    assert (c.job("j1").state, c.state.pending) == (JobState.PENDING, {})
    control(c, RELEASE)
    c.place("j1", "n1")


def test_a_held_gang_that_runs_gets_no_more_elastic_tasks(c):
    c.submit(spec("train", group(count=3, min_count=1)), "j1")
    assert c.plan(gang(c.job("j1"), "n1", ranks=[0])) == ()
    control(c, HOLD)
    assert c.state.pending == {}
    control(c, RELEASE)
    assert list(c.state.pending) == ["j1"]


@pytest.mark.parametrize("action", [HOLD, SUSPEND])
def test_a_promise_ends_when_its_job_is_held_or_suspended(c, action):
    promised(c)
    c.accept(ControlJob(job_id="j1", action=action))
    assert c.state.reservations == {}
    assert ReservationChanged(job_id="j1", start_ms=0) in c.events


def test_a_suspended_job_stops_and_comes_back_in_its_old_place_without_charge(c):
    running(c, failing_fast())
    c.submit(spec("later"), "j2")
    assert control(c, SUSPEND)
    assert (c.task_states("j1"), c.job("j1").intent) == ([T.STOPPING] * 2, JobIntent.SUSPEND)
    stopped(c)
    job = c.job("j1")
    assert (job.state, job.intent, job.reason) == (JobState.SUSPENDED, JobIntent.RUN, "SUSPENDED")
    assert (job.attempt, job.restarts, job.not_before_ms) == (2, 0, 0)
    assert [(t.state, t.attempt) for t in c.tasks("j1")] == [(T.PENDING, 2)] * 2
    assert (c.state.usage["n1"], list(c.state.pending)) == (ZERO, ["j2"])
    assert control(c, RESUME)
    assert (c.job("j1").state, c.job("j1").sequence, c.job("j1").reason) == (JobState.PENDING, 1, "")
    c.place("j1", "n1")
    c.succeed_all("j1")
    assert c.job("j1").state is JobState.SUCCEEDED


def test_a_job_that_waits_is_suspended_at_once(c):
    c.submit(spec(), "j1")
    assert control(c, SUSPEND)
    assert c.events == (
        JobChanged(job_id="j1", queue="default", before=JobState.PENDING, after=JobState.SUSPENDED, reason="SUSPENDED"),
    )
    assert (c.job("j1").attempt, c.state.pending) == (1, {})
    control(c, RESUME)
    c.place("j1", "n1")
    assert c.job("j1").started_at_ms == c.state.clock_ms


def test_a_job_resumed_while_it_stops_waits_again_once_it_has(c):
    running(c)
    c.accept(ControlJob(job_id="j1", action=SUSPEND))
    assert control(c, RESUME)
    stopped(c)
    assert (c.job("j1").state, c.job("j1").attempt, c.job("j1").restarts) == (JobState.PENDING, 2, 0)


def test_a_job_may_be_suspended_and_held_both(c):
    c.submit(spec(), "j1")
    control(c, SUSPEND)
    control(c, HOLD)
    control(c, RESUME)
    assert (c.job("j1").state, c.state.pending) == (JobState.PENDING, {})
    control(c, RELEASE)
    assert list(c.state.pending) == ["j1"]


def test_a_suspended_job_can_be_cancelled(c):
    c.submit(spec(), "j1")
    control(c, SUSPEND)
    c.cancel("j1")
    assert (c.job("j1").state, c.task_states("j1")) == (JobState.CANCELLED, [T.KILLED] * 2)


def test_suspending_a_gang_that_is_to_restart_keeps_what_it_was_charged(c):
    running(c, retrying(backoff_ms=5000))
    c.report("j1", 0, T.FAILED, 1)
    assert control(c, SUSPEND)
    c.report("j1", 1, T.KILLED)
    assert (c.job("j1").state, c.job("j1").restarts, c.job("j1").not_before_ms) == (JobState.SUSPENDED, 1, 0)


def test_a_requeued_job_restarts_whatever_its_policy_is_and_without_backoff(c):
    running(c, failing_fast())
    assert control(c, REQUEUE)
    assert (c.task_states("j1"), c.job("j1").intent) == ([T.STOPPING] * 2, JobIntent.RESTART)
    stopped(c)
    job = c.job("j1")
    assert (job.state, job.attempt, job.restarts, job.not_before_ms) == (JobState.PENDING, 2, 0, 0)
    assert (job.reason, job.sequence) == ("REQUEUED", 1)
    assert list(c.state.pending) == ["j1"]


def test_requeueing_a_job_that_waits_changes_nothing(c):
    c.submit(spec(), "j1")
    assert not control(c, REQUEUE)


@pytest.mark.parametrize("action", [RELEASE, RESUME])
def test_what_is_neither_held_nor_suspended_stays_as_it_is(c, action):
    running(c)
    assert not control(c, action)


def test_a_suspended_job_is_resumed_not_requeued(c):
    running(c)
    c.accept(ControlJob(job_id="j1", action=SUSPEND))
    assert refused(c, REQUEUE) == "job train is suspended: resume it instead"
    stopped(c)
    assert refused(c, REQUEUE) == "job train is suspended: resume it instead"


@pytest.mark.parametrize("action", [HOLD, RELEASE, SUSPEND, RESUME, REQUEUE])
def test_a_job_that_has_ended_or_is_about_to_is_left_alone(c, action):
    running(c)
    c.cancel("j1")
    assert "job train is about to end (CANCELLED): wait for its end" in refused(c, action)
    stopped(c)
    assert refused(c, action) == "job train has ended CANCELLED: submit it again"


def test_an_unknown_job_or_action_is_refused(c):
    assert c.reject(ControlJob(job_id="x\n", action=HOLD), Code.NOT_FOUND) == "no job 'x\\n'"
    c.submit(spec(), "j1")
    c.reject(ControlJob(job_id="j1", action=Action.UNSPECIFIED), Code.INVALID)


@pytest.mark.parametrize(("stop", "go"), [(HOLD, RELEASE), (SUSPEND, RESUME)])
def test_the_patience_of_a_gang_counts_from_when_it_may_start(c, stop, go):
    c.submit(spec(gang=GangPolicy(min_tasks=2, wait_ms=500)), "j1")
    control(c, stop)
    assert c.state.timers.next_ms() == 0
    assert c.accept(PassTime(), at_ms=5000).unchanged
    c.accept(ControlJob(job_id="j1", action=go))
    assert c.state.timers.next_ms() == c.state.clock_ms + 500


def test_releasing_a_job_does_not_cut_its_backoff_short(c):
    running(c, retrying(backoff_ms=5000))
    control(c, HOLD)
    c.report("j1", 0, T.FAILED, 1)
    c.report("j1", 1, T.KILLED)
    wanted = c.job("j1").not_before_ms
    control(c, RELEASE)
    assert c.job("j1").not_before_ms == wanted > c.state.clock_ms
    c.accept(CommitPlan(revision=0, gangs=()), at_ms=wanted)
    c.place("j1", "n1")


def test_a_held_job_forgets_nothing_of_what_it_waits_for(c):
    c.submit(spec("train", hold=True, deadline_in_ms=100), "j1")
    c.accept(PassTime(), at_ms=1000)
    assert c.job("j1").deadline_missed
