"""Fences: the room that victims leave is for the gang that they leave for, and for nobody else."""

from dataclasses import replace

import pytest

from gosched.core.commands.cluster import PassTime, SetQueues
from gosched.core.commands.jobs import Action, CancelJob, ControlJob
from gosched.core.commands.plans import Cause, GangPlacement
from gosched.core.events import FenceChanged, JobChanged, JobUpdated, TaskChanged
from gosched.core.features import FeatureLevel
from gosched.core.outcome import Code, Rejected
from gosched.core.records.job import JobState
from gosched.core.records.node import Hardware
from gosched.core.records.queue import Queue
from gosched.core.records.task import TaskState
from gosched.core.resources import MILLI
from gosched.core.spec.placement_rules import Taint
from gosched.core.state.restore import restore
from tests.state_machine.cluster import Cluster, gang, group, registration, retrying, spec
from tests.state_machine.test_evictions import evict, forced, high, leave, low

T = TaskState


@pytest.fixture
def c() -> Cluster:
    """Gang v (2 CPUs on each of n1 and n2, of 4) leaves for gang p (3 CPUs on n1)."""
    cluster = Cluster()
    cluster.node("n1")
    cluster.node("n2")
    cluster.submit(low(), "v")
    cluster.place("v", "n1", "n1", "n2", "n2")
    cluster.submit(high("high", group(count=3)), "p")
    assert cluster.plan(forced(cluster, "p", evict(cluster.job("v")))) == ()
    return cluster


def test_the_gang_starts_in_the_same_step_in_which_the_last_victim_ends(c):
    for rank in range(3):
        c.report("v", rank, T.KILLED)
    assert (c.job("p").state, c.state.fenced.awaited) == (JobState.PENDING, {"p": 1})
    c.report("v", 3, T.KILLED)
    assert c.job("p").state is JobState.RUNNING
    assert [t.node_id for t in c.tasks("p")] == ["n1"] * 3
    assert (c.state.fences, c.state.fenced.awaited, c.job("p").placed_at_ms) == ({}, {}, c.state.clock_ms)
    assert FenceChanged(job_id="p", node_ids=("n1",), made=False) in c.events
    placed = [e for e in c.events if isinstance(e, TaskChanged) and e.after is T.PLACED]
    assert len(placed) == 3


def test_events_tell_where_victims_are_and_whose_they_are_when_their_fence_goes(c):
    """What they hold counted as free; the planner's columns were wrong on n2, where the fence itself has no place."""
    c.cancel("p")
    (gone,) = [e for e in c.events if isinstance(e, FenceChanged)]
    assert (gone.node_ids, gone.victims_on) == (("n1",), ("n1", "n2"))
    assert JobUpdated(job_id="v") in c.events


def test_a_stop_of_a_job_whose_tasks_stop_already_is_told_of(c):
    """No task changes by it, the job does: the planner went on repairing it."""
    assert set(c.task_states("v")) == {T.STOPPING}
    c.cancel("v")
    assert JobUpdated(job_id="v") in c.events


def test_the_job_waits_for_no_other_place_meanwhile(c):
    assert list(c.state.pending) == []
    assert "room is being made for the job already" in c.refused(gang(c.job("p"), "n2"))


def test_nobody_gets_the_room_before_or_after_the_victims_are_gone(c):
    c.submit(spec("thief", group()), "t")
    c.submit(spec("pair", group(count=2)), "small")
    assert "no room" in c.refused(gang(c.job("small"), "n1"))  # 2 CPUs are free, of which the fence needs one
    c.place("t", "n1")
    leave(c, "v")
    assert c.job("p").state is JobState.RUNNING
    assert "no room" in c.refused(gang(c.job("small"), "n1"))
    c.place("small", "n2")


def test_room_that_victims_leave_and_the_fence_does_not_need_is_free_when_they_are_gone(c):
    c.submit(spec("three", group(count=3)), "t")
    assert "no room" in c.refused(gang(c.job("t"), "n2"))
    c.report("v", 2, T.KILLED)
    c.place("t", "n2")


def test_what_the_plan_says_of_the_end_is_kept_until_the_start(c):
    c.submit(spec("guest", group()), "g")
    v = c.job("v")
    assert v.state is JobState.RUNNING
    c.cancel("p")
    leave(c, "v")
    c.place("v", "n1", "n1", "n2", "n2")
    c.submit(high("again", group(count=3)), "q")
    assert c.plan(forced(c, "q", evict(c.job("v")), until_ms=5000)) == ()
    leave(c, "v")
    assert c.job("q").until_ms == 5000


@pytest.mark.parametrize("action", [Action.HOLD, Action.SUSPEND])
def test_a_job_that_waits_no_more_loses_its_fence_and_its_victims_still_go(c, action):
    c.accept(ControlJob(job_id="p", action=action))
    assert c.state.fences == {}
    (gone,) = [e for e in c.events if isinstance(e, FenceChanged)]
    assert (gone.made, gone.node_ids) == (False, ("n1",))
    assert "does not wait for it any more" in gone.why
    assert {a.evicted_for_fence for a in c.state.allocations.values()} == {""}
    assert c.task_states("v") == [T.STOPPING] * 4
    leave(c, "v")
    assert c.job("v").state is JobState.PENDING


def test_a_cancelled_job_loses_its_fence(c):
    c.cancel("p")
    assert (c.state.fences, c.job("p").state) == ({}, JobState.CANCELLED)


def test_a_fence_on_a_node_that_dies_is_dropped_at_once_and_the_job_waits_again(c):
    c.die("n1")
    (gone,) = [e for e in c.events if isinstance(e, FenceChanged)]
    assert (gone.job_id, gone.node_ids, gone.made, gone.why) == ("p", ("n1",), False, "node n1 died")
    assert list(c.state.pending) == ["p"]
    leave(c, "v")
    assert c.job("p").state is JobState.PENDING


def test_a_victim_whose_node_dies_is_gone(c):
    c.die("n2")
    for rank in (0, 1):
        c.report("v", rank, T.KILLED)
    assert c.job("p").state is JobState.RUNNING


def test_a_node_that_became_unfit_gets_no_gang(c):
    c.node("n1", taints=(Taint(key="worn"),))
    assert list(c.state.fences) == ["p"]
    leave(c, "v")
    (gone,) = [e for e in c.events if isinstance(e, FenceChanged)]
    assert "has the taint worn" in gone.why
    assert sorted(c.state.pending) == ["p", "v"]


def test_a_node_cannot_shrink_below_what_a_fence_needs():
    c = Cluster()
    c.node("n1")
    c.submit(low("low", group()), "v")
    c.place("v", "n1")
    c.submit(high("high", group(count=3)), "p")
    assert c.plan(forced(c, "p", evict(c.job("v")))) == ()
    c.reject(registration("n1", cpus=2), Code.CONFLICT)
    c.node("n1", cpus=3)


def test_a_gang_whose_place_another_victim_still_holds_waits_for_that_one_too():
    """The fence of q counts on room that a victim of p leaves: it may be gone later than the victims of q."""
    c = Cluster()
    c.node("n1")
    c.node("n2")
    for name, node in (("big", "n1"), ("small", "n2")):
        c.submit(low(name), name)
        c.place(name, node)
    for name in ("p", "q"):
        c.submit(high(name, group(count=2)), name)
    assert c.plan(forced(c, "p", evict(c.job("big")))) == ()
    assert c.plan(forced(c, "q", evict(c.job("small")), node="n1")) == ()
    leave(c, "small")
    assert list(c.state.fences) == ["p", "q"]
    leave(c, "big")
    assert (c.job("p").state, c.job("q").state) == (JobState.RUNNING, JobState.RUNNING)


def test_gpus_and_cpus_are_fenced_by_name():
    c = Cluster()
    c.node("n1", gpus=2, gpu_model="h100", hardware=Hardware(numa_cpus=("0-3",)))
    c.submit(low("low", group(gpus=1)), "v")
    assert c.plan(gang(c.job("v"), "n1", gpus=((0,),), cpus=("2",))) == ()
    c.submit(high("high", group(gpus=1)), "p")
    there = replace(gang(c.job("p"), "n1", gpus=((0,),), cpus=("2",)), evictions=(evict(c.job("v")),))
    assert c.plan(there) == ()
    assert (c.state.node_gpus_held("n1"), c.state.node_cpus_held("n1")) == ({0: MILLI}, 1 << 2)
    c.submit(high("other", group(gpus=1)), "q")
    assert "GPU 0 of node n1 is taken" in c.refused(gang(c.job("q"), "n1", gpus=((0,),)))
    leave(c, "v")
    assert (c.tasks("p")[0].gpus, c.tasks("p")[0].cpus) == ((0,), "2")


def test_elastic_tasks_that_join_may_have_victims_too(c):
    c.cancel("p")
    leave(c, "v")
    c.place("v", "n1")
    c.submit(high("grows", group(count=2, min_count=1)), "g")
    assert c.plan(gang(c.job("g"), "n2", ranks=[0])) == ()
    joins = replace(gang(c.job("g"), "n1", ranks=[1]), evictions=(evict(c.job("v")),))
    assert c.plan(joins) == ()
    leave(c, "v")
    assert (c.job("g").state, c.job("g").active, c.job("g").unplaced) == (JobState.RUNNING, 2, 0)


def test_a_restored_state_goes_on_with_its_fences(c):
    twin = restore(c.state.freeze())
    assert (twin.fences, twin.fenced.awaited) == (c.state.fences, {"p": 4})
    assert twin.fenced.resources == c.state.fenced.resources
    assert twin.digest() == c.state.digest()


# Repair in place


@pytest.fixture
def broken() -> Cluster:
    """Gang j of two tasks on n1 and n2; n2 died, the task on n1 stops. n3 is free."""
    c = Cluster()
    for node in ("n1", "n2", "n3"):
        c.node(node)
    c.submit(retrying("train", backoff_ms=60_000), "j")
    c.place("j", "n1", "n2")
    c.run_all("j")
    c.die("n2")
    assert c.task_states("j") == [T.STOPPING, T.LOST]
    return c


def repair(c: Cluster, *nodes: str) -> GangPlacement:
    job = c.job("j")
    return replace(gang(job, *nodes), attempt=job.attempt + 1, evictions=(evict(job, Cause.REPAIR),))


def test_a_gang_that_lost_a_node_keeps_its_place_and_starts_as_soon_as_the_others_stopped(broken):
    c = broken
    assert c.plan(repair(c, "n1", "n3")) == ()
    assert (c.state.fenced.awaited, c.state.fences["j"].attempt) == ({"j": 1}, 2)
    c.submit(spec("thief", group(count=4)), "t")
    assert "no room" in c.refused(gang(c.job("t"), "n1"))
    c.report("j", 0, T.KILLED)
    job = c.job("j")
    assert (job.state, job.attempt, job.restarts, job.preemptions) == (JobState.RUNNING, 2, 0, 0)
    assert [t.node_id for t in c.tasks("j")] == ["n1", "n3"]
    assert [e.after for e in c.events if isinstance(e, JobChanged)] == [JobState.PENDING, JobState.RUNNING]


def test_a_repair_that_loses_another_node_is_over_and_can_be_tried_again(broken):
    c = broken
    c.plan(repair(c, "n1", "n3"))
    c.die("n3")
    assert c.state.fences == {}
    assert c.plan(repair(c, "n1", "n1")) == ()
    c.report("j", 0, T.KILLED)
    assert c.job("j").state is JobState.RUNNING


def test_a_cancelled_or_suspended_repair_is_over(broken):
    c = broken
    c.plan(repair(c, "n1", "n3"))
    c.accept(ControlJob(job_id="j", action=Action.SUSPEND))
    assert c.state.fences == {}
    leave(c, "j")
    assert c.job("j").state is JobState.SUSPENDED


def test_only_a_gang_that_broke_is_repaired(broken):
    c = broken
    good = repair(c, "n1", "n3")
    assert "not a gang that broke" in c.refused(replace(good, attempt=1))
    assert "a repair evicts the job itself at attempt 1" in c.refused(replace(good, evictions=good.evictions * 2))
    assert "2 tasks of group worker start together" in c.refused(replace(good, tasks=good.tasks[:1]))
    assert "node n2 is DEAD" in c.refused(repair(c, "n1", "n2"))
    c.submit(high("other", group()), "o")
    other = replace(gang(c.job("o"), "n3"), evictions=good.evictions)
    assert "a repair evicts the job itself" in c.refused(other)
    c.report("j", 0, T.KILLED)
    assert "a repair evicts the job itself at attempt 2" in c.refused(good)
    assert "not a gang that broke" in c.refused(repair(c, "n1", "n3"))


def test_a_gang_that_was_requeued_is_not_repaired():
    c = Cluster()
    c.node("n1")
    c.submit(retrying("train"), "j")
    c.place("j", "n1")
    c.accept(ControlJob(job_id="j", action=Action.REQUEUE))
    assert "not a gang that broke" in c.refused(repair(c, "n1"))


def test_a_repair_counts_once_towards_the_limits(broken):
    c = broken
    c.accept(SetQueues(queues=(Queue(path="default", limit=(("cpu", 2000),), max_running_jobs=1),)))
    assert c.plan(repair(c, "n1", "n3")) == ()


def backing_off(level: FeatureLevel = FeatureLevel.BOUNDED) -> Cluster:
    """A gang on n1 whose backoff of 10 s has begun, and whose other member stops."""
    c = Cluster()
    c.node("n1")
    c.node("n2")
    c.state.feature_level = level
    c.submit(retrying("train", backoff_ms=10_000), "j")
    c.place("j", "n1", "n2")
    c.run_all("j")
    if level is FeatureLevel.BOUNDED:
        c.report("j", 1, T.FAILED, 1)
    else:
        c.die("n2")
        c.node("n2", boot="b2")
    assert c.plan(repair(c, "n1", "n2")) == ()
    return c


def test_the_end_of_a_backoff_is_the_same_for_a_master_that_was_restored_meanwhile():
    c = backing_off()
    c.accept(PassTime(), at_ms=c.state.clock_ms + 11_000)
    assert c.state.fences["j"].not_before_ms == 0  # its member still stops
    twin = restore(c.state.freeze())
    assert (twin.timers.next_ms(), twin.digest()) == (c.state.timers.next_ms(), c.state.digest())
    c.report("j", 0, T.KILLED)
    assert c.job("j").state is JobState.RUNNING


def test_a_fence_waits_for_no_backoff_below_the_level_at_which_all_masters_know_of_it():
    c = backing_off(FeatureLevel.FIRST)
    assert c.state.fences["j"].not_before_ms == 0
    c.report("j", 0, T.KILLED)
    assert c.job("j").state is JobState.RUNNING


def test_time_that_passes_starts_no_gang_with_a_command_that_is_refused():
    c = backing_off()
    c.report("j", 0, T.KILLED)
    refused = c.do(CancelJob(job_id="nobody"), at_ms=c.state.clock_ms + 11_000)
    assert (isinstance(refused, Rejected), c.events) == (True, ())
    assert c.job("j").state is JobState.PENDING
    c.accept(PassTime())
    assert c.job("j").state is JobState.RUNNING
