"""Elastic gangs: the minimum starts together, the others join, and the job ends without those that got no place."""

import pytest

from gosched.core.events import TaskChanged
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState
from gosched.core.spec.policies import GangPolicy, RetryCause, RetryPolicy
from tests.state_machine.cluster import Cluster, gang, group, retrying, spec

T = TaskState


@pytest.fixture
def c() -> Cluster:
    """Job j1 of two groups: 2 to 4 workers (ranks 1 to 4), and one server (rank 0) that must be there."""
    cluster = Cluster()
    cluster.node("n1", cpus=8)
    cluster.node("n2")
    cluster.submit(retrying("train", group("ps"), group("worker", 4, min_count=2)), "j1")
    return cluster


def place(c: Cluster, *ranks: int) -> None:
    assert c.plan(gang(c.job("j1"), "n1", ranks=ranks)) == ()


@pytest.mark.parametrize(
    ("ranks", "why"),
    [
        ((1, 2, 3, 4), "1 tasks of group ps start together, the plan places 0"),
        ((0, 1), "2 tasks of group worker start together, the plan places 1"),
        ((0, 1, 1), "do not ascend"),
        ((0, 2, 1), "do not ascend"),
        ((0, 1, 5), "ranks 0 to 4"),
        ((-1, 0, 1, 2), "ranks 0 to 4"),
    ],
)
def test_less_than_the_minimum_of_each_group_does_not_start(c, ranks, why):
    assert why in c.refused(gang(c.job("j1"), "n1", ranks=ranks))


def test_the_minimum_starts_and_the_others_wait_for_a_place(c):
    place(c, 0, 2, 4)
    assert c.task_states("j1") == [T.PLACED, T.PENDING, T.PLACED, T.PENDING, T.PLACED]
    job = c.job("j1")
    assert (job.state, job.active, job.unplaced) == (JobState.RUNNING, 3, 2)
    assert list(c.state.pending) == ["j1"]


def test_a_task_joins_when_there_is_room_and_the_jobs_state_stays(c):
    place(c, 0, 1, 2)
    started = c.job("j1").started_at_ms
    place(c, 4)
    assert [type(e) for e in c.events] == [TaskChanged]
    assert c.tasks("j1")[4].allocation_id == "j1/worker/3.1"
    assert (c.job("j1").active, c.job("j1").unplaced, c.job("j1").started_at_ms) == (4, 1, started)
    place(c, 3)
    assert c.job("j1").unplaced == 0
    assert list(c.state.pending) == []
    assert "does not wait for a place" in c.refused(gang(c.job("j1"), "n1", ranks=[3]))


def test_a_task_that_had_its_place_gets_no_other(c):
    place(c, 0, 1, 2)
    c.report("j1", 1, T.SUCCEEDED, 0)
    assert "rank 1 is SUCCEEDED" in c.refused(gang(c.job("j1"), "n1", ranks=[1, 3]))
    assert "rank 2 is PLACED" in c.refused(gang(c.job("j1"), "n1", ranks=[2]))
    assert "ranks beyond the job's" in c.refused(gang(c.job("j1"), "n1", ranks=[5]))


def test_a_job_whose_placed_tasks_are_done_has_succeeded_and_needs_the_others_no_more(c):
    place(c, 0, 1, 2)
    for rank in range(3):
        c.report("j1", rank, T.SUCCEEDED, 0)
    job = c.job("j1")
    assert (job.state, job.exit_code, job.succeeded, job.unplaced) == (JobState.SUCCEEDED, 0, 3, 0)
    assert [(t.state, t.reason) for t in c.tasks("j1")[3:]] == [(T.KILLED, "NOT_NEEDED")] * 2
    assert list(c.state.pending) == []


def test_a_failed_member_restarts_the_gang_with_the_waiting_ones(c):
    place(c, 0, 1, 2)
    c.report("j1", 1, T.FAILED, 1)
    assert (c.job("j1").unplaced, list(c.state.pending)) == (0, [])
    assert "does not wait" in c.refused(gang(c.job("j1"), "n1", ranks=[3]))
    c.report("j1", 0, T.KILLED)
    c.report("j1", 2, T.KILLED)
    assert (c.job("j1").state, c.job("j1").attempt, c.job("j1").unplaced) == (JobState.PENDING, 2, 0)
    assert c.task_states("j1") == [T.PENDING] * 5
    assert {t.attempt for t in c.tasks("j1")} == {2}
    assert len([e for e in c.events if isinstance(e, TaskChanged)]) == 1 + 3  # the kill, and the three that were placed
    place(c, 0, 3, 4)


def test_a_task_that_joined_and_failed_counts_like_any_member(c):
    place(c, 0, 1, 2)
    place(c, 3)
    c.report("j1", 3, T.FAILED, 9)
    assert c.task_states("j1")[:3] == [T.STOPPING] * 3


def test_a_lost_node_of_an_elastic_gang_restarts_it(c):
    place(c, 0, 1, 2)
    assert c.plan(gang(c.job("j1"), "n2", ranks=[3])) == ()
    c.die("n2")
    for rank in range(3):
        c.report("j1", rank, T.KILLED)
    assert (c.job("j1").state, c.job("j1").restarts) == (JobState.PENDING, 0)


def test_cancelling_ends_the_waiting_tasks_with_the_last_of_the_others(c):
    place(c, 0, 1, 2)
    c.cancel("j1")
    assert c.task_states("j1") == [T.STOPPING] * 3 + [T.PENDING] * 2
    for rank in range(3):
        c.report("j1", rank, T.KILLED)
    assert c.job("j1").state is JobState.CANCELLED
    assert [(t.state, t.reason) for t in c.tasks("j1")[3:]] == [(T.KILLED, "CANCELLED")] * 2


def test_a_job_that_fails_for_good_ends_its_waiting_tasks(c):
    never = RetryPolicy(when=(RetryCause.FAILED,))
    c.submit(spec("once", group(count=2, min_count=1), retry=never, gang=GangPolicy(min_tasks=1)), "j2")
    assert c.plan(gang(c.job("j2"), "n1", ranks=[1])) == ()
    c.report("j2", 1, T.FAILED, 3)
    assert (c.job("j2").state, c.job("j2").exit_code) == (JobState.FAILED, 3)
    assert c.task_states("j2") == [T.KILLED, T.FAILED]
