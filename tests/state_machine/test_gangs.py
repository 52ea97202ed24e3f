"""What agents report, and what becomes of the gang."""

import pytest

from gosched.core.commands.cluster import Noop
from gosched.core.commands.nodes import ReportTasks, TaskReport
from gosched.core.events import JobChanged, TaskChanged
from gosched.core.features import FeatureLevel
from gosched.core.limits import (
    AFTERMATH_MS,
    AGAIN_BACKOFF_MS,
    MAX_BACKOFF_MS,
    MAX_FREE_RESTARTS,
    MAX_UNDELIVERED_BACKOFF_MS,
    UNDELIVERED_BACKOFF_MS,
    WAVE_MS,
)
from gosched.core.outcome import Code
from gosched.core.reasons import Reason
from gosched.core.records.job import JobIntent, JobState
from gosched.core.records.task import TaskState
from gosched.core.resources import ZERO
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.placement_rules import Taint, TaintEffect
from gosched.core.spec.policies import GangPolicy, MemberFailure, RetryCause, RetryPolicy
from tests.state_machine.cluster import Cluster, failing_fast, gang, group, retrying, spec

T = TaskState


@pytest.fixture
def c() -> Cluster:
    cluster = Cluster()
    cluster.node("n1")
    cluster.node("n2")
    return cluster


def running(c: Cluster, wanted=None) -> str:
    """A job of two tasks, running on n1 and n2."""
    job = c.submit(wanted or spec(), "j1")
    c.place(job, "n1", "n2")
    c.run_all(job)
    return job


def test_a_job_whose_tasks_all_succeed_succeeds(c):
    running(c)
    ended_at_ms = c.state.clock_ms
    c.report("j1", 0, T.SUCCEEDED, 0, ended_at_ms=ended_at_ms)
    assert c.job("j1").state is JobState.RUNNING
    c.report("j1", 1, T.SUCCEEDED, 0)
    job = c.job("j1")
    assert (job.state, job.exit_code, job.ended_at_ms) == (JobState.SUCCEEDED, 0, c.state.clock_ms)
    assert c.tasks("j1")[0].ended_at_ms == ended_at_ms
    assert c.state.usage == {"n1": ZERO, "n2": ZERO}
    assert [type(e) for e in c.events] == [TaskChanged, JobChanged]


def test_task_states_only_move_forward(c):
    c.submit(spec(), "j1")
    c.place("j1", "n1")
    for state in (T.RUNNING, T.STARTING, T.PLACED, T.PENDING, T.UNSPECIFIED, T.RUNNING):
        c.report("j1", 0, state)
        assert c.task_states("j1") == [T.RUNNING, T.PLACED]


def test_reports_on_other_allocations_are_ignored(c):
    running(c)
    on_n2 = c.tasks("j1")[1].allocation_id
    reports = tuple(TaskReport(allocation_id=a, state=T.FAILED) for a in ("nope", on_n2, "j1/worker/0.2"))
    assert c.accept(ReportTasks(node_id="n1", incarnation="b1", reports=reports)).unchanged
    assert c.task_states("j1") == [T.RUNNING] * 2


def test_a_repeated_end_is_ignored(c):
    running(c)
    for _ in range(2):
        c.report("j1", 0, T.SUCCEEDED, 0)
    assert c.events == ()
    assert c.job("j1").succeeded == 1


@pytest.mark.parametrize(("node", "boot"), [("n1", "b2"), ("n9", "b1"), ("dead", "b1")])
def test_reports_of_an_unknown_dead_or_rebooted_node_are_refused(c, node, boot):
    c.node("dead")
    c.die("dead")
    c.reject(ReportTasks(node_id=node, incarnation=boot, reports=()), Code.STALE_INCARNATION)


def test_a_failed_member_restarts_the_gang_whole_once_all_have_stopped(c):
    running(c, retrying())
    c.report("j1", 0, T.FAILED, 3, reason="OOM_KILLED")
    assert c.task_states("j1") == [T.FAILED, T.STOPPING]
    assert c.tasks("j1")[1].reason == "GANG_MEMBER_FAILED"
    assert (c.job("j1").state, c.job("j1").intent) == (JobState.RUNNING, JobIntent.RESTART)
    c.report("j1", 1, T.KILLED, 143)
    job = c.job("j1")
    assert (job.state, job.intent, job.attempt, job.restarts) == (JobState.PENDING, JobIntent.RUN, 2, 1)
    assert (job.reason, job.exit_code) == ("OOM_KILLED", None)
    assert job.detail == "task worker/0: exit code 3"
    assert [(t.state, t.attempt, t.exit_code) for t in c.tasks("j1")] == [(T.PENDING, 2, None)] * 2
    c.place("j1", "n2")
    assert sorted(c.state.allocations) == ["j1/worker/0.2", "j1/worker/1.2"]
    assert c.job("j1").reason == ""


def test_members_that_succeeded_start_again_with_the_gang(c):
    running(c, retrying())
    c.report("j1", 0, T.SUCCEEDED, 0)
    c.report("j1", 1, T.FAILED, 1)
    assert (c.job("j1").state, c.job("j1").succeeded) == (JobState.PENDING, 0)
    assert c.task_states("j1") == [T.PENDING] * 2


def test_a_job_fails_with_the_exit_code_of_the_first_task_that_failed(c):
    running(c, failing_fast())
    c.report("j1", 1, T.FAILED, 7)
    c.report("j1", 0, T.FAILED, 9)
    job = c.job("j1")
    assert (job.state, job.exit_code, job.reason, job.failed) == (JobState.FAILED, 7, "TASK_FAILED", 2)


def test_a_job_without_retries_fails_at_once(c):
    running(c)
    c.report("j1", 0, T.FAILED, 7)
    c.report("j1", 1, T.KILLED)
    assert (c.job("j1").state, c.job("j1").exit_code) == (JobState.FAILED, 7)


def test_a_task_killed_by_somebody_else_fails_the_gang(c):
    running(c)
    c.report("j1", 0, T.KILLED, 137)
    c.report("j1", 1, T.SUCCEEDED, 0)
    assert (c.job("j1").state, c.job("j1").exit_code) == (JobState.FAILED, 137)


def fail_once(c: Cluster) -> int:
    """Milliseconds from the failure to the next attempt."""
    c.accept(ReportTasks(node_id="n1", incarnation="b1", reports=()), at_ms=c.job("j1").not_before_ms)
    c.place("j1", "n1")
    c.report("j1", 0, T.FAILED, 5)
    failed_at_ms = c.state.clock_ms
    c.report("j1", 1, T.KILLED)
    return c.job("j1").not_before_ms - failed_at_ms


def test_restarts_after_failures_are_counted_and_end(c):
    c.submit(retrying(restarts=2), "j1")
    fail_once(c)
    fail_once(c)
    assert (c.job("j1").state, c.job("j1").restarts) == (JobState.PENDING, 2)
    fail_once(c)
    assert (c.job("j1").state, c.job("j1").restarts, c.job("j1").exit_code) == (JobState.FAILED, 2, 5)


def test_each_backoff_is_twice_the_one_before_up_to_the_cap(c):
    c.submit(retrying(restarts=30, backoff_ms=1000), "j1")
    waits = [fail_once(c) for _ in range(30)]
    assert waits == [min(1000 << i, MAX_BACKOFF_MS) for i in range(30)]


def test_a_backoff_longer_than_the_cap_stays_as_asked_for(c):
    c.submit(retrying(restarts=2, backoff_ms=MAX_BACKOFF_MS + 5), "j1")
    assert [fail_once(c), fail_once(c)] == [MAX_BACKOFF_MS + 5] * 2


def test_a_gang_that_stops_for_longer_than_its_backoff_waits_no_more(c):
    running(c, retrying(backoff_ms=100))
    c.report("j1", 0, T.FAILED, 5)
    c.accept(Noop(), at_ms=10_000)
    c.report("j1", 1, T.KILLED)
    c.place("j1", "n1")


def test_preemptions_do_not_lengthen_the_backoff_of_a_failure(c):
    c.submit(retrying(restarts=5, backoff_ms=1000), "j1")
    for round_ in range(3):
        c.place("j1", "n1")
        c.node("n1", taints=(Taint(key=f"t{round_}", effect=TaintEffect.NO_EXECUTE),))
        c.report("j1", 0, T.KILLED)
        c.report("j1", 1, T.KILLED)
        c.node("n1")
    job = c.job("j1")
    assert (job.state, job.attempt, job.preemptions, job.restarts, job.not_before_ms) == (JobState.PENDING, 4, 3, 0, 0)
    assert fail_once(c) == 1000


def test_a_new_attempt_forgets_the_start_and_the_checkpoint_of_the_one_before(c):
    running(c, retrying())
    c.report("j1", 0, T.RUNNING, checkpoint_at_ms=c.state.clock_ms)
    assert c.job("j1").placed_at_ms > 0
    c.report("j1", 0, T.FAILED, 1)
    c.report("j1", 1, T.KILLED)
    assert (c.job("j1").placed_at_ms, c.job("j1").checkpoint_at_ms, c.job("j1").until_ms) == (0, 0, 0)


def test_a_cause_that_is_not_listed_is_not_retried(c):
    only_failures = RetryPolicy(max_restarts=3, when=(RetryCause.FAILED,))
    c.submit(spec(retry=only_failures), "j1")
    c.place("j1", "n1")
    c.die("n1")
    assert (c.job("j1").state, c.job("j1").reason) == (JobState.FAILED, "NODE_LOST")


def test_a_lost_node_restarts_the_gang_without_charge_but_not_forever(c):
    c.submit(retrying(restarts=1), "j1")
    for _ in range(MAX_FREE_RESTARTS):
        c.place("j1", "n1")
        for rank in (0, 1):
            c.report("j1", rank, T.RUNNING, started_at_ms=1)
        c.die("n1")
        c.node("n1")
    assert (c.job("j1").state, c.job("j1").restarts) == (JobState.PENDING, 0)
    c.place("j1", "n1")
    c.die("n1")
    assert (c.job("j1").state, c.job("j1").attempt) == (JobState.FAILED, MAX_FREE_RESTARTS + 1)


def test_a_gang_backs_off_whose_node_died_before_it_was_heard_to_start(c):
    c.submit(retrying(restarts=1), "j1")
    waits = []
    for _ in range(9):
        c.accept(ReportTasks(node_id="n1", incarnation="b1", reports=()), at_ms=c.job("j1").not_before_ms)
        c.place("j1", "n1")
        c.die("n1")
        waits.append(c.job("j1").not_before_ms - c.state.clock_ms)
        c.node("n1")
    assert waits == [min(UNDELIVERED_BACKOFF_MS << i, MAX_UNDELIVERED_BACKOFF_MS) for i in range(9)]


def test_cancelling_wins_over_a_restart_and_over_a_failure(c):
    for name, wanted in (("a", retrying("a")), ("b", failing_fast("b"))):
        c.submit(wanted, name)
        c.place(name, "n1", "n2")
        c.report(name, 0, T.FAILED, 1)
        c.cancel(name)
        c.report(name, 1, T.KILLED)
        assert (c.job(name).state, c.job(name).exit_code) == (JobState.CANCELLED, None)


def test_members_that_end_in_one_report_are_all_taken_as_reported(c):
    c.submit(spec("train", group(count=3)), "j1")
    c.place("j1", "n1")
    ends = (T.SUCCEEDED, T.FAILED, T.SUCCEEDED)
    reports = tuple(
        TaskReport(allocation_id=t.allocation_id, state=s, exit_code=int(s is T.FAILED))
        for t, s in zip(c.tasks("j1"), ends, strict=True)
    )
    c.accept(ReportTasks(node_id="n1", incarnation="b1", reports=reports))
    assert c.task_states("j1") == list(ends)
    assert (c.job("j1").state, c.job("j1").exit_code) == (JobState.FAILED, 1)


GOES_ON = GangPolicy(min_tasks=2, on_member_failure=MemberFailure.CONTINUE)


def elastic(**more: object) -> JobSpec:
    """Two tasks of four are enough."""
    return spec("train", group(count=4, min_count=2), gang=GOES_ON, **more)


def continuing(c: Cluster, **more: object) -> None:
    c.submit(elastic(**more), "j1")
    c.place("j1", "n1", "n1", "n1", "n2")
    c.run_all("j1")


def test_a_gang_that_continues_does_without_members_above_its_minimum(c):
    continuing(c)
    c.report("j1", 0, T.FAILED, 3)
    c.report("j1", 3, T.KILLED, 137)
    assert c.task_states("j1") == [T.FAILED, T.RUNNING, T.RUNNING, T.KILLED]
    job = c.job("j1")
    assert (job.state, job.intent, job.failed, job.unplaced) == (JobState.RUNNING, JobIntent.RUN, 1, 0)
    for rank in (1, 2):
        c.report("j1", rank, T.SUCCEEDED, 0)
    assert (c.job("j1").state, c.job("j1").exit_code, c.job("j1").reason) == (JobState.SUCCEEDED, 0, "")


def test_one_failure_more_than_the_minimum_bears_fails_the_gang(c):
    continuing(c)
    for rank in (0, 1):
        c.report("j1", rank, T.FAILED, 3)
    c.report("j1", 2, T.FAILED, 4)
    assert c.task_states("j1") == [T.FAILED] * 3 + [T.STOPPING]
    c.report("j1", 3, T.KILLED)
    assert (c.job("j1").state, c.job("j1").exit_code) == (JobState.FAILED, 4)


def test_below_its_minimum_a_gang_that_continues_restarts_as_its_policy_says(c):
    continuing(c, retry=RetryPolicy(max_restarts=3, when=(RetryCause.FAILED,)))
    for rank in range(3):
        c.report("j1", rank, T.FAILED, 3)
        c.accept(Noop(), at_ms=c.state.clock_ms + WAVE_MS)
    assert c.task_states("j1") == [T.PENDING, T.PENDING, T.FAILED, T.STOPPING]
    c.report("j1", 3, T.KILLED)
    job = c.job("j1")
    assert (job.state, job.attempt, job.restarts, job.member_restarts) == (JobState.PENDING, 2, 1, 2)
    assert c.task_states("j1") == [T.PENDING] * 4


def test_a_member_that_failed_starts_again_while_the_others_run_on(c):
    retry = RetryPolicy(max_restarts=2, backoff_ms=20_000, when=(RetryCause.FAILED,))
    continuing(c, retry=retry)
    for restarts, wait_ms in ((1, 20_000), (2, 40_000)):
        c.report("j1", 0, T.FAILED, 3)
        job, task = c.job("j1"), c.tasks("j1")[0]
        assert (job.member_restarts, job.attempt, job.failed, job.unplaced) == (restarts, 1, 0, 1)
        assert (task.state, task.node_id, task.moves) == (T.PENDING, "n1", restarts)
        assert job.not_before_ms == c.state.clock_ms + wait_ms
        assert "waits another" in c.refused(gang(job, "n1", ranks=[0]))
        c.accept(Noop(), at_ms=job.not_before_ms)
        assert c.plan(gang(job, "n1", ranks=[0])) == ()
    c.report("j1", 0, T.FAILED, 3)
    assert (c.tasks("j1")[0].state, c.job("j1").intent) == (T.FAILED, JobIntent.RUN)


def test_members_that_fail_shortly_after_each_other_cost_one_restart(c):
    continuing(c, retry=RetryPolicy(max_restarts=1, when=(RetryCause.FAILED,)))
    for rank in (0, 1):
        c.report("j1", rank, T.FAILED, 3)
    assert (c.task_states("j1")[:2], c.job("j1").member_restarts) == ([T.PENDING, T.PENDING], 1)
    assert c.job("j1").not_before_ms == c.state.clock_ms + AGAIN_BACKOFF_MS
    c.report("j1", 2, T.FAILED, 3)
    assert (c.job("j1").intent, c.job("j1").restarts) == (JobIntent.RESTART, 0)


def test_a_member_that_fails_on_and_on_costs_one_restart_after_the_other(c):
    continuing(c, retry=RetryPolicy(max_restarts=2, when=(RetryCause.FAILED,)))
    for _ in range(20):
        c.report("j1", 0, T.FAILED, 3)
        if c.tasks("j1")[0].state is T.FAILED:
            break
        c.accept(Noop(), at_ms=max(c.job("j1").not_before_ms, c.state.clock_ms + 1))
        assert c.plan(gang(c.job("j1"), "n1", ranks=[0])) == ()
    assert (c.tasks("j1")[0].state, c.tasks("j1")[0].moves, c.job("j1").member_restarts) == (T.FAILED, 7, 2)


def test_what_members_fail_at_after_the_loss_of_a_node_is_put_down_to_it(c):
    continuing(c, retry=RetryPolicy(max_restarts=1, when=(RetryCause.NODE_LOST,)))
    c.report("j1", 0, T.FAILED, 3)  # at once, and their masters hear of the node later
    assert c.task_states("j1")[0] is T.FAILED
    c.die("n2")
    assert c.task_states("j1") == [T.PENDING, T.RUNNING, T.RUNNING, T.PENDING]
    c.report("j1", 1, T.FAILED, 3)  # by a time limit of their own
    job = c.job("j1")
    assert (job.intent, job.restarts, job.reason) == (JobIntent.RESTART, 0, Reason.NODE_LOST)
    assert job.detail == "task worker/1: exit code 3, after a node of the gang was lost"


def test_a_failure_long_after_the_loss_of_a_node_is_the_jobs_own(c):
    continuing(c, retry=RetryPolicy(max_restarts=1, when=(RetryCause.NODE_LOST,)))
    c.die("n2")
    c.accept(Noop(), at_ms=c.state.clock_ms + AFTERMATH_MS + 1)
    c.report("j1", 1, T.FAILED, 3)
    assert (c.job("j1").intent, c.task_states("j1")[1]) == (JobIntent.RUN, T.FAILED)
    c.report("j1", 2, T.FAILED, 3)
    assert c.job("j1").intent is JobIntent.FAIL


def test_members_that_succeeded_count_towards_the_minimum(c):
    continuing(c)
    for rank in (0, 1):
        c.report("j1", rank, T.SUCCEEDED, 0)
    for rank in (2, 3):
        c.report("j1", rank, T.FAILED, 1)
    assert c.job("j1").state is JobState.SUCCEEDED


def test_members_that_wait_for_a_place_do_not(c):
    c.submit(elastic(), "j1")
    assert c.plan(gang(c.job("j1"), "n1", ranks=[0, 1])) == ()
    c.report("j1", 0, T.FAILED, 1)
    assert (c.job("j1").intent, c.task_states("j1")[1]) == (JobIntent.FAIL, T.STOPPING)


def test_each_group_keeps_its_own_minimum(c):
    groups = (group("ps", 1), group("worker", 3, min_count=1))
    c.submit(spec("train", *groups, gang=GOES_ON), "j1")
    c.place("j1", "n1")
    c.report("j1", 1, T.FAILED, 1)
    assert c.job("j1").intent is JobIntent.RUN
    c.report("j1", 0, T.FAILED, 1)
    assert c.job("j1").intent is JobIntent.FAIL


def test_a_member_whose_node_was_lost_gets_another_place(c):
    continuing(c)
    c.die("n2")
    lost = c.tasks("j1")[3]
    assert (lost.state, lost.attempt, lost.moves) == (T.PENDING, 1, 1)
    assert (c.job("j1").unplaced, c.job("j1").failed, list(c.state.pending)) == (1, 0, ["j1"])
    assert c.plan(gang(c.job("j1"), "n1", ranks=[3])) == ()
    assert c.tasks("j1")[3].allocation_id == "j1/worker/3.1-1"
    c.succeed_all("j1")
    assert c.job("j1").state is JobState.SUCCEEDED


def test_losing_the_node_of_the_minimum_loses_the_gang(c):
    continuing(c)
    c.die("n1")
    assert c.task_states("j1") == [T.LOST] * 3 + [T.STOPPING]
    c.report("j1", 3, T.KILLED)
    assert (c.job("j1").state, c.job("j1").reason) == (JobState.FAILED, "NODE_LOST")


def test_a_lost_member_that_gets_no_place_before_the_others_are_done_is_not_needed(c):
    continuing(c)
    c.die("n2")
    for rank in range(3):
        c.report("j1", rank, T.SUCCEEDED, 0)
    assert (c.job("j1").state, c.tasks("j1")[3].reason) == (JobState.SUCCEEDED, "NOT_NEEDED")


def lost_by_the_node(c: Cluster, job: str, rank: int = 0) -> None:
    c.report(job, rank, T.LOST, reason=Reason.NODE_FAULT, detail="no space left on device", blames_node=True)


def test_what_its_node_could_not_start_is_placed_again_at_no_cost_though_the_job_wants_no_retries(c):
    job = c.submit(spec("once", group()), "j1")
    for attempt in range(1, MAX_FREE_RESTARTS + 2):
        c.place(job, "n1")
        lost_by_the_node(c, job)
        found = c.job(job)
        if attempt <= MAX_FREE_RESTARTS:
            assert (found.state, found.attempt, found.restarts) == (JobState.PENDING, attempt + 1, 0)
    assert (c.job(job).state, c.job(job).reason) == (JobState.FAILED, Reason.NODE_FAULT), "not for ever"


def test_a_gang_that_fails_with_a_member_fails_with_one_that_its_node_could_not_start(c):
    job = c.submit(failing_fast(), "j1")
    c.place(job, "n1", "n2")
    c.report(job, 1, T.RUNNING, started_at_ms=1)
    lost_by_the_node(c, job)
    c.report(job, 1, T.KILLED)
    assert c.job(job).state is JobState.FAILED


def test_below_its_feature_level_the_fault_of_a_node_is_a_lost_task_like_any_other(c):
    c.state.feature_level = FeatureLevel.BOUNDED - 1
    for name, wanted, state in (
        ("a", spec("once", group()), JobState.FAILED),
        ("b", retrying("again", group()), JobState.PENDING),
    ):
        c.place(c.submit(wanted, name), "n1")
        lost_by_the_node(c, name)
        assert c.job(name).state is state
    assert c.state.nodes["n1"].failing == ()


def of_lost_order(c: Cluster, job: str, rank: int, reason: Reason = Reason.DRAINED) -> None:
    """An agent reports a task as stopped, as the masters of before a restore had ordered."""
    c.report(job, rank, T.KILLED, 143, reason=reason, detail="ended by SIGTERM")


AFTER_EVICTIONS = RetryPolicy(max_restarts=2, when=(RetryCause.NODE_LOST, RetryCause.PREEMPTED))


@pytest.mark.parametrize("reason", [Reason.DRAINED, Reason.RECLAIMED, Reason.TAINTED, Reason.REQUEUED])
def test_an_eviction_that_was_ordered_after_the_backup_costs_the_job_nothing(c, reason):
    running(c, retrying(restarts=1, backoff_ms=9000))
    of_lost_order(c, "j1", 0, reason)
    of_lost_order(c, "j1", 1, reason)
    job = c.job("j1")
    assert (job.state, job.attempt, job.restarts, job.preemptions) == (JobState.PENDING, 2, 0, 1)
    assert (job.reason, job.not_before_ms, job.exit_code) == (reason, 0, None)
    assert "newer than the restored state" in job.detail
    c.place("j1", "n1", "n2")


def test_a_job_that_is_not_restarted_after_an_eviction_fails_by_a_lost_order_too(c):
    running(c, spec(retry=RetryPolicy(max_restarts=0, when=(RetryCause.PREEMPTED,))))
    of_lost_order(c, "j1", 0)
    of_lost_order(c, "j1", 1)
    assert (c.job("j1").state, c.job("j1").reason) == (JobState.FAILED, Reason.DRAINED)


@pytest.mark.parametrize("reason", [Reason.CANCELLED, Reason.TIMEOUT])
def test_what_people_or_a_timeout_ended_after_the_backup_does_not_start_again_for_free(c, reason):
    running(c, spec(retry=AFTER_EVICTIONS))
    of_lost_order(c, "j1", 0, reason)
    of_lost_order(c, "j1", 1, reason)
    assert (c.job("j1").state, c.job("j1").reason) == (JobState.FAILED, reason)


def test_an_elastic_task_of_a_lost_order_waits_for_another_place_and_its_job_runs_on(c):
    c.submit(retrying("wide", group("worker", 2, min_count=1)), "j1")
    c.place("j1", "n1", "n2")
    c.run_all("j1")
    of_lost_order(c, "j1", 1)
    job = c.job("j1")
    assert (job.state, job.attempt, job.active, job.unplaced) == (JobState.RUNNING, 1, 1, 1)
    assert c.tasks("j1")[1].moves == 1
    of_lost_order(c, "j1", 0)
    assert (c.job("j1").state, c.job("j1").attempt) == (JobState.PENDING, 2)


def test_below_its_feature_level_a_lost_order_is_a_failure(c):
    c.state.feature_level = FeatureLevel.BOUNDED - 1
    running(c, spec(retry=AFTER_EVICTIONS))
    of_lost_order(c, "j1", 0)
    of_lost_order(c, "j1", 1)
    assert (c.job("j1").state, c.job("j1").reason) == (JobState.FAILED, Reason.DRAINED)
