"""Arrays: children are made when they may live, and what becomes of them is what becomes of the array."""

import pytest

from gosched.core.commands.cluster import PassTime
from gosched.core.commands.jobs import Action, ControlJob, DropFinishedJobs, SubmitJob
from gosched.core.events import JobChanged, JobUpdated
from gosched.core.features import FeatureLevel
from gosched.core.limits import DEFAULT_PARALLEL, MAX_ARRAY, MAX_PARALLEL
from gosched.core.outcome import Code
from gosched.core.records.job import Children, Job, JobState
from gosched.core.records.task import TaskState
from gosched.core.spec.array import Array, Axis
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy
from gosched.core.state.restore import restore
from gosched.state_machine import children
from gosched.state_machine.children import LOOK_AGAIN_MS, max_live_children
from tests.state_machine.cluster import Cluster, group, spec

T = TaskState


@pytest.fixture
def c() -> Cluster:
    cluster = Cluster()
    cluster.node("n1", cpus=64)
    return cluster


def array(last: int = 9, *, parallelism: int = 2, max_failures: int = -1, first: int = 0, **more: object) -> JobSpec:
    elements = Array(first=first, last=last, step=1, parallelism=parallelism, max_failures=max_failures)
    return spec("train", group(), array=elements, **more)


def end(c: Cluster, job_id: str, state: TaskState = T.SUCCEEDED) -> None:
    if c.job(job_id).state is JobState.PENDING:
        c.place(job_id, "n1")
    c.report(job_id, 0, state, 0 if state is T.SUCCEEDED else 1)


def live(c: Cluster, parent: str = "a1") -> list[str]:
    return [job.id for job in children.live_children(c.state, parent)]


def parent(c: Cluster) -> Job:
    return c.job("a1")


def test_an_array_has_no_tasks_and_as_many_children_as_may_live_at_once(c):
    c.submit(array(), "a1")
    assert (parent(c).state, c.tasks("a1")) == (JobState.RUNNING, [])
    assert parent(c).children == Children(made=2, live=2)
    child = c.job("a1.0")
    assert (child.parent, child.element, child.spec.name) == ("a1", 0, "train.0")
    assert child.spec == spec("train.0", group())
    assert live(c) == list(c.state.pending) == ["a1.0", "a1.1"]


def test_each_end_makes_the_next_child_and_the_last_one_ends_the_array(c):
    c.submit(array(last=3), "a1")
    for n in range(4):
        assert live(c) == [f"a1.{i}" for i in range(n, min(n + 2, 4))]
        end(c, f"a1.{n}")
        assert JobUpdated(job_id="a1") in c.events
    assert parent(c).children == Children(made=4, succeeded=4)
    assert (parent(c).state, parent(c).exit_code, parent(c).ended_at_ms) == (JobState.SUCCEEDED, 0, c.state.clock_ms)
    assert c.events[-1] == JobChanged(job_id="a1", queue="default", before=JobState.RUNNING, after=JobState.SUCCEEDED)


def test_children_carry_the_numbers_of_the_range_and_the_priority_and_queue_of_the_array(c):
    elements = Array(first=10, last=31, step=10, parallelism=9)
    c.submit(spec("train", group(), array=elements, priority=7, hold=False), "a1")
    assert [(c.job(j).spec.name, c.job(j).element, c.job(j).spec.priority) for j in live(c)] == [
        ("train.10", 10, 7), ("train.20", 20, 7), ("train.30", 30, 7)]  # fmt: skip
    assert [c.job(j).sequence for j in ("a1", *live(c))] == [1, 2, 3, 4]


def test_the_elements_of_a_matrix_are_numbered_from_0(c):
    axes = (Axis(name="LR", values=("1", "2")), Axis(name="SEED", values=("a", "b", "c")))
    c.submit(spec("train", group(), array=Array(matrix=axes)), "a1")
    assert live(c) == [f"a1.{n}" for n in range(6)]
    assert parent(c).spec.array.values(4) == (("LR", "2"), ("SEED", "b"))


def test_an_array_of_a_million_makes_no_more_records_than_may_live(c):
    c.submit(array(last=999_999, parallelism=50), "a1")
    assert (len(c.state.jobs), len(c.state.tasks)) == (51, 50)
    end(c, "a1.0")
    c.accept(DropFinishedJobs(keep=0, ended_before_ms=0))
    assert (len(c.state.jobs), len(c.state.tasks)) == (51, 50)


@pytest.mark.parametrize(
    ("tasks", "parallelism", "wanted"),
    [
        (1, 0, DEFAULT_PARALLEL),
        (1, MAX_PARALLEL, MAX_PARALLEL),
        (1, 50, 50),
        (8, 0, 1000),
        (40, 0, 500),
        (20_000, 0, 1),
        (15_000, 0, 1),
        (20_000, 1, 1),
    ],
)
def test_what_lives_of_an_array_has_no_more_tasks_than_one_job_may_have(tasks, parallelism, wanted):
    elements = Array(last=MAX_ARRAY - 1, step=1, parallelism=parallelism)
    assert max_live_children(spec("train", group(count=tasks), array=elements), FeatureLevel.BOUNDED) == wanted


def test_an_array_of_gangs_counts_each_gang_as_one_element(c):
    c.submit(spec("train", group(count=3), array=Array(last=1, step=1, parallelism=1)), "a1")
    c.place("a1.0", "n1")
    c.succeed_all("a1.0")
    assert live(c) == ["a1.1"]
    assert len(c.tasks("a1.1")) == 3


def test_an_array_with_a_failed_element_runs_all_the_others_and_fails_then(c):
    c.submit(array(last=2, parallelism=1), "a1")
    end(c, "a1.0", T.FAILED)
    end(c, "a1.1")
    assert parent(c).state is JobState.RUNNING
    end(c, "a1.2")
    assert (parent(c).state, parent(c).reason) == (JobState.FAILED, "ELEMENTS_FAILED")
    assert parent(c).detail == "1 of 3 elements failed"


def test_up_to_max_failures_elements_may_fail(c):
    c.submit(array(last=2, parallelism=1, max_failures=2), "a1")
    for n, state in enumerate((T.FAILED, T.SUCCEEDED, T.FAILED)):
        end(c, f"a1.{n}", state)
    assert (parent(c).state, parent(c).detail) == (JobState.SUCCEEDED, "")
    assert parent(c).children == Children(made=3, succeeded=1, failed=2)


def test_one_failure_more_ends_what_lives_and_what_is_to_come(c):
    c.submit(array(parallelism=3, max_failures=0), "a1")
    c.place("a1.1", "n1")
    end(c, "a1.0", T.FAILED)
    assert c.task_states("a1.1") == [T.STOPPING]
    assert (c.job("a1.2").state, c.job("a1.2").reason) == (JobState.CANCELLED, "ELEMENTS_FAILED")
    assert (parent(c).state, parent(c).children.live) == (JobState.RUNNING, 1)
    end(c, "a1.1", T.KILLED)
    assert (parent(c).state, parent(c).children.made) == (JobState.FAILED, 3)
    assert parent(c).detail == "1 of 10 elements failed"


def test_elements_that_fail_together_end_the_array_once(c):
    c.submit(array(last=3, parallelism=4, max_failures=0), "a1")
    for n in range(4):
        c.place(f"a1.{n}", "n1")
    c.die("n1")
    assert (parent(c).state, parent(c).children) == (JobState.FAILED, Children(made=4, failed=4))


def test_a_cancelled_element_counts_only_at_the_end(c):
    c.submit(array(last=1, parallelism=1, max_failures=0), "a1")
    c.cancel("a1.0")
    assert parent(c).state is JobState.RUNNING
    end(c, "a1.1")
    assert (parent(c).state, parent(c).detail) == (JobState.FAILED, "0 of 2 elements failed, 1 were cancelled")


def test_cancelling_an_array_cancels_its_children_and_ends_after_the_last(c):
    c.submit(array(), "a1")
    c.place("a1.0", "n1")
    c.cancel("train")
    assert (c.job("a1.1").state, c.job("a1.1").detail) == (JobState.CANCELLED, "with train, whose part it is")
    assert parent(c).state is JobState.RUNNING
    assert c.cancel("train").unchanged
    end(c, "a1.0", T.KILLED)
    assert (parent(c).state, parent(c).reason) == (JobState.CANCELLED, "CANCELLED")
    assert parent(c).children == Children(made=2, cancelled=2)
    c.accept(DropFinishedJobs(keep=0, ended_before_ms=0))
    assert (c.state.jobs, c.state.tasks) == ({}, {})


def test_cancelling_an_array_that_only_waits_ends_it_at_once(c):
    c.submit(array(), "a1")
    c.cancel("a1")
    assert parent(c).state is JobState.CANCELLED


def test_a_held_array_makes_children_once_it_is_released(c):
    c.submit(array(hold=True), "a1")
    assert (parent(c).state, live(c)) == (JobState.PENDING, [])
    c.accept(ControlJob(job_id="a1", action=Action.RELEASE))
    assert (parent(c).state, live(c)) == (JobState.RUNNING, ["a1.0", "a1.1"])
    assert not c.job("a1.0").held
    c.accept(ControlJob(job_id="a1", action=Action.HOLD))
    end(c, "a1.0")
    end(c, "a1.1")
    assert (parent(c).state, live(c)) == (JobState.RUNNING, [])
    c.accept(ControlJob(job_id="a1", action=Action.RELEASE))
    assert live(c) == ["a1.2", "a1.3"]


def test_a_held_array_whose_elements_are_all_done_ends(c):
    c.submit(array(last=1), "a1")
    c.accept(ControlJob(job_id="a1", action=Action.HOLD))
    end(c, "a1.0")
    end(c, "a1.1")
    assert parent(c).state is JobState.SUCCEEDED


def test_an_array_waits_for_other_jobs_and_others_wait_for_all_of_it(c):
    c.submit(spec("etl"), "e1")
    c.submit(array(last=1, after=(Dependency(job="etl", condition=Condition.SUCCESS),)), "a1")
    c.submit(spec("report", after=(Dependency(job="train", condition=Condition.SUCCESS),)), "r1")
    assert (parent(c).state, live(c)) == (JobState.PENDING, [])
    c.place("e1", "n1")
    c.succeed_all("e1")
    assert (live(c), c.job("a1.0").waits_for, c.job("a1.0").spec.after) == (["a1.0", "a1.1"], (), ())
    end(c, "a1.0")
    end(c, "a1.1")
    assert "r1" in c.state.pending


def test_an_array_that_can_never_start_is_cancelled(c):
    c.submit(spec("etl"), "e1")
    c.submit(array(after=(Dependency(job="etl", condition=Condition.SUCCESS),)), "a1")
    c.cancel("e1")
    assert (parent(c).state, parent(c).reason) == (JobState.CANCELLED, "DEPENDENCY_FAILED")


@pytest.mark.parametrize(
    ("limit", "value", "what"),
    [
        ("MAX_LIVE_JOBS", 5, "tenant default holds 2 of the 5 live jobs that the cluster takes, 2 are left"),
        ("MAX_TASKS", 4, "tenant default holds 1 of the 4 tasks that the cluster takes, 0 are left"),
    ],
)
def test_an_array_without_room_says_so_and_looks_again_later(c, monkeypatch, limit, value, what):
    c.submit(spec("other", group(count=2 if limit == "MAX_TASKS" else 1), tenant="other"), "o1")
    monkeypatch.setattr(children, limit, value)
    c.submit(array(), "a1")
    assert live(c) == ["a1.0"]
    assert what in parent(c).detail
    assert c.state.timers.next_ms() == parent(c).not_before_ms == c.state.clock_ms + LOOK_AGAIN_MS
    c.cancel("o1")
    c.accept(DropFinishedJobs(keep=0, ended_before_ms=0))
    c.accept(PassTime(), at_ms=c.state.timers.next_ms())
    assert (live(c), parent(c).detail, c.state.timers.next_ms()) == (["a1.0", "a1.1"], "", 0)


def test_an_array_for_which_there_is_still_no_room_looks_again_and_again(c, monkeypatch):
    monkeypatch.setattr(children, "MAX_LIVE_JOBS", 1)
    c.submit(array(), "a1")
    assert (parent(c).state, parent(c).children.made) == (JobState.PENDING, 0)
    for _ in range(3):
        c.accept(PassTime(), at_ms=c.state.timers.next_ms())
        assert c.state.timers.next_ms() == c.state.clock_ms + LOOK_AGAIN_MS
    c.cancel("a1")
    assert (parent(c).state, c.state.timers.next_ms()) == (JobState.CANCELLED, 0)


def test_the_end_of_a_child_makes_room_for_the_next_one(c, monkeypatch):
    monkeypatch.setattr(children, "MAX_LIVE_JOBS", 3)
    c.submit(array(), "a1")
    end(c, "a1.0")
    assert live(c) == ["a1.1"]


def test_a_child_whose_name_a_live_job_has_is_made_after_the_end_of_that_job(c):
    c.submit(spec("train.1"), "other")
    c.submit(array(), "a1")
    assert (live(c), parent(c).detail) == (["a1.0"], "another job named train.1 lives: cancel it, or let it end")
    c.cancel("other")
    c.accept(PassTime(), at_ms=c.state.timers.next_ms())
    assert live(c) == ["a1.0", "a1.1"]


def test_a_child_whose_id_is_taken_waits_until_that_job_is_forgotten(c):
    c.submit(spec("other"), "a1.1")
    c.cancel("a1.1")
    c.submit(array(), "a1")
    assert parent(c).detail == "job id a1.1 is taken"
    c.accept(DropFinishedJobs(keep=0, ended_before_ms=0))
    c.accept(PassTime(), at_ms=c.state.timers.next_ms())
    assert live(c) == ["a1.0", "a1.1"]


@pytest.mark.parametrize("name", ["train.5", "train.05", "train.99"])
def test_the_names_of_children_to_come_are_kept_for_them(c, name):
    c.submit(array(), "a1")
    assert "is kept for a job that train makes" in c.reject(SubmitJob(job_id="x", spec=spec(name)), Code.CONFLICT)
    c.submit(spec("train.best"), "x")
    c.cancel("a1")
    c.submit(spec(name), "y")


def test_the_elements_of_an_array_share_its_deadline(c):
    c.submit(array(parallelism=1, deadline_in_ms=500), "a1")
    end(c, "a1.0")
    assert c.job("a1.1").deadline_ms == parent(c).deadline_ms == c.job("a1").submitted_at_ms + 500
    c.accept(PassTime(), at_ms=parent(c).deadline_ms)
    assert [event.job_id for event in c.events] == ["a1", "a1.1"]
    end(c, "a1.1")
    assert c.job("a1.2").deadline_missed
    assert c.accept(PassTime()).unchanged


def test_a_suspended_array_suspends_its_children_and_goes_on_where_it_was(c):
    c.submit(array(last=3), "a1")
    c.place("a1.0", "n1")
    c.accept(ControlJob(job_id="a1", action=Action.SUSPEND))
    assert (parent(c).state, c.job("a1.1").state) == (JobState.SUSPENDED, JobState.SUSPENDED)
    assert c.task_states("a1.0") == [T.STOPPING]
    end(c, "a1.0", T.KILLED)
    assert (c.job("a1.0").state, parent(c).children) == (JobState.SUSPENDED, Children(made=2, live=2))
    c.accept(ControlJob(job_id="a1", action=Action.RESUME))
    assert (parent(c).state, sorted(c.state.pending)) == (JobState.RUNNING, ["a1.0", "a1.1"])


def test_a_suspended_array_whose_last_child_ended_succeeds_once_it_is_resumed(c):
    c.submit(array(last=0), "a1")
    c.accept(ControlJob(job_id="a1", action=Action.SUSPEND))
    c.accept(ControlJob(job_id="a1.0", action=Action.RESUME))
    end(c, "a1.0")
    assert parent(c).state is JobState.SUSPENDED
    c.accept(ControlJob(job_id="a1", action=Action.RESUME))
    assert parent(c).state is JobState.SUCCEEDED


def test_a_suspended_array_that_never_had_a_child_waits_again(c):
    c.submit(array(hold=True), "a1")
    c.accept(ControlJob(job_id="a1", action=Action.SUSPEND))
    c.accept(ControlJob(job_id="a1", action=Action.RESUME))
    assert (parent(c).state, live(c)) == (JobState.PENDING, [])
    c.accept(ControlJob(job_id="a1", action=Action.RELEASE))
    assert parent(c).state is JobState.RUNNING


def test_requeueing_an_array_requeues_the_children_that_run(c):
    c.submit(array(), "a1")
    c.place("a1.0", "n1")
    c.accept(ControlJob(job_id="a1", action=Action.REQUEUE))
    assert c.task_states("a1.0") == [T.STOPPING]
    assert c.task_states("a1.1") == [T.PENDING]
    end(c, "a1.0", T.KILLED)
    assert (c.job("a1.0").state, c.job("a1.0").attempt) == (JobState.PENDING, 2)


def test_a_restored_state_goes_on_with_its_arrays(c):
    c.submit(array(), "a1")
    end(c, "a1.0")
    twin = restore(c.state.freeze())
    assert twin.relatives.children == c.state.relatives.children == {"a1": {"a1.1": None, "a1.2": None}}
    c.state = twin
    end(c, "a1.1")
    assert live(c) == ["a1.2", "a1.3"]


def test_children_of_gangs_that_never_started_go_when_their_patience_is_over(c):
    c.submit(array(last=1, parallelism=2, gang=GangPolicy(min_tasks=1, wait_ms=100)), "a1")
    c.accept(PassTime(), at_ms=1000)
    assert (parent(c).state, parent(c).children.failed) == (JobState.FAILED, 2)
