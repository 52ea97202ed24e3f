"""Schedules: each run is a job of its own."""

import pytest

from gosched.core.commands.jobs import Action, ControlJob, RunSchedule, SubmitJob
from gosched.core.events import JobUpdated
from gosched.core.features import FeatureLevel
from gosched.core.outcome import Code
from gosched.core.records.job import Children, JobState
from gosched.core.records.task import TaskState
from gosched.core.spec.array import Array
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.job_spec import JobSpec, Overlap
from gosched.state_machine import children
from gosched.state_machine.children import max_live_children
from tests.state_machine.cluster import Cluster, group, spec

T = TaskState


@pytest.fixture
def c() -> Cluster:
    cluster = Cluster()
    cluster.node("n1", cpus=64)
    return cluster


def nightly(overlap: Overlap = Overlap.ALLOW, **more: object) -> JobSpec:
    return spec("nightly", group(), cron="* * * * *", timezone="UTC", overlap=overlap, **more)


def submit(c: Cluster, wanted: JobSpec) -> None:
    c.accept(SubmitJob(job_id="s1", spec=wanted, next_run_at_ms=1000))


def run(c: Cluster, child_id: str = "") -> str:
    """The next run, when it is due, the one after that a second later: the child's id, or empty."""
    due = c.job("s1").children.next_run_at_ms
    body = RunSchedule(job_id="s1", child_id=child_id or f"run-{due}", due_at_ms=due, next_run_at_ms=due + 1000)
    return c.accept(body, at_ms=max(due, c.state.clock_ms + 1)).subject


def live(c: Cluster) -> list[str]:
    return [job.spec.name for job in children.live_children(c.state, "s1")]


def control(c: Cluster, action: Action) -> None:
    c.accept(ControlJob(job_id="s1", action=action))


def test_a_schedule_waits_for_its_first_run_and_has_no_tasks(c):
    submit(c, nightly())
    assert (c.job("s1").state, c.tasks("s1")) == (JobState.PENDING, [])
    assert c.job("s1").children == Children(next_run_at_ms=1000)
    assert c.state.pending == {}


def test_each_run_is_a_numbered_job_and_the_schedule_runs_on(c):
    submit(c, nightly(priority=5))
    assert run(c) == "run-1000"
    child = c.job("run-1000")
    assert (child.parent, child.element) == ("s1", 1)
    assert child.spec == spec("nightly.1", group(), priority=5)
    c.place("run-1000", "n1")
    c.report("run-1000", 0, T.FAILED, 1)
    assert run(c) == "run-2000"
    parent = c.job("s1")
    assert parent.state is JobState.RUNNING
    assert parent.children == Children(made=2, live=1, failed=1, next_run_at_ms=3000)
    assert live(c) == ["nightly.2"]
    assert JobUpdated(job_id="s1") in c.events


@pytest.mark.parametrize("overlap", [Overlap.UNSPECIFIED, Overlap.ALLOW])
def test_runs_may_overlap(c, overlap):
    submit(c, nightly(overlap))
    assert [run(c), run(c)] == ["run-1000", "run-2000"]
    assert live(c) == ["nightly.1", "nightly.2"]


def test_a_run_is_skipped_while_the_one_before_lives_if_overlap_is_forbidden(c):
    submit(c, nightly(Overlap.FORBID))
    run(c)
    assert run(c) == ""
    assert c.job("s1").detail == "skipped the run that was due at 1970-01-01T00:00:02Z: the run before it has not ended"
    assert c.job("s1").children == Children(made=1, live=1, next_run_at_ms=3000)
    c.cancel("run-1000")
    assert run(c) == "run-3000"
    assert (live(c), c.job("s1").detail) == (["nightly.2"], "")


def test_a_run_replaces_the_one_that_lives_and_starts_at_once(c):
    submit(c, nightly(Overlap.REPLACE))
    run(c)
    c.place("run-1000", "n1")
    assert run(c) == "run-2000"
    old = c.job("run-1000")
    assert (c.task_states(old.id), old.reason, old.detail) == ([T.STOPPING], "REPLACED", "the next run has begun")
    assert list(c.state.pending) == ["run-2000"]
    assert run(c) == "run-3000"
    assert (c.job("run-2000").state, live(c)) == (JobState.CANCELLED, ["nightly.1", "nightly.3"])


@pytest.mark.parametrize(
    ("due", "next_run", "at", "why"),
    [
        (999, 2000, 5000, "is due at 1000 ms, not at 999 ms"),
        (2000, 3000, 5000, "is due at 1000 ms, not at 2000 ms"),
        (1000, 2000, 990, "is due in 10 ms"),
        (1000, 1000, 5000, "the run after that at 1000 ms cannot be at 1000 ms"),
    ],
)
def test_only_the_run_that_is_due_is_made(c, due, next_run, at, why):
    submit(c, nightly())
    outcome = c.do(RunSchedule(job_id="s1", child_id="r", due_at_ms=due, next_run_at_ms=next_run), at_ms=at)
    assert why in outcome.detail
    assert live(c) == []


def test_a_run_is_made_once_whoever_asks_again(c):
    submit(c, nightly())
    again = RunSchedule(job_id="s1", child_id="r2", due_at_ms=1000, next_run_at_ms=2000)
    run(c)
    assert "is due at 2000 ms" in c.reject(again, Code.CONFLICT)


def test_the_last_run_leaves_a_schedule_that_waits_to_be_cancelled(c):
    submit(c, nightly())
    c.accept(RunSchedule(job_id="s1", child_id="r1", due_at_ms=1000, next_run_at_ms=0), at_ms=1000)
    c.cancel("r1")
    assert c.job("s1").state is JobState.RUNNING
    c.reject(RunSchedule(job_id="s1", child_id="r2", due_at_ms=0, next_run_at_ms=0), Code.CONFLICT)


def test_what_is_no_schedule_or_not_there_runs_nothing(c):
    c.submit(spec(), "j1")
    body = RunSchedule(job_id="j1", child_id="r", due_at_ms=1, next_run_at_ms=2)
    assert c.reject(body, Code.CONFLICT) == "job j1 is no schedule"
    c.reject(RunSchedule(job_id="s1", child_id="r", due_at_ms=1, next_run_at_ms=2), Code.NOT_FOUND)
    submit(c, nightly())
    c.cancel("s1")
    body = RunSchedule(job_id="s1", child_id="r", due_at_ms=1000, next_run_at_ms=2000)
    assert c.reject(body, Code.CONFLICT) == "schedule s1 is at its end"


def test_a_held_or_suspended_schedule_skips_its_runs(c):
    submit(c, nightly(hold=True))
    assert run(c) == ""
    control(c, Action.RELEASE)
    assert run(c) == "run-2000"
    control(c, Action.SUSPEND)
    assert c.job("run-2000").state is JobState.SUSPENDED
    assert run(c) == ""
    assert c.job("s1").detail.endswith("it was held, suspended, or waited for other jobs")
    control(c, Action.RESUME)
    assert (c.job("s1").state, c.job("run-2000").state) == (JobState.RUNNING, JobState.PENDING)
    assert run(c) == "run-4000"


def test_a_schedule_that_waits_for_a_job_skips_runs_until_then(c):
    c.submit(spec("etl"), "e1")
    submit(c, nightly(after=(Dependency(job="etl", condition=Condition.ANY),)))
    assert run(c) == ""
    c.cancel("e1")
    assert run(c) == "run-2000"


def test_cancelling_a_schedule_cancels_its_runs_and_ends_after_them(c):
    submit(c, nightly())
    run(c)
    run(c)
    c.place("run-1000", "n1")
    c.cancel("nightly")
    assert (c.job("run-2000").state, c.job("s1").state) == (JobState.CANCELLED, JobState.RUNNING)
    c.report("run-1000", 0, T.KILLED)
    assert c.job("s1").state is JobState.CANCELLED
    assert c.job("s1").children == Children(made=2, cancelled=2, next_run_at_ms=3000)


def test_each_run_of_a_scheduled_array_is_an_array(c):
    submit(c, nightly(array=Array(last=2, step=1, parallelism=2)))
    run(c)
    assert (c.job("run-1000").spec.array.size, c.job("run-1000").state) == (3, JobState.RUNNING)
    assert list(c.state.pending) == ["run-1000.0", "run-1000.1"]
    assert c.job("run-1000.1").spec.name == "nightly.1.1"
    for element in range(3):
        c.place(f"run-1000.{element}", "n1")
        c.report(f"run-1000.{element}", 0, T.SUCCEEDED, 0)
    assert c.job("run-1000").state is JobState.SUCCEEDED
    assert c.job("s1").children == Children(made=1, succeeded=1, next_run_at_ms=2000)
    run(c)
    c.cancel("s1")
    assert all(job.state.is_final for job in c.state.jobs.values())
    assert c.state.pending == {}


def test_each_run_has_a_deadline_of_its_own(c):
    submit(c, nightly(deadline_in_ms=300))
    assert c.state.timers.next_ms() == 0
    run(c)
    run(c)
    assert (c.job("run-1000").deadline_ms, c.job("run-2000").deadline_ms) == (1300, 2300)


def test_a_run_without_room_is_skipped(c, monkeypatch):
    submit(c, nightly())
    monkeypatch.setattr(children, "MAX_LIVE_JOBS", 1)
    assert run(c) == ""
    assert c.job("s1").detail.endswith("the cluster holds 1 live jobs, its limit")


def test_a_schedule_has_only_so_many_runs_at_once(c):
    submit(c, spec("nightly", group(count=15_000, cpus=0), cron="* * * * *", timezone="UTC"))
    assert (run(c), run(c)) == ("run-1000", "")
    assert c.job("s1").detail.endswith("1 runs live, as many as may")


def test_scheduled_arrays_are_counted_with_all_that_may_live_of_them():
    assert max_live_children(nightly(array=Array(last=99, step=1, parallelism=1000)), FeatureLevel.BOUNDED) == 20
    assert max_live_children(nightly(array=Array(last=99, step=1)), FeatureLevel.BOUNDED) == 20
    assert max_live_children(nightly(array=Array(last=99, step=1)), FeatureLevel.FIRST) == 2


@pytest.mark.parametrize(
    ("wanted", "next_run", "why"),
    [
        (nightly(), 0, "schedule nightly lacks the time of its first run"),
        (nightly(), 1 << 60, "the first run at 1152921504606846976 ms is not between"),
        (spec("nightly", cron="* * * * *"), 1000, "schedule nightly lacks its time zone"),
        (spec("nightly", cron="*\n", timezone="UTC"), 1000, "schedule.cron"),
    ],
)
def test_a_schedule_without_a_zone_or_a_first_run_is_refused(c, wanted, next_run, why):
    assert why in c.reject(SubmitJob(job_id="s1", spec=wanted, next_run_at_ms=next_run), Code.INVALID)
