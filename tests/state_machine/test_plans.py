"""Plans are checked again when they are applied, and gangs are taken or refused whole."""

from dataclasses import replace

import pytest

from gosched.core.commands.plans import CommitPlan, GangPlacement
from gosched.core.events import JobChanged, TaskChanged
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState
from gosched.core.resources import MILLI, Resources
from tests.state_machine.cluster import Cluster, gang, group, registration, retrying, spec


@pytest.fixture
def c() -> Cluster:
    """Two nodes of 4 CPUs, and job j1 of two 1-CPU tasks."""
    cluster = Cluster()
    cluster.node("n1")
    cluster.node("n2")
    cluster.submit(spec(), "j1")
    return cluster


def test_a_placed_gang_runs_and_holds_what_it_asked_for(c):
    c.place("j1", "n1", "n2")
    assert c.task_states("j1") == [TaskState.PLACED] * 2
    assert sorted(c.state.allocations) == ["j1/worker/0.1", "j1/worker/1.1"]
    assert c.state.usage == {"n1": Resources(cpu_millis=1000), "n2": Resources(cpu_millis=1000)}
    assert (c.job("j1").state, c.job("j1").active, c.job("j1").started_at_ms) == (
        JobState.RUNNING,
        2,
        c.state.clock_ms,
    )
    assert [type(e) for e in c.events] == [TaskChanged, TaskChanged, JobChanged]


def test_only_the_first_placement_tells_the_wait(c):
    c.submit(retrying("again"), "j2")
    c.place("j2", "n1")
    event = c.events[-1]
    assert isinstance(event, JobChanged)
    assert event.wait_ms == 1
    c.report("j2", 0, TaskState.FAILED, 1)
    c.report("j2", 1, TaskState.KILLED)
    c.place("j2", "n1")
    event = c.events[-1]
    assert isinstance(event, JobChanged)
    assert event.wait_ms is None


def test_an_unknown_job_is_refused(c):
    assert "no such job" in c.refused(replace(gang(c.job("j1"), "n1"), job_id="nope"))


def test_a_job_that_is_placed_or_over_is_refused(c):
    placement = gang(c.job("j1"), "n1")
    c.place("j1", "n1")
    assert "the job is RUNNING" in c.refused(placement)
    c.succeed_all("j1")
    assert "the job is SUCCEEDED" in c.refused(placement)


def test_another_attempt_is_refused(c):
    assert "attempt 1, the plan at 2" in c.refused(replace(gang(c.job("j1"), "n1"), attempt=2))


def test_a_job_in_its_backoff_is_refused_until_the_clock_says_so(c):
    c.submit(retrying("again", backoff_ms=100), "j2")
    c.place("j2", "n1")
    c.report("j2", 0, TaskState.FAILED, 1)
    c.report("j2", 1, TaskState.KILLED)
    assert "waits another 0.098s" in c.refused(gang(c.job("j2"), "n1"))
    c.accept(CommitPlan(revision=0, gangs=()), at_ms=c.job("j2").not_before_ms)
    c.place("j2", "n1")


@pytest.mark.parametrize("ranks", [(0,), (0, 1, 2), (0, 0), (1, 0), (0, 2), (-1, 0)])
def test_each_rank_must_be_there_once_and_in_order(c, ranks):
    tasks = tuple(TaskPlacement(rank=r, node_id="n1") for r in ranks)
    assert c.refused(GangPlacement(job_id="j1", attempt=1, tasks=tasks))


def test_an_unknown_or_dead_node_refuses_the_whole_gang(c):
    assert "no node 'n9'" in c.refused(gang(c.job("j1"), "n1", "n9"))
    c.die("n2")
    assert "node n2 is DEAD" in c.refused(gang(c.job("j1"), "n1", "n2"))


def test_a_gang_that_fits_only_in_part_is_refused_whole(c):
    c.submit(spec("big", group(count=5)), "j2")
    assert "node n1 has no room" in c.refused(gang(c.job("j2"), "n1"))
    c.place("j2", "n1", "n1", "n1", "n1", "n2")


def test_what_earlier_gangs_of_the_plan_took_is_gone(c):
    c.submit(spec("big", group(count=3)), "j2")
    assert "no room" in "".join(c.plan(gang(c.job("j2"), "n1"), gang(c.job("j1"), "n1")))
    assert (c.job("j2").state, c.job("j1").state) == (JobState.RUNNING, JobState.PENDING)


def test_a_gang_twice_in_one_plan_is_taken_once(c):
    placement = gang(c.job("j1"), "n1")
    assert len(c.plan(placement, placement)) == 1


def test_node_selector_and_gpu_model_must_hold(c):
    c.accept(registration("n3", gpus=2, gpu_model="h100", labels=(("zone", "a"),)))
    c.submit(spec("zoned", group(node_selector=(("zone", "b"),))), "j2")
    assert "lacks the label zone=b" in c.refused(gang(c.job("j2"), "n3"))
    c.submit(spec("a100", group(gpus=1, gpu_model="a100")), "j3")
    assert "no a100 GPUs" in c.refused(gang(c.job("j3"), "n3", gpus=((0,),)))
    c.submit(spec("fits", group(gpus=1, gpu_model="h100", node_selector=(("zone", "a"),))), "j4")
    assert c.plan(gang(c.job("j4"), "n3", gpus=((1,),))) == ()


@pytest.mark.parametrize(
    ("gpus", "why"),
    [
        (((0,), (0,)), "GPU 0 of node g1 is taken"),
        (((1,), (2,)), "GPU 2 of node g1 is taken"),
        (((1,), ()), "0 GPUs are placed"),
        (((1, 0), (3,)), "2 GPUs are placed"),
        (((1,), (4,)), "no GPU 4"),
        (((-1,), (1,)), "no GPU -1"),
    ],
)
def test_gpus_must_be_free_there_and_as_many_as_asked_for(c, gpus, why):
    c.node("g1", cpus=8, gpus=4)
    c.submit(spec("holder", group(gpus=1)), "holder")
    assert c.plan(gang(c.job("holder"), "g1", gpus=((2,),))) == ()
    c.submit(spec("pair", group(count=2, gpus=1)), "j2")
    assert why in c.refused(gang(c.job("j2"), "g1", gpus=gpus))
    assert c.plan(gang(c.job("j2"), "g1", gpus=((0,), (3,)))) == ()
    assert c.state.node_gpus_held("g1") == {0: MILLI, 2: MILLI, 3: MILLI}
