"""Gangs that end with one group: a driver, and workers that serve it."""

from __future__ import annotations

import pytest

from gosched.core.commands.cluster import PassTime
from gosched.core.commands.nodes import ReportTasks, TaskReport
from gosched.core.records.job import JobIntent, JobState
from gosched.core.records.task import TaskState
from gosched.core.spec.policies import GangPolicy, MemberFailure, RetryPolicy
from tests.state_machine.cluster import ALL_CAUSES, Cluster, gang, group, spec

T, J = TaskState, JobState
CONTINUE = MemberFailure.CONTINUE


@pytest.fixture
def c() -> Cluster:
    made = Cluster()
    for node in ("n1", "n2"):
        made.node(node, cpus=8)
    return made


def start(c: Cluster, failure: MemberFailure = MemberFailure.RESTART_GANG, restarts: int = 0, **more: object) -> None:
    """Ranks 0 and 1 are the group that the job ends with, 2 and 3 the workers; the last one is on n2."""
    groups = (group("driver", 2), group("worker", 2))
    policy = GangPolicy(min_tasks=4, ends_with="driver", on_member_failure=failure)
    retry = RetryPolicy(max_restarts=restarts, when=ALL_CAUSES)
    c.submit(spec("app", *groups, gang=policy, retry=retry, **more), "j1")
    c.place("j1", "n1", "n1", "n1", "n2")
    c.run_all("j1")


def test_the_others_are_stopped_once_all_of_the_group_has_succeeded_and_the_job_succeeds_when_they_are_gone(c):
    start(c)
    c.report("j1", 0, T.SUCCEEDED, 0)
    assert (c.job("j1").intent, c.task_states("j1")[1:]) == (JobIntent.RUN, [T.RUNNING] * 3)
    c.report("j1", 1, T.SUCCEEDED, 0)
    job = c.job("j1")
    assert (job.state, job.intent, job.reason) == (J.RUNNING, JobIntent.SUCCEED, "GANG_ENDED")
    assert [(t.state, t.reason) for t in c.tasks("j1")[2:]] == [(T.STOPPING, "GANG_ENDED")] * 2
    c.report("j1", 2, T.FAILED, 1)
    c.report("j1", 3, T.KILLED, 143)
    job = c.job("j1")
    assert (job.state, job.exit_code, job.reason, job.detail) == (J.SUCCEEDED, 0, "", "")


@pytest.mark.parametrize("failure", [MemberFailure.RESTART_GANG, MemberFailure.FAIL_JOB, CONTINUE])
def test_a_failure_in_the_same_report_as_the_last_success_counts_for_nothing(c, failure):
    start(c, failure=failure, restarts=3)
    c.report("j1", 0, T.SUCCEEDED, 0)
    seen = [("driver/1", T.SUCCEEDED), ("worker/0", T.FAILED)]
    reports = [TaskReport(allocation_id=f"j1/{task}.1", state=state, exit_code=1) for task, state in seen]
    c.accept(ReportTasks(node_id="n1", incarnation="b1", reports=tuple(reports)))
    c.report("j1", 3, T.LOST)
    assert (c.job("j1").state, c.job("j1").attempt) == (J.SUCCEEDED, 1)


def test_before_that_the_gangs_policy_applies(c):
    start(c, restarts=1)
    c.report("j1", 0, T.SUCCEEDED, 0)
    c.report("j1", 2, T.FAILED, 1)
    assert (c.job("j1").intent, c.job("j1").reason) == (JobIntent.RESTART, "TASK_FAILED")
    for rank in (1, 3):
        c.report("j1", rank, T.SUCCEEDED, 0)
    assert (c.job("j1").state, c.job("j1").attempt) == (J.PENDING, 2)


def test_other_groups_that_are_done_first_end_nothing(c):
    start(c)
    for rank in (2, 3):
        c.report("j1", rank, T.SUCCEEDED, 0)
    assert (c.job("j1").state, c.job("j1").intent) == (J.RUNNING, JobIntent.RUN)
    for rank in (0, 1):
        c.report("j1", rank, T.SUCCEEDED, 0)
    assert c.job("j1").state is J.SUCCEEDED


def test_workers_that_never_got_a_place_are_not_needed(c):
    groups = (group("driver"), group("worker", 3, min_count=1))
    policy = GangPolicy(min_tasks=2, ends_with="driver")
    c.submit(spec("app", *groups, gang=policy), "j1")
    assert c.plan(gang(c.job("j1"), "n1", "n2", ranks=(0, 1))) == ()
    c.report("j1", 0, T.SUCCEEDED, 0)
    assert (c.task_states("j1"), c.state.pending) == ([T.SUCCEEDED, T.STOPPING, T.PENDING, T.PENDING], {})
    c.report("j1", 1, T.KILLED)
    assert (c.job("j1").state, [t.reason for t in c.tasks("j1")[2:]]) == (J.SUCCEEDED, ["NOT_NEEDED"] * 2)


def test_a_job_that_has_done_its_work_is_not_cancelled_and_does_not_time_out(c):
    start(c, timeout_ms=1000)
    for rank in (0, 1):
        c.report("j1", rank, T.SUCCEEDED, 0)
    assert c.cancel("j1").unchanged
    assert c.state.timers.next_ms() == 0
    c.accept(PassTime(), at_ms=c.state.clock_ms + 5000)
    for rank in (2, 3):
        c.report("j1", rank, T.KILLED)
    assert c.job("j1").state is J.SUCCEEDED
