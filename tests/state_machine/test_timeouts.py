"""What the passing of time does to jobs."""

import pytest

from gosched.core.commands.cluster import PassTime
from gosched.core.events import DeadlineMissed, JobChanged
from gosched.core.records.job import JobIntent, JobState
from gosched.core.records.task import TaskState
from gosched.core.spec.policies import GangPolicy, RetryCause, RetryPolicy
from gosched.state_machine import timeouts
from tests.state_machine.cluster import Cluster, gang, group, spec

T = TaskState


@pytest.fixture
def c() -> Cluster:
    cluster = Cluster()
    cluster.node("n1", cpus=8)
    return cluster


def pass_time(c: Cluster, to_ms: int) -> bool:
    """Whether anything happened."""
    return not c.accept(PassTime(), at_ms=to_ms).unchanged


def test_a_job_that_reaches_its_timeout_is_stopped_and_fails(c):
    c.submit(spec(timeout_ms=1000), "j1")
    c.place("j1", "n1")
    end = c.job("j1").placed_at_ms + 1000
    assert c.state.timers.next_ms() == end
    assert not pass_time(c, end - 1)
    assert pass_time(c, end)
    assert c.task_states("j1") == [T.STOPPING] * 2
    assert (c.job("j1").intent, c.state.timers.next_ms()) == (JobIntent.FAIL, 0)
    for rank in (0, 1):
        c.report("j1", rank, T.KILLED, 143)
    job = c.job("j1")
    assert (job.state, job.reason, job.detail) == (JobState.FAILED, "TIMEOUT", "it ran for its timeout of 1s")


def test_a_timeout_counts_from_the_start_of_each_attempt(c):
    retry = RetryPolicy(max_restarts=1, when=(RetryCause.FAILED,))
    c.submit(spec("train", group(), timeout_ms=1000, retry=retry), "j1")
    c.place("j1", "n1")
    first = c.job("j1").placed_at_ms
    c.report("j1", 0, T.FAILED, 1)
    assert not pass_time(c, first + 5000)
    c.place("j1", "n1")
    assert not pass_time(c, c.job("j1").placed_at_ms + 999)
    assert pass_time(c, c.job("j1").placed_at_ms + 1000)


def test_a_gang_that_never_found_a_place_fails_when_its_patience_is_over(c):
    c.submit(spec(gang=GangPolicy(min_tasks=2, wait_ms=500)), "j1")
    assert not pass_time(c, c.job("j1").submitted_at_ms + 499)
    assert pass_time(c, c.job("j1").submitted_at_ms + 500)
    job = c.job("j1")
    assert (job.state, job.reason) == (JobState.FAILED, "GANG_WAIT_TIMEOUT")
    assert job.detail == "it found no place within its gang.wait of 0.5s"
    assert c.task_states("j1") == [T.KILLED] * 2


def test_a_gang_that_has_started_once_waits_as_long_as_it_takes(c):
    c.submit(spec(gang=GangPolicy(min_tasks=2, wait_ms=500)), "j1")
    c.place("j1", "n1")
    assert not pass_time(c, 10_000)


def test_a_missed_deadline_is_told_once_and_the_job_goes_on(c):
    c.submit(spec(deadline_in_ms=500), "j1")
    c.place("j1", "n1")
    assert pass_time(c, c.job("j1").deadline_ms)
    assert c.events == (DeadlineMissed(job_id="j1", queue="default"),)
    assert (c.job("j1").state, c.job("j1").deadline_missed) == (JobState.RUNNING, True)
    assert not pass_time(c, 10_000)
    c.succeed_all("j1")
    assert c.job("j1").state is JobState.SUCCEEDED


def test_a_deadline_that_lies_in_the_past_is_accepted_and_missed_at_once(c):
    c.submit(spec(deadline_at_ms=1), "j1")
    assert pass_time(c, c.state.clock_ms)
    assert c.job("j1").deadline_missed


def test_a_job_that_ends_in_time_misses_nothing(c):
    c.submit(spec(deadline_in_ms=500), "j1")
    c.cancel("j1")
    assert not pass_time(c, 10_000)


def test_all_that_is_due_for_one_job_happens_at_once(c):
    c.submit(spec(deadline_in_ms=400, gang=GangPolicy(min_tasks=2, wait_ms=500)), "j1")
    pass_time(c, 10_000)
    assert (c.job("j1").deadline_missed, c.job("j1").state) == (True, JobState.FAILED)
    assert isinstance(c.events[0], DeadlineMissed)
    assert isinstance(c.events[-1], JobChanged)


def test_one_command_does_a_bounded_amount_of_it_and_the_rest_stays_due(c, monkeypatch):
    monkeypatch.setattr(timeouts, "MAX_PER_TICK", 4)
    for n in range(5):
        c.submit(spec(f"job-{n}", deadline_at_ms=50 + n), f"j{n}")
    missed = []
    while pass_time(c, 1000):
        missed.append([event.job_id for event in c.events])
    assert missed == [["j0", "j1"], ["j2", "j3"], ["j4"]]
    assert c.state.timers.next_ms() == 0


def test_elastic_tasks_that_wait_end_with_a_job_whose_time_is_up(c):
    c.submit(spec("train", group(count=3, min_count=1), timeout_ms=100), "j1")
    assert c.plan(gang(c.job("j1"), "n1", ranks=[0])) == ()
    pass_time(c, 1000)
    assert c.task_states("j1") == [T.STOPPING, T.PENDING, T.PENDING]
    c.report("j1", 0, T.KILLED)
    assert c.task_states("j1") == [T.KILLED] * 3


def late_job(c: Cluster, **more: object) -> int:
    """Return the moment of its timeout: its node was not heard of before it had passed."""
    c.submit(spec("train", group(), timeout_ms=1000, **more), "j1")
    c.place("j1", "n1")
    c.report("j1", 0, T.RUNNING, started_at_ms=c.state.clock_ms)
    due = c.job("j1").placed_at_ms + 1000
    assert pass_time(c, due + 9000)
    assert c.task_states("j1") == [T.STOPPING]
    return due


def test_a_job_that_ended_before_its_timeout_and_is_heard_of_later_has_succeeded_then(c):
    due = late_job(c)
    c.report("j1", 0, T.SUCCEEDED, 0, ended_at_ms=due)
    job = c.job("j1")
    assert (job.state, job.reason, job.detail, job.ended_at_ms) == (JobState.SUCCEEDED, "", "", due)
    assert job.end_known_at_ms == c.state.clock_ms


def test_a_job_that_failed_before_its_timeout_and_is_heard_of_later_is_tried_again(c):
    due = late_job(c, retry=RetryPolicy(max_restarts=1, when=(RetryCause.FAILED,)))
    c.report("j1", 0, T.FAILED, 3, ended_at_ms=due - 1)
    assert (c.job("j1").state, c.job("j1").attempt) == (JobState.PENDING, 2)


@pytest.mark.parametrize(("state", "later_ms"), [(T.SUCCEEDED, 1), (T.KILLED, 0)])
def test_a_job_that_ended_later_or_was_stopped_has_met_its_timeout(c, state, later_ms):
    due = late_job(c)
    c.report("j1", 0, state, 0, ended_at_ms=due + later_ms)
    assert (c.job("j1").state, c.job("j1").reason) == (JobState.FAILED, "TIMEOUT")


def test_a_deadline_that_was_kept_is_not_missed_though_the_end_is_heard_of_later(c):
    c.submit(spec("train", group(), deadline_in_ms=1000), "j1")
    c.place("j1", "n1")
    deadline = c.job("j1").deadline_ms
    assert pass_time(c, deadline + 9000)
    assert c.job("j1").deadline_missed
    c.report("j1", 0, T.SUCCEEDED, 0, ended_at_ms=deadline)
    assert not c.job("j1").deadline_missed


def test_times_of_an_agent_are_taken_as_far_as_they_can_be_true(c):
    c.submit(spec("train", group(count=2)), "j1")
    c.place("j1", "n1")
    placed = c.job("j1").placed_at_ms
    c.report("j1", 0, T.SUCCEEDED, 0, started_at_ms=placed - 50, ended_at_ms=placed - 20)
    c.report("j1", 1, T.SUCCEEDED, 0, started_at_ms=1 << 50, ended_at_ms=1 << 51)
    now = c.state.clock_ms
    assert [(t.started_at_ms, t.ended_at_ms) for t in c.tasks("j1")] == [(placed, placed), (now, now)]
