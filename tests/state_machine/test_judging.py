"""One fault makes several events: what began first is the cause, not what was heard of first."""

from dataclasses import replace

import pytest

from gosched.core.commands.cluster import Noop
from gosched.core.reasons import Reason
from gosched.core.records.job import JobIntent, JobState
from gosched.core.records.task import TaskState
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy, MemberFailure, RetryCause, RetryPolicy
from tests.state_machine.cluster import ALL_CAUSES, Cluster, gang, group, on_three_nodes, spec

T = TaskState
LOST_ONLY = (RetryCause.NODE_LOST, RetryCause.PREEMPTED)


def gang_of_three(when: tuple[RetryCause, ...] = LOST_ONLY, restarts: int = 5, backoff_ms: int = 0) -> JobSpec:
    retry = RetryPolicy(max_restarts=restarts, backoff_ms=backoff_ms, when=when)
    return spec("train", group(count=3), retry=retry)


def survivors_fail(c: Cluster, *ranks: int) -> int:
    """When the first of them was heard of."""
    at_ms = c.state.clock_ms + 1
    for rank in ranks:
        c.report("j", rank, T.FAILED, 1, reason=Reason.NONZERO_EXIT)
    return at_ms


def test_survivors_that_fail_before_their_peers_node_is_known_to_be_lost_are_not_the_cause():
    c = on_three_nodes(gang_of_three())
    survivors_fail(c, 0, 1)
    job = c.job("j")
    assert (job.state, job.intent, job.active) == (JobState.RUNNING, JobIntent.FAIL, 1)
    c.die("n3", heard_at_ms=c.state.clock_ms - 10)
    job = c.job("j")
    assert (job.state, job.attempt, job.reason, job.restarts) == (JobState.PENDING, 2, Reason.NODE_LOST, 0)
    assert (job.detail, job.exit_code, job.failed_at_ms) == ("task worker/2: node n3 is dead", None, 0)


def test_a_restart_that_a_lost_node_explains_costs_none_of_the_jobs_restarts():
    c = on_three_nodes(gang_of_three(ALL_CAUSES, restarts=1))
    survivors_fail(c, 0)
    assert (c.job("j").intent, c.job("j").restarts) == (JobIntent.RESTART, 1)
    c.die("n3", heard_at_ms=c.state.clock_ms - 10)
    assert (c.job("j").intent, c.job("j").restarts, c.job("j").reason) == (JobIntent.RESTART, 0, Reason.NODE_LOST)
    c.report("j", 1, T.KILLED)
    assert (c.job("j").state, c.job("j").attempt) == (JobState.PENDING, 2)


def test_a_member_that_failed_while_the_node_was_still_heard_failed_by_itself():
    c = on_three_nodes(gang_of_three())
    failed_at_ms = survivors_fail(c, 0)
    c.report("j", 1, T.KILLED)
    c.die("n3", heard_at_ms=failed_at_ms + 1)
    assert (c.job("j").state, c.job("j").reason, c.job("j").exit_code) == (JobState.FAILED, Reason.NONZERO_EXIT, 1)


def test_a_job_that_does_not_retry_a_lost_node_keeps_its_own_cause():
    c = on_three_nodes(gang_of_three((RetryCause.FAILED,), restarts=1))
    survivors_fail(c, 0, 1)
    c.die("n3", heard_at_ms=0)
    assert (c.job("j").state, c.job("j").restarts) == (JobState.PENDING, 1)
    assert c.job("j").reason == Reason.NONZERO_EXIT


@pytest.mark.parametrize("reason", [Reason.DISCONNECTED, Reason.NODE_REBOOTED, Reason.SUPERVISOR_LOST])
def test_a_node_that_comes_back_without_its_task_explains_the_failure_too(reason):
    """With `on_disconnect: stop` the task ended with its node's lease, and its peers failed at that."""
    c = on_three_nodes(gang_of_three())
    ended_at_ms = c.state.clock_ms
    survivors_fail(c, 0, 1)
    c.report("j", 2, T.LOST, reason=reason, ended_at_ms=ended_at_ms if reason == Reason.DISCONNECTED else 0)
    assert (c.job("j").state, c.job("j").attempt, c.job("j").reason) == (JobState.PENDING, 2, reason)


def test_a_task_that_its_node_ended_after_the_failure_explains_nothing():
    c = on_three_nodes(gang_of_three())
    survivors_fail(c, 0, 1)
    c.node("n4")
    c.report("j", 2, T.LOST, reason=Reason.DISCONNECTED, ended_at_ms=c.state.clock_ms)
    assert c.job("j").state is JobState.FAILED


def test_what_people_decided_meanwhile_is_not_judged_again():
    c = on_three_nodes(gang_of_three())
    survivors_fail(c, 0)
    c.cancel("j")
    c.die("n3")
    c.report("j", 1, T.KILLED)
    assert c.job("j").state is JobState.CANCELLED


def test_of_two_lost_nodes_either_explains_it():
    c = on_three_nodes(gang_of_three())
    survivors_fail(c, 0)
    c.die("n2", heard_at_ms=1)
    c.die("n3", heard_at_ms=1)
    assert (c.job("j").state, c.job("j").restarts, c.job("j").reason) == (JobState.PENDING, 0, Reason.NODE_LOST)


def test_a_restart_that_another_failure_has_paid_is_not_given_back_twice():
    c = on_three_nodes(goes_on(ALL_CAUSES, restarts=2))
    survivors_fail(c, 0, 1)  # the second one brings the gang below its minimum
    job = c.job("j")
    assert (job.intent, job.restarts, job.member_restarts) == (JobIntent.RESTART, 0, 1)
    c.die("n3", heard_at_ms=1)
    assert (c.job("j").state, c.job("j").restarts) == (JobState.PENDING, 0)


def test_a_member_that_failed_long_before_the_loss_of_a_node_stays_failed():
    c = on_three_nodes(goes_on(LOST_ONLY))
    survivors_fail(c, 0)
    c.accept(Noop(), at_ms=c.state.clock_ms + 60_000)
    c.node("n4")
    c.die("n3", heard_at_ms=c.state.clock_ms - 5_000)
    assert c.task_states("j")[0] is T.FAILED


def test_a_lost_member_does_not_wait_for_the_backoff_of_one_that_failed():
    c = on_three_nodes(goes_on(ALL_CAUSES, backoff_ms=600_000, least=1))
    c.report("j", 0, T.FAILED, 1)
    assert c.job("j").not_before_ms > c.state.clock_ms
    c.die("n3", heard_at_ms=c.state.clock_ms)
    assert c.plan(gang(c.job("j"), "n2", ranks=[2])) == ()


@pytest.mark.parametrize(("reason", "waits"), [(Reason.NODE_LOST, False), (Reason.SUPERVISOR_LOST, True)])
def test_the_backoff_is_kept_where_the_node_is_still_there(reason, waits):
    c = on_three_nodes(gang_of_three(backoff_ms=30_000))
    if reason == Reason.NODE_LOST:
        c.die("n3")
    else:
        c.report("j", 2, T.LOST, reason=reason)
    assert (c.job("j").not_before_ms > c.state.clock_ms) == waits


def goes_on(when: tuple[RetryCause, ...], restarts: int = 5, backoff_ms: int = 0, least: int = 2) -> JobSpec:
    wanted = gang_of_three(when, restarts, backoff_ms)
    policy = GangPolicy(min_tasks=least, on_member_failure=MemberFailure.CONTINUE)
    return replace(wanted, gang=policy, groups=(group(count=3, min_count=least),))
