"""Elastic jobs that are scaled: fewer or more of their tasks are wanted, and tasks come and go."""

import pytest

from gosched.core.commands.jobs import Action, ControlJob, SubmitJob
from gosched.core.outcome import Code
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState
from gosched.core.spec.policies import GangPolicy
from tests.state_machine.cluster import Cluster, gang, group, retrying, spec

T = TaskState


@pytest.fixture
def c() -> Cluster:
    """Job j1: one driver (rank 0) with whose success it ends, and 1 to 4 workers (ranks 1 to 4)."""
    return _cluster(initial_tasks=0)


@pytest.fixture
def going() -> Cluster:
    """The same, whose workers come and go: two tasks are wanted at first."""
    return _cluster(initial_tasks=2)


def _cluster(initial_tasks: int) -> Cluster:
    cluster = Cluster()
    cluster.node("n1", cpus=8)
    cluster.node("n2", cpus=8)
    groups = (group("driver"), group("worker", 4, min_count=1))
    policy = GangPolicy(min_tasks=2, ends_with="driver", initial_tasks=initial_tasks)
    cluster.submit(spec("app", *groups, gang=policy), "j1")
    return cluster


def place(c: Cluster, *ranks: int) -> None:
    assert c.plan(gang(c.job("j1"), "n1", ranks=ranks)) == ()


def scale(c: Cluster, tasks: int, *, job: str = "j1") -> bool:
    """Return whether anything has changed."""
    return not c.accept(ControlJob(job_id=job, action=Action.SCALE, tasks=tasks)).unchanged


@pytest.mark.parametrize("tasks", [0, 1, 6, -1])
def test_a_job_has_its_minimum_to_all_of_its_tasks(c, tasks):
    why = c.reject(ControlJob(job_id="j1", action=Action.SCALE, tasks=tasks), Code.CONFLICT)
    assert why == f"job app has 2 (gang.min) to 5 tasks: {tasks} are not possible"


def test_a_gang_without_elastic_tasks_is_not_scaled(c):
    c.submit(retrying("fixed", group("worker", 3)), "j2")
    why = c.reject(ControlJob(job_id="j2", action=Action.SCALE, tasks=2), Code.CONFLICT)
    assert why == "all 3 tasks of job fixed start together: only a job with gang.min can be scaled"


def test_what_is_beyond_the_wanted_tasks_stops_from_the_last_rank_on_and_waits(c):
    place(c, 0, 1, 2, 3, 4)
    assert scale(c, 3)
    assert c.task_states("j1") == [T.PLACED, T.PLACED, T.PLACED, T.STOPPING, T.STOPPING]
    for rank in (3, 4):
        c.report("j1", rank, T.KILLED)
    assert c.task_states("j1") == [T.PLACED, T.PLACED, T.PLACED, T.PENDING, T.PENDING]
    job = c.job("j1")
    assert (job.state, job.active, job.unplaced, job.may_join, job.failed) == (JobState.RUNNING, 3, 2, 0, 0)
    assert "j1" not in c.state.pending
    assert not scale(c, 3)


def test_no_more_tasks_join_than_are_wanted(c):
    place(c, 0, 1)
    scale(c, 3)
    assert "1 more tasks of the job are wanted, the plan places 2" in c.refused(gang(c.job("j1"), "n1", ranks=(2, 3)))
    place(c, 3)
    assert "j1" not in c.state.pending
    scale(c, 5)
    place(c, 2, 4)
    assert c.job("j1").unplaced == 0


def test_no_more_tasks_start_than_are_wanted(c):
    scale(c, 3)
    assert "3 tasks of the job are wanted, the plan places 4" in c.refused(gang(c.job("j1"), "n1", ranks=(0, 1, 2, 3)))
    place(c, 0, 1, 2)


def test_a_group_keeps_its_minimum_whatever_is_wanted(c):
    place(c, 0, 1, 2)
    scale(c, 2)
    assert c.task_states("j1")[:3] == [T.PLACED, T.PLACED, T.STOPPING]


def test_a_scaled_job_starts_again_with_what_is_wanted(c):
    c.submit(retrying("again", group("worker", 4, min_count=1)), "j2")
    scale(c, 2, job="j2")
    assert c.plan(gang(c.job("j2"), "n2", ranks=(0, 1))) == ()
    c.die("n2")
    job = c.job("j2")
    assert (job.state, job.attempt, job.wanted) == (JobState.PENDING, 2, 2)


def test_a_job_whose_tasks_come_and_go_begins_with_those_that_it_wants_at_first(going):
    assert "2 tasks of the job are wanted" in going.refused(gang(going.job("j1"), "n1", ranks=(0, 1, 2)))
    place(going, 0, 1)
    assert "j1" not in going.state.pending


def test_an_elastic_task_that_succeeds_has_given_its_place_back(going):
    place(going, 0, 1)
    scale(going, 4)
    place(going, 2, 3)
    going.report("j1", 2, T.SUCCEEDED)
    job = going.job("j1")
    assert going.task_states("j1")[:4] == [T.PLACED, T.PLACED, T.PENDING, T.PLACED]
    assert (job.succeeded, job.active, job.unplaced, job.wanted, job.may_join) == (0, 3, 2, 3, 0)
    scale(going, 4)
    place(going, 2)
    assert going.tasks("j1")[2].allocation_id == "j1/worker/1.1-1"


def test_one_that_the_gang_cannot_spare_has_succeeded(going):
    place(going, 0, 1)
    going.report("j1", 1, T.SUCCEEDED)
    job = going.job("j1")
    assert (going.tasks("j1")[1].state, job.succeeded, job.wanted) == (T.SUCCEEDED, 1, 2)
    going.report("j1", 0, T.SUCCEEDED)
    assert going.job("j1").state is JobState.SUCCEEDED


def test_what_one_that_has_ended_held_goes_to_others(going):
    place(going, 0, 1)
    going.report("j1", 1, T.SUCCEEDED)  # the gang cannot spare it
    assert going.job("j1").may_join == 1
    place(going, 2)
    assert going.job("j1").may_join == 0


def test_tasks_that_have_succeeded_do_not_count_as_wanted_ones_that_run(c):
    c.submit(spec("half", group("worker", 6, min_count=1)), "j2")
    assert c.plan(gang(c.job("j2"), "n2", ranks=range(6))) == ()
    for rank in (0, 1, 2):
        c.report("j2", rank, T.SUCCEEDED)
    scale(c, 2, job="j2")
    assert c.task_states("j2")[3:] == [T.PLACED, T.PLACED, T.STOPPING]
    scale(c, 1, job="j2")
    assert c.task_states("j2")[3:] == [T.PLACED, T.STOPPING, T.STOPPING]
    for rank in (4, 5):
        c.report("j2", rank, T.KILLED)
    job = c.job("j2")
    assert (job.state, job.active, job.may_join) == (JobState.RUNNING, 1, 0)


def test_one_that_was_stopped_and_succeeds_is_not_subtracted_twice(going):
    place(going, 0, 1)
    scale(going, 5)
    place(going, 2, 3, 4)
    scale(going, 4)
    going.report("j1", 4, T.SUCCEEDED)
    job = going.job("j1")
    assert (going.tasks("j1")[4].state, job.wanted, job.active, job.succeeded) == (T.PENDING, 4, 4, 0)


def test_a_new_attempt_wants_what_is_wanted_at_first(going):
    place(going, 0, 1)
    scale(going, 5)
    going.accept(ControlJob(job_id="j1", action=Action.REQUEUE))
    for rank in (0, 1):
        going.report("j1", rank, T.KILLED)
    assert (going.job("j1").attempt, going.job("j1").wanted) == (2, 2)


def test_where_tasks_do_not_come_and_go_one_that_succeeds_has_succeeded(c):
    place(c, 0, 1, 2)
    c.report("j1", 2, T.SUCCEEDED)
    assert c.tasks("j1")[2].state is T.SUCCEEDED
    assert c.job("j1").succeeded == 1


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (
            GangPolicy(min_tasks=2, ends_with="driver", initial_tasks=1),
            "must be between 2, which start",
        ),
        (
            GangPolicy(min_tasks=2, ends_with="driver", initial_tasks=6),
            "must be between 2, which start",
        ),
        (GangPolicy(min_tasks=2, initial_tasks=2), "name the group whose success ends the job"),
        (GangPolicy(min_tasks=2, ends_with="worker", initial_tasks=2), "has tasks that may not be wanted"),
    ],
)
def test_a_job_that_could_not_begin_or_end_is_refused(c, policy, why):
    wrong = spec("wrong", group("driver"), group("worker", 4, min_count=1), gang=policy)
    assert why in c.reject(SubmitJob(job_id="j9", spec=wrong), Code.INVALID)
