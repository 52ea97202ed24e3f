"""Who may be evicted, for whom, and how he goes and comes back."""

from dataclasses import replace

import pytest

from gosched.core.commands.cluster import Noop, SetQueues, SetQuotas, SetWindow
from gosched.core.commands.plans import Cause, Eviction, GangPlacement
from gosched.core.events import FenceChanged, JobEvicted, TaskChanged
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.records.queue import Queue, QueueType
from gosched.core.records.task import TaskState
from gosched.core.records.tenant import Quota
from gosched.core.records.window import Window
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy, MemberFailure, Preemption, PreemptionPolicy
from tests.state_machine.cluster import Cluster, failing_fast, gang, group, retrying, spec

T = TaskState
CPU = 1000


def low(name: str = "low", *groups: object, **more: object) -> JobSpec:
    """A gang of four 1-CPU tasks that may be evicted."""
    return replace(retrying(name, *(groups or (group(count=4),))), **more)  # type: ignore[arg-type]


def high(name: str = "high", *groups: object, **more: object) -> JobSpec:
    return spec(name, *(groups or (group(count=4),)), **{"priority": 5, **more})  # type: ignore[arg-type]


def evict(job: Job, cause: Cause = Cause.PREEMPT, *ranks: int) -> Eviction:
    return Eviction(job_id=job.id, attempt=job.attempt, ranks=ranks, cause=cause)


def forced(c: Cluster, job_id: str, *evictions: Eviction, node: str = "n1", **more: object) -> GangPlacement:
    return replace(gang(c.job(job_id), node), evictions=evictions, **more)  # type: ignore[arg-type]


def wait(c: Cluster, ms: int) -> None:
    c.accept(Noop(), at_ms=c.state.clock_ms + ms)


def leave(c: Cluster, job_id: str, state: TaskState = T.KILLED) -> None:
    """All that stops of the job has stopped."""
    for task in c.tasks(job_id):
        if task.state is T.STOPPING:
            c.report(job_id, task.rank, state, 143)


@pytest.fixture
def c() -> Cluster:
    """A full node n1 of 4 CPUs with gang v of low priority, an empty one n2, and gang p, which could preempt it."""
    cluster = Cluster()
    cluster.node("n1")
    cluster.node("n2")
    cluster.submit(low(), "v")
    cluster.place("v", "n1")
    cluster.submit(high(), "p")
    return cluster


def test_a_victim_stops_waits_again_in_its_old_place_and_nothing_is_charged_to_it(c):
    sequence = c.job("v").sequence
    c.run_all("v")
    wait(c, 1000)
    assert c.plan(forced(c, "p", evict(c.job("v")))) == ()
    assert c.task_states("v") == [T.STOPPING] * 4
    assert (c.job("v").intent, c.job("v").reason, c.job("v").detail) == (
        JobIntent.RESTART,
        "PREEMPTED",
        "gave way to job high",
    )
    assert {a.evicted_for_fence for a in c.state.allocations.values()} == {"p"}
    leave(c, "v")
    v = c.job("v")
    assert (v.state, v.attempt, v.sequence, v.restarts, v.preemptions) == (JobState.PENDING, 2, sequence, 0, 1)
    assert v.not_before_ms <= c.state.clock_ms
    assert c.job("p").state is JobState.RUNNING


def test_the_event_tells_what_the_eviction_costs(c):
    placed = c.state.clock_ms - 1  # the submission of p came 1 ms later
    c.report("v", 0, T.RUNNING, checkpoint_at_ms=c.state.clock_ms + 1)
    saved = c.job("v").checkpoint_at_ms
    assert saved == placed + 2
    c.plan(forced(c, "p", evict(c.job("v"))))
    expected = JobEvicted(
        job_id="v",
        queue="default",
        for_job="p",
        cause=Cause.PREEMPT,
        tasks=4,
        whole=True,
        lost_ms=4 * (c.state.clock_ms - saved),
    )
    assert c.events[0] == expected
    assert c.events[-1] == FenceChanged(job_id="p", node_ids=("n1",), made=True, victims_on=("n1",))


def work_of_ended(c: Cluster) -> list[tuple[int, int, int]]:
    found = [event.work for event in c.events if isinstance(event, TaskChanged) and event.work is not None]
    return [(work.held_ms, work.useful_ms, work.lost_ms) for work in found]


def test_the_work_of_a_victim_up_to_its_checkpoint_is_useful_and_the_rest_is_lost(c: Cluster) -> None:
    c.report("v", 0, T.RUNNING)
    c.report("v", 1, T.RUNNING)
    wait(c, 1000)
    c.plan(forced(c, "p", evict(c.job("v"))))
    wait(c, 200)
    c.report("v", 0, T.KILLED, 143, checkpoint_at_ms=c.state.clock_ms)
    wait(c, 300)
    saved_ms = c.job("v").checkpoint_at_ms
    c.report("v", 1, T.KILLED, 143)
    ((held_ms, useful_ms, lost_ms),) = work_of_ended(c)
    assert (held_ms, lost_ms) == (useful_ms + lost_ms, c.state.clock_ms - saved_ms)


def test_work_of_a_task_that_nobody_evicted_is_useful_if_it_succeeds_and_lost_never(c: Cluster) -> None:
    c.report("v", 0, T.RUNNING)
    c.report("v", 1, T.RUNNING)
    wait(c, 1000)
    c.report("v", 0, T.SUCCEEDED, 0)
    ((held_ms, useful_ms, lost_ms),) = work_of_ended(c)
    assert held_ms == useful_ms >= 1000
    assert lost_ms == 0
    c.report("v", 1, T.FAILED, 1)
    ((held_ms, useful_ms, lost_ms),) = work_of_ended(c)
    assert held_ms >= 1000
    assert (useful_ms, lost_ms) == (0, 0)


def refuse(c: Cluster, *evictions: Eviction) -> str:
    return c.refused(forced(c, "p", *evictions))


def test_nobody_of_equal_or_higher_priority_in_the_queue_is_preempted(c):
    c.submit(low("equal", group(), priority=5), "equal")
    c.place("equal", "n2")
    assert "its priority 5 is not below 5" in refuse(c, evict(c.job("equal")))


def test_a_job_on_borrowed_room_gives_way_whatever_its_priority_so_that_it_has_gone_when_its_time_comes(c):
    guest = low("guest", group(), priority=9)
    c.submit(guest, "guest")
    until = c.state.clock_ms + guest.eviction_ms + 100
    assert c.plan(replace(gang(c.job("guest"), "n2"), until_ms=until)) == ()
    assert c.job("guest").until_ms == until
    placement = forced(c, "p", evict(c.job("v")), evict(c.job("guest"), Cause.BACKFILL))
    assert "may keep its place for now" in c.refused(placement)
    wait(c, 100)
    assert c.plan(placement) == ()
    assert c.job("guest").reason == "BACKFILL_OVER"


@pytest.mark.parametrize(
    ("victim", "why"),
    [
        (low("x", preemption=Preemption(preemptible=False)), "is not preemptible"),
        (spec("x"), "would not be started again"),
        (failing_fast("x"), "would not be started again"),
        (low("x", preemption=Preemption(min_runtime_ms=1000)), "may run another 0.999s"),
    ],
)
def test_a_victim_must_be_preemptible_come_back_and_have_run_for_its_minimum(c, victim, why):
    small = replace(victim, groups=(group(),), gang=replace(victim.gang, min_tasks=1))
    c.submit(small, "x")
    c.place("x", "n2")
    assert why in refuse(c, evict(c.job("x")))
    assert c.task_states("v") == [T.PLACED] * 4


def test_a_gang_that_goes_on_without_some_members_is_a_victim_too(c):
    gang_policy = GangPolicy(min_tasks=1, on_member_failure=MemberFailure.CONTINUE)
    c.submit(low("some", group(count=1), gang=gang_policy), "some")
    c.place("some", "n2")
    assert c.plan(forced(c, "p", evict(c.job("v")), evict(c.job("some")))) == ()


def test_a_victim_must_be_there_at_that_attempt_and_not_on_its_way_out(c):
    v = evict(c.job("v"))
    assert "holds nothing" in refuse(c, replace(v, job_id="nope"))
    assert "holds nothing" in refuse(c, replace(v, job_id="p"))
    assert "at attempt 1, the plan at 2" in refuse(c, replace(v, attempt=2))
    assert "evicts a job twice" in refuse(c, v, v)
    c.cancel("v")
    assert "on its way out already" in refuse(c, v)


def test_the_preemptor_and_its_queue_must_allow_it(c):
    c.submit(high("meek", group(), preemption=Preemption(policy=PreemptionPolicy.NEVER)), "meek")
    assert "evicts nobody" in c.refused(forced(c, "meek", evict(c.job("v"))))
    for policy in (PreemptionPolicy.NEVER, PreemptionPolicy.OBSERVE_ONLY):
        c.accept(SetQueues(queues=(Queue(path="default", preemption=policy),)))
        assert "queue default lets nobody preempt" in refuse(c, evict(c.job("v")))


def test_a_queue_does_what_the_nearest_one_above_says():
    c = Cluster()
    never, lower = PreemptionPolicy.NEVER, PreemptionPolicy.LOWER_PRIORITY
    queues = [Queue(path="a", preemption=never), Queue(path="a.x"), Queue(path="a.y", preemption=lower)]
    c.accept(SetQueues(queues=tuple(queues)))
    c.node("n1", cpus=8)
    for path in ("a.x", "a.y"):
        c.submit(low(f"low{path[-1]}", queue=path), f"v{path}")
        c.place(f"v{path}", "n1")
        c.submit(high(f"high{path[-1]}", queue=path), f"p{path}")
    assert "lets nobody preempt" in c.refused(forced(c, "pa.x", evict(c.job("va.x"))))
    assert c.plan(forced(c, "pa.y", evict(c.job("va.y")))) == ()


def test_preemption_stays_within_the_queue_and_reclaim_without(c):
    c.accept(SetQueues(queues=(Queue(path="default"), Queue(path="other"))))
    c.submit(high("foreign", queue="other"), "f")
    assert "may not preempt it" in c.refused(forced(c, "f", evict(c.job("v"))))
    assert "nothing to reclaim" in refuse(c, evict(c.job("v"), Cause.RECLAIM))
    assert "UNSPECIFIED is no cause" in refuse(c, evict(c.job("v"), Cause.UNSPECIFIED))
    assert c.plan(forced(c, "f", evict(c.job("v"), Cause.RECLAIM))) == ()
    assert c.job("v").reason == "RECLAIMED"


def test_what_does_not_fit_into_what_the_victims_leave_evicts_nobody(c):
    c.submit(high("wide", group(count=5)), "wide")
    assert "no room" in c.refused(forced(c, "wide", evict(c.job("v"))))
    assert c.task_states("v") == [T.PLACED] * 4


def test_a_plan_takes_the_room_of_a_victim_once(c):
    c.submit(high("late"), "late")
    assert "on its way out" in "".join(c.plan(forced(c, "p", evict(c.job("v"))), forced(c, "late", evict(c.job("v")))))
    assert list(c.state.fences) == ["p"]


# Reclaim


@pytest.fixture
def shared() -> Cluster:
    """Queue `a` holds all 8 CPUs with two gangs of 4 and is guaranteed 4 of them, as is `b`, which is empty."""
    c = Cluster()
    half = [Queue(path=p, type=QueueType.CAPACITY, capacity_pct=50) for p in ("a", "b")]
    c.accept(SetQueues(queues=(*half, Queue(path="a.x"), Queue(path="b.x"))))
    c.node("n1", cpus=8)
    for name in ("one", "two"):
        c.submit(low(name, queue="a.x"), name)
        c.place(name, "n1")
    c.submit(spec("mine", group(count=4), queue="b.x"), "p")
    return c


def test_a_queue_takes_back_what_others_hold_beyond_their_guarantee(shared):
    c = shared
    assert c.plan(forced(c, "p", evict(c.job("one"), Cause.RECLAIM))) == ()
    leave(c, "one")
    assert c.job("p").state is JobState.RUNNING


def test_nobody_is_taken_below_a_guarantee(shared):
    c = shared
    both = [evict(c.job(name), Cause.RECLAIM) for name in ("one", "two")]
    assert "queue a would hold 0 cpu, it is guaranteed 4000" in c.refused(forced(c, "p", *both))
    assert c.plan(forced(c, "p", both[0])) == ()
    c.submit(spec("more", group(count=4), queue="b.x"), "q")
    assert "queue a would hold 0 cpu" in c.refused(forced(c, "q", both[1]))  # `one`, which still stops, is gone


def test_tasks_that_are_about_to_join_a_victim_go_with_it_and_count_towards_the_guarantee(shared):
    c = shared
    for name in ("one", "two"):
        c.cancel(name)
        leave(c, name)
    c.submit(low("others", group(count=3), queue="a.x"), "others")
    c.submit(low("small", group(), queue="a.x"), "small")
    c.submit(low("grows", group(count=2, min_count=1), queue="a.x", priority=5), "e")
    for name in ("others", "small"):
        c.place(name, "n1")
    assert c.plan(gang(c.job("e"), "n1", ranks=[0])) == ()
    joins = replace(gang(c.job("e"), "n1", ranks=[1]), evictions=(evict(c.job("small")),))
    assert c.plan(joins) == ()
    assert "queue a would hold 3000 cpu" in c.refused(forced(c, "p", evict(c.job("e"), Cause.RECLAIM)))


def test_a_queue_that_holds_less_than_its_guarantee_gives_nothing_back(shared):
    c = shared
    c.node("n2", cpus=24)
    assert "holds no more than it is guaranteed" in c.refused(
        forced(c, "p", evict(c.job("one"), Cause.RECLAIM), node="n2")
    )


# Elastic surplus


@pytest.fixture
def elastic() -> Cluster:
    """Gang e of one server (rank 0) and workers 1 to 3, of which one must be there, fills n1; p wants one CPU."""
    c = Cluster()
    c.node("n1")
    c.submit(low("stretchy", group("ps"), group("worker", 3, min_count=1)), "e")
    c.place("e", "n1")
    c.run_all("e")
    c.submit(high("high", group()), "p")
    return c


def test_surplus_tasks_go_and_wait_for_another_place_while_their_job_runs_on(elastic):
    c = elastic
    assert c.plan(forced(c, "p", evict(c.job("e"), Cause.PREEMPT, 3))) == ()
    assert c.task_states("e") == [T.RUNNING] * 3 + [T.STOPPING]
    assert (c.events[0].tasks, c.events[0].whole) == (1, False)
    assert (c.job("e").running, c.job("e").unplaced, c.job("e").intent) == (3, 0, JobIntent.RUN)
    c.report("e", 3, T.FAILED, 143)
    assert [e.after for e in c.events if isinstance(e, TaskChanged)] == [T.KILLED, T.PENDING, T.PLACED]
    assert c.job("p").state is JobState.RUNNING
    e = c.job("e")
    assert (e.state, e.attempt, e.unplaced, e.failed, e.preemptions) == (JobState.RUNNING, 1, 1, 0, 0)
    assert list(c.state.pending) == ["e"]
    c.succeed_all("p")
    assert c.plan(gang(c.job("e"), "n1", ranks=[3])) == ()
    assert (c.tasks("e")[3].allocation_id, c.tasks("e")[3].moves) == ("e/worker/2.1-1", 1)


def test_an_evicted_task_that_succeeds_has_succeeded(elastic):
    c = elastic
    c.plan(forced(c, "p", evict(c.job("e"), Cause.PREEMPT, 3)))
    c.report("e", 3, T.SUCCEEDED, 0)
    assert (c.tasks("e")[3].state, c.job("e").unplaced, c.job("e").succeeded) == (T.SUCCEEDED, 0, 1)
    assert c.job("p").state is JobState.RUNNING


def test_an_evicted_task_needs_no_retries_and_no_other_place_if_the_others_are_done(elastic):
    c = elastic
    c.plan(forced(c, "p", evict(c.job("e"), Cause.PREEMPT, 3)))
    for rank in range(3):
        c.report("e", rank, T.SUCCEEDED, 0)
    assert c.job("e").state is JobState.RUNNING
    c.report("e", 3, T.KILLED, 143)
    assert (c.job("e").state, c.tasks("e")[3].reason) == (JobState.SUCCEEDED, "NOT_NEEDED")


def test_an_evicted_task_whose_node_dies_takes_nobody_with_it():
    c = Cluster()
    c.node("n1")
    c.node("n2")
    c.submit(low("stretchy", group(count=3, min_count=1)), "e")
    c.place("e", "n1", "n1", "n2")
    c.submit(high("high", group(count=4)), "p")
    assert c.plan(forced(c, "p", evict(c.job("e"), Cause.PREEMPT, 2), node="n2")) == ()
    c.die("n2")
    assert (c.job("e").intent, c.job("e").failed, c.job("e").unplaced) == (JobIntent.RUN, 0, 1)
    assert sorted(c.state.pending) == ["e", "p"]


def test_each_group_keeps_its_floor(elastic):
    c = elastic
    e = c.job("e")
    for ranks, why in [
        ((0,), "group ps would keep 0 tasks, it needs 1"),
        ((1, 2, 3), "group worker would keep 0 tasks, it needs 1"),
        ((4,), "its ranks are 0 to 3"),
        ((3, 3), "each goes once"),
    ]:
        assert why in refuse(c, evict(e, Cause.PREEMPT, *ranks))
    c.report("e", 3, T.SUCCEEDED, 0)
    assert "rank 3 is SUCCEEDED" in refuse(c, evict(e, Cause.PREEMPT, 3))
    assert c.plan(forced(c, "p", evict(e, Cause.PREEMPT, 1, 2))) == ()
    c.submit(high("late", group()), "late")
    assert "rank 2 is STOPPING" in c.refused(forced(c, "late", evict(e, Cause.PREEMPT, 2)))


def test_a_gang_that_goes_whole_after_some_of_its_tasks_went_alone_leaves_for_both(elastic):
    c = elastic
    c.submit(high("next", group(count=3)), "q")
    assert c.plan(forced(c, "p", evict(c.job("e"), Cause.PREEMPT, 3))) == ()
    assert c.plan(forced(c, "q", evict(c.job("e")))) == ()
    assert c.state.fenced.awaited == {"p": 1, "q": 3}
    leave(c, "e")
    assert (c.job("p").state, c.job("q").state, c.job("e").state) == (
        *(JobState.RUNNING, JobState.RUNNING),
        JobState.PENDING,
    )
    assert {t.moves for t in c.tasks("e")} == {0}


# Windows


def close(c: Cluster, **more: object) -> None:
    window = Window(name="rack work", start_ms=c.state.clock_ms, end_ms=c.state.clock_ms + 1000, nodes=("n1",))
    c.accept(SetWindow(window=replace(window, name="rack-work", **more)))  # type: ignore[arg-type]


def clearing(c: Cluster) -> GangPlacement:
    return GangPlacement(job_id="", attempt=0, tasks=(), evictions=(evict(c.job("v"), Cause.WINDOW),))


def test_a_window_evicts_what_stands_in_it_for_nobody(c):
    assert "stands in no window" in c.refused(clearing(c))
    close(c)
    assert c.plan(clearing(c)) == ()
    assert (c.job("v").reason, c.state.fences, c.state.fenced.awaited) == ("WINDOW_BEGINS", {}, {})
    assert c.events[0].for_job == ""
    leave(c, "v")
    assert c.job("v").state is JobState.PENDING


@pytest.mark.parametrize("for_whom", [{"queues": ("default",)}, {"tenants": ("default",)}, {"nodes": ("n2",)}])
def test_a_window_evicts_nobody_who_may_be_there_or_stands_elsewhere(c, for_whom):
    close(c, **for_whom)
    assert "stands in no window" in c.refused(clearing(c))


def test_evictions_for_nobody_are_for_windows_only(c):
    assert "no such job" in c.refused(GangPlacement(job_id="", attempt=0, tasks=()))
    assert "nobody gets its room" in c.refused(replace(clearing(c), evictions=(evict(c.job("v")),)))


# Limits


def test_what_victims_hold_counts_as_gone_for_the_limits(c):
    c.accept(SetQueues(queues=(Queue(path="default", limit=(("cpu", 4 * CPU),), max_running_jobs=1),)))
    assert "its max_running_jobs is 1" in c.refused(gang(c.job("p"), "n2"))
    assert c.plan(forced(c, "p", evict(c.job("v")))) == ()
    c.submit(spec("late", group()), "late")
    assert "max_running_jobs is 1" in c.refused(gang(c.job("late"), "n2"))
    leave(c, "v")
    assert c.job("p").state is JobState.RUNNING


def test_a_fence_counts_towards_the_limits_of_those_who_come_after(c):
    c.submit(low("small", group()), "small")
    c.place("small", "n2")
    c.accept(SetQuotas(quotas=(Quota(tenant="default", limit=(("cpu", 9 * CPU),)),)))
    assert c.plan(forced(c, "p", evict(c.job("small")), node="n2")) == ()  # 5 CPUs are held, 8 will be
    c.node("n3")
    c.submit(spec("pair"), "late")
    assert "holds 8 of its limit of 9 CPUs" in c.refused(gang(c.job("late"), "n3"))
    c.submit(spec("last", group()), "last")
    c.place("last", "n3")
