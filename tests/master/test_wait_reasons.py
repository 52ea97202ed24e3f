"""Why a job is not in the planner's hands, from records alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gosched.core.records.allocation import Allocation, TaskPlacement
from gosched.core.records.fence import Fence
from gosched.core.records.job import Children, Job, JobIntent, JobState
from gosched.core.records.node import Node
from gosched.core.resources import Resources
from gosched.core.spec.array import Array
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.policies import RetryCause, RetryPolicy
from gosched.core.state.cluster_state import ClusterState
from gosched.master.jobs.wait_reasons import wait_reason
from tests.master.harness import spec

ONE = Resources(cpu_millis=1000)


def job(name: str, sequence: int = 1, **more: Any) -> Job:
    given: dict[str, Any] = {"spec": spec(name), "sequence": sequence, "submitted_at_ms": 0}
    return Job(id=f"id-{name}", **(given | more))


def node(node_id: str) -> Node:
    given = {"id": node_id, "name": f"host-{node_id}", "address": "h:1", "incarnation": "i"}
    return Node(**given, capacity=ONE.times(4), registered_at_ms=0, changed_at_ms=0)


def told(state: ClusterState, of: Job) -> tuple[str, str]:
    why = wait_reason(state, of)
    assert why is not None
    assert "\n" not in why[1]
    return why[0].value, why[1]


def test_a_job_that_the_planner_looks_at_that_runs_or_that_ended_has_none() -> None:
    state = ClusterState()
    for state_ in (JobState.PENDING, JobState.RUNNING, JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED):
        assert wait_reason(state, job("a", state=state_)) is None
    assert wait_reason(state, job("a", state=JobState.SUCCEEDED, held=True)) is None


def test_a_gang_that_goes_on_without_failed_members_says_why_they_do_not_start_again() -> None:
    retry = RetryPolicy(max_restarts=2, when=(RetryCause.FAILED,))
    state, running = ClusterState(), {"state": JobState.RUNNING}
    one = job("a", failed=1, spec=replace(spec("a"), retry=retry), member_restarts=2, **running)
    assert told(state, one) == (
        "NOT_RETRIED",
        "1 of its tasks has failed and is not started again: retry.max is 2, and so often members have been;"
        " the others run on",
    )
    never = job("a", failed=2, spec=replace(spec("a"), retry=RetryPolicy()), **running)
    assert "retry.when does not name failed" in told(state, never)[1]


def test_a_held_and_a_suspended_job_say_what_to_do() -> None:
    state = ClusterState()
    assert told(state, job("a", held=True)) == ("HELD", "it is held: goschedctl job release a")
    suspended = job("a", state=JobState.SUSPENDED)
    assert told(state, suspended) == ("SUSPENDED", "it is suspended: goschedctl job resume a")


def test_an_array_that_begins_later_says_when_and_one_that_has_begun_counts_its_elements() -> None:
    state = ClusterState()
    later = replace(spec("a"), array=Array(last=2, step=1), begin_at_ms=5_000)
    assert told(state, job("a", spec=later)) == ("BEGIN", "it does not begin before 1970-01-01T00:00:05Z")
    state.set_clock(5_000)
    assert told(state, job("a", spec=later))[0] == "ARRAY"


def test_a_job_that_waits_for_others_names_them_and_where_they_stand() -> None:
    state = ClusterState()
    state.put_job(job("etl", 1, state=JobState.RUNNING))
    after = (
        Dependency(job="id-etl", condition=Condition.SUCCESS),
        Dependency(job="id-gone", condition=Condition.ANY),
    )
    assert told(state, job("a", 2, waits_for=after)) == (
        "DEPENDENCY",
        "it waits for etl (RUNNING; must succeed), id-gone (forgotten; must end)",
    )
    many = tuple(Dependency(job=f"id-{i}", condition=Condition.FAILURE) for i in range(9))
    assert told(state, job("a", 2, waits_for=many))[1].endswith(" and 4 more")


def test_a_fence_names_its_nodes_the_victims_and_how_much_is_still_to_go() -> None:
    state = ClusterState()
    for node_id in ("n1", "n2"):
        state.put_node(node(node_id))
    state.put_job(job("victim", 1, state=JobState.RUNNING, active=3))
    high = job("high", 2)
    state.put_job(high)
    for i, node_id in enumerate(("n1", "n1", "n2")):
        held = Allocation(id=f"v{i}", task_id="t", job_id="id-victim", node_id=node_id, resources=ONE, placed_at_ms=0)
        state.put_allocation(held)
        state.set_evicted_for_fence(held.id, high.id)
    tasks = (TaskPlacement(rank=0, node_id="n1"),)
    state.put_fence(Fence(job_id=high.id, attempt=1, tasks=tasks, made_at_ms=0))
    assert told(state, high) == ("FENCE", "it starts on n1 once its victims have ended (victim): 3 tasks left")
    state.drop_allocation("v0")
    state.drop_allocation("v1")
    assert told(state, high)[1] == "it starts on n1 once the last victim has ended: 1 task left"


def test_an_evicted_gang_is_stopping_before_it_waits_again() -> None:
    for state in (JobState.PENDING, JobState.RUNNING):
        victim = job("victim", intent=JobIntent.RESTART, active=2, state=state)
        assert told(ClusterState(), victim) == ("STOPPING", "2 of its tasks still have to stop")


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RUNNING])
def test_parents_count_their_children(state: JobState) -> None:
    children = Children(made=60, live=50, succeeded=7, failed=2, cancelled=1, next_run_at_ms=1_800_000_000_000)
    array = job("sweep", spec=replace(spec("sweep"), array=Array(last=999, step=1)), children=children, state=state)
    assert told(ClusterState(), array) == (
        "ARRAY",
        "1000 elements: 50 live, 7 succeeded, 2 failed, 1 cancelled, 940 to come",
    )
    nightly = job("nightly", spec=replace(spec("nightly"), cron="0 2 * * *"), children=children, state=state)
    assert told(ClusterState(), nightly) == (
        "SCHEDULE",
        "next run at 2027-01-15T08:00:00Z; 60 runs so far: 50 live, 7 succeeded, 2 failed, 1 cancelled",
    )
    assert told(ClusterState(), replace(nightly, held=True))[0] == "HELD"
    skipped = replace(nightly, detail="skipped the run that was due at 5 ms")
    assert told(ClusterState(), skipped)[1].endswith("; skipped the run that was due at 5 ms")
