"""The fence around what victims leave, and what becomes of them."""

from __future__ import annotations

from gosched.core.records.job import JobState
from tests.scheduling.support.tables import begin


def test_the_fence_holds_against_everybody_in_the_same_cycle_and_in_later_ones_and_fires_when_the_last_is_gone() -> (
    None
):
    world = begin("""
        nodes
          a  4cpu
        jobs
          low    yields since=1h : 1x 3cpu  on a
          high   priority=8 : 1x 4cpu
          small  : 1x 1cpu
          top    priority=9 : 1x 2cpu
    """)
    world.expect("""
        top    a | preempt low
        small  a
        high   INSUFFICIENT
    """)
    world.submit(["tiny", ":", "1x", "1cpu"])
    world.submit(["huge", "priority=10", ":", "1x", "4cpu"])
    world.expect("huge INSUFFICIENT\nhigh INSUFFICIENT\ntiny INSUFFICIENT @10s a")
    world.stop()
    assert world.state.jobs["top"].state is JobState.RUNNING
    assert world.state.jobs["low"].state is JobState.PENDING
    assert world.state.fences == {}


def test_room_on_the_fenced_node_that_the_fence_does_not_need_is_free_for_others_once_the_victims_have_gone() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          low   yields since=1h : 1x 4cpu  on a
          high  priority=8 : 1x 2cpu
    """)
    world.expect("high a | preempt low")
    world.submit(["small", ":", "1x", "2cpu"])
    world.expect("small INSUFFICIENT @10s a")
    world.stop()
    world.expect("small a\nlow INSUFFICIENT")


def test_victims_wait_in_their_old_place_and_a_preemption_costs_them_no_restart() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          low    yields : 1x 4cpu  on a
          later  yields : 1x 4cpu
          high   priority=9 : 1x 4cpu
    """)
    world.expect("high a | preempt low\nlater INSUFFICIENT")
    world.stop()
    world.end("high")
    low = world.state.jobs["low"]
    assert (low.attempt, low.restarts, low.preemptions) == (2, 0, 1)
    world.expect("low a\nlater INSUFFICIENT")


def test_what_a_fence_holds_counts_against_the_quota_of_its_job_and_of_no_other() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  1cpu
        quotas
          nlp cpu=4
        jobs
          low   yields since=1h tenant=cv : 1x 4cpu  on a
          high  priority=8 tenant=nlp : 1x 4cpu
    """)
    world.expect("high a | preempt low")
    world.submit(["next", "tenant=nlp", ":", "1x", "1cpu"])
    world.expect("next QUOTA quota of tenant nlp: limit of 4 CPUs, 4 used, the job needs 1")
    world.submit(["other", "tenant=cv", ":", "1x", "1cpu"])
    world.expect("other b\nnext QUOTA")
