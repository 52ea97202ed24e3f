"""Jobs that wait for others, and what the end of a job does to those that wait for it."""

import pytest

from gosched.core.commands.cluster import PassTime
from gosched.core.commands.command import Command
from gosched.core.commands.jobs import CancelJob, DropFinishedJobs, SubmitJob
from gosched.core.events import JobUpdated
from gosched.core.outcome import Code
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.job_spec import JobSpec
from gosched.core.state.cluster_state import restore
from gosched.state_machine import apply, dependencies
from tests.state_machine.cluster import Cluster, spec

T = TaskState
SUCCESS, FAILURE, ANY = Condition.SUCCESS, Condition.FAILURE, Condition.ANY


@pytest.fixture
def c() -> Cluster:
    cluster = Cluster()
    cluster.node("n1", cpus=64)
    return cluster


def after(name: str, *wanted: tuple[str, Condition], **more: object) -> JobSpec:
    return spec(name, after=tuple(Dependency(job=job, condition=condition) for job, condition in wanted), **more)


def succeed(c: Cluster, job: str) -> None:
    c.place(job, "n1")
    c.succeed_all(job)


def fail(c: Cluster, job: str) -> None:
    c.place(job, "n1")
    c.report(job, 0, T.FAILED, 3)
    c.report(job, 1, T.KILLED)


def test_a_job_waits_for_the_newest_of_the_name_by_its_id(c):
    c.submit(spec("etl"), "old")
    c.cancel("old")
    c.submit(spec("etl"), "e1")
    c.submit(after("report", ("etl", SUCCESS)), "r1")
    assert c.job("r1").waits_for == (Dependency(job="e1", condition=SUCCESS),)
    assert list(c.state.pending) == ["e1"]
    assert restore(c.state.freeze()).dependents == {"e1": {"r1": None}}


def test_a_job_that_waits_has_no_place_and_gets_one_once_the_other_succeeded(c):
    c.submit(spec("etl"), "e1")
    c.submit(after("report", ("e1", SUCCESS)), "r1")
    c.submit(spec("probe"), "p1")
    succeed(c, "e1")
    assert JobUpdated(job_id="r1") in c.events
    assert (c.job("r1").waits_for, c.job("r1").not_before_ms) == ((), c.state.clock_ms)
    assert list(c.state.pending) == ["p1", "r1"]
    succeed(c, "r1")


@pytest.mark.parametrize(
    ("condition", "end", "starts"),
    [
        (SUCCESS, succeed, True),
        (SUCCESS, fail, False),
        (SUCCESS, Cluster.cancel, False),
        (FAILURE, succeed, False),
        (FAILURE, fail, True),
        (FAILURE, Cluster.cancel, True),
        (ANY, succeed, True),
        (ANY, fail, True),
        (ANY, Cluster.cancel, True),
    ],
)
@pytest.mark.parametrize("ended_before", [True, False])
def test_each_condition_is_met_by_some_ends_and_never_by_others(c, condition, end, starts, ended_before):
    c.submit(spec("etl"), "e1")
    wanted = after("report", ("etl", condition))
    if ended_before:
        end(c, "e1")
        if not starts:
            c.reject(SubmitJob(job_id="r1", spec=wanted), Code.CONFLICT)
            return
    c.submit(wanted, "r1")
    if not ended_before:
        end(c, "e1")
    assert c.job("r1").state is (JobState.PENDING if starts else JobState.CANCELLED)
    assert not starts or c.job("r1").waits_for == ()
    assert ("r1" in c.state.pending) is starts


def test_a_job_that_can_never_start_any_more_is_cancelled_with_the_reason_and_so_are_those_that_wait_for_it(c):
    c.submit(spec("etl"), "e1")
    c.submit(after("report", ("etl", SUCCESS)), "r1")
    c.submit(after("mail", ("report", SUCCESS)), "m1")
    c.submit(after("alarm", ("report", FAILURE)), "a1")
    fail(c, "e1")
    report, mail = c.job("r1"), c.job("m1")
    assert (report.state, report.reason) == (JobState.CANCELLED, "DEPENDENCY_FAILED")
    assert report.detail == "etl ended FAILED (TASK_FAILED)"
    assert (mail.reason, mail.detail) == ("DEPENDENCY_FAILED", "report ended CANCELLED (DEPENDENCY_FAILED)")
    assert (c.job("a1").state, c.job("a1").waits_for) == (JobState.PENDING, ())
    assert c.state.dependents == {}


def test_a_chain_of_thousands_of_jobs_ends_without_deep_calls(c):
    c.submit(spec("job-0"), "j0")
    for n in range(1, 3000):
        body = SubmitJob(job_id=f"j{n}", spec=after(f"job-{n}", (f"j{n - 1}", SUCCESS)))
        apply(c.state, Command(body=body, at_ms=1))
    apply(c.state, Command(body=CancelJob(job_id="j0"), at_ms=2))
    while c.state.follow_ups:
        apply(c.state, Command(body=PassTime(), at_ms=2))
    assert all(job.state is JobState.CANCELLED for job in c.state.jobs.values())


def test_those_that_wait_are_told_in_the_order_in_which_they_came(c):
    c.submit(spec("etl"), "e1")
    for job in ("z", "m", "a"):
        c.submit(after(job, ("etl", ANY)), job)
    c.cancel("e1")
    assert [e.job_id for e in c.events if isinstance(e, JobUpdated)] == ["z", "m", "a"]


def test_a_job_waits_until_all_its_dependencies_are_met(c):
    for job in ("a", "b"):
        c.submit(spec(job), job)
    c.submit(after("report", ("a", SUCCESS), ("b", ANY)), "r1")
    succeed(c, "a")
    assert not any(isinstance(e, JobUpdated) for e in c.events)
    assert [wanted.job for wanted in c.job("r1").waits_for] == ["b"]
    c.cancel("b")
    assert "r1" in c.state.pending


def test_one_job_named_twice_has_to_meet_both_conditions(c):
    c.submit(spec("etl"), "e1")
    c.submit(after("report", ("etl", SUCCESS), ("e1", ANY)), "r1")
    c.submit(after("never", ("etl", SUCCESS), ("e1", FAILURE)), "r2")
    succeed(c, "e1")
    assert (c.job("r1").waits_for, c.job("r2").state) == ((), JobState.CANCELLED)


def test_an_unknown_job_is_to_be_submitted_first_so_no_circle_can_come_to_be(c):
    circle = [SubmitJob(job_id="a1", spec=after("a", ("b", ANY))), SubmitJob(job_id="b1", spec=after("b", ("a", ANY)))]
    for submission in circle:
        assert "there is no such job: submit it first" in c.reject(submission, Code.INVALID)


@pytest.mark.parametrize("itself", ["train", "t1"])
def test_a_job_cannot_wait_for_itself(c, itself):
    c.submit(spec("train"), "old")
    c.cancel("old")
    assert "after names the job itself" in c.reject(
        SubmitJob(job_id="t1", spec=after("train", (itself, ANY))), Code.INVALID
    )


def test_a_dependency_that_cannot_be_met_says_what_to_do(c):
    c.submit(spec("etl"), "e1")
    c.cancel("e1")
    detail = c.reject(SubmitJob(job_id="r1", spec=after("report", ("etl", SUCCESS))), Code.CONFLICT)
    assert detail == "etl has ended CANCELLED, and the job is to start after its success: submit etl again first"


def test_a_dependency_on_a_job_that_is_forgotten_later_stays_met(c):
    c.submit(spec("etl"), "e1")
    c.submit(after("report", ("etl", ANY)), "r1")
    c.cancel("e1")
    c.accept(DropFinishedJobs(keep=0, ended_before_ms=0))
    assert list(c.state.jobs) == list(c.state.pending) == ["r1"]


def test_only_so_many_jobs_wait_for_one(c, monkeypatch):
    monkeypatch.setattr(dependencies, "MAX_DEPENDENTS", 1)
    c.submit(spec("etl"), "e1")
    c.submit(after("a", ("etl", ANY)), "a")
    assert "1 jobs wait for etl already" in c.reject(
        SubmitJob(job_id="b", spec=after("b", ("etl", ANY))), Code.EXHAUSTED
    )
