"""Preemption within a queue: who goes, and who never does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.scheduling import Policy, schedule
from gosched.scheduling.preemption import victim_search
from tests.scheduling.support.tables import begin, check

RACKS = Policy(topology=("zone", "rack"))


def test_a_higher_priority_evicts_a_lower_one_and_nobody_evicts_its_equal() -> None:
    check("""
        nodes
          a  4cpu
        jobs
          low   yields priority=1 : 1x 4cpu  on a
          same  priority=1 : 1x 4cpu
          high  priority=2 : 1x 4cpu
        plan
          high  a  | preempt low
          same  INSUFFICIENT needs 4 CPUs in all; 0 are free
    """)


@pytest.mark.parametrize(
    ("low", "high", "queue"),
    [
        ("yields", "never priority=9", ""),
        ("yields", "priority=9", "never"),
        ("stays", "priority=9", ""),
        ("", "priority=9", ""),
        ("yields min_runtime=2h since=1h", "priority=9", ""),
    ],
    ids=[
        "its policy is never",
        "its queue's policy is never",
        "the victim is not preemptible",
        "the victim would not start again",
        "the victim may run a while yet",
    ],
)
def test_nobody_is_evicted(low: str, high: str, queue: str) -> None:
    check(f"""
        queues
          q  fifo {queue}
        nodes
          a  4cpu
        jobs
          low   {low} : 1x 4cpu  on a
          high  {high} : 1x 4cpu
        plan
          high  INSUFFICIENT
    """)


def test_a_victim_that_has_run_for_its_min_runtime_may_go() -> None:
    check("""
        nodes
          a  4cpu
        jobs
          low   yields min_runtime=1h since=1h : 1x 4cpu  on a
          high  priority=9 : 1x 4cpu
        plan
          high  a | preempt low
    """)


def test_a_queue_takes_the_policy_of_the_nearest_queue_above_that_has_one() -> None:
    check("""
        queues
          q    fifo never
          q.x  fifo
          q.y  fifo lower_priority
        nodes
          a  4cpu
          b  4cpu
        jobs
          lowx   q.x yields : 1x 4cpu  on a
          lowy   q.y yields : 1x 4cpu  on b
          highx  q.x priority=9 : 1x 4cpu
          highy  q.y priority=9 : 1x 4cpu
        plan
          highy  b | preempt lowy
          highx  INSUFFICIENT
    """)


def test_a_queue_that_only_observes_says_whom_it_would_evict_and_evicts_nobody() -> None:
    plan = check("""
        queues
          q  fifo observe_only
        nodes
          a  4cpu
        jobs
          low   yields since=10m : 2x 2cpu  on a a
          high  priority=9 : 1x 4cpu
        plan
          high  INSUFFICIENT  would preempt low
    """)
    (seen,) = plan.explanations["high"].victims
    assert (seen.job_id, seen.tasks, seen.whole, seen.lost_ms) == ("low", 2, True, 2 * 600_000)


def test_elastic_surplus_goes_before_any_whole_gang_and_the_last_ranks_first() -> None:
    check("""
        nodes
          a  8cpu
        jobs
          small  yields : 1x 2cpu  on a
          wide   yields : 1..3x 2cpu  on a a a
          high   priority=9 : 1x 4cpu
        plan
          high  a  | preempt wide/1,2
    """)


def test_a_gang_goes_whole_if_its_surplus_is_not_enough() -> None:
    check("""
        nodes
          a  6cpu
        jobs
          wide   yields : 2..3x 2cpu  on a a a
          high   priority=9 : 1x 6cpu
        plan
          high  a  | preempt wide
    """)


def test_not_even_the_surplus_goes_of_a_gang_that_would_not_start_again() -> None:
    check("""
        nodes
          a  6cpu
        jobs
          wide   : 1..3x 2cpu  on a a a
          high   priority=9 : 1x 2cpu
        plan
          high  INSUFFICIENT
    """)


def test_lower_priorities_go_before_higher_ones() -> None:
    check("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          mid   yields priority=3 since=1m : 1x 4cpu  on a
          low   yields priority=1 since=5h : 1x 4cpu  on b
          high  priority=9 : 1x 4cpu
        plan
          high  b  | preempt low
    """)


def test_of_equal_priorities_the_one_goes_that_loses_least_work() -> None:
    check("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          old    yields since=5h : 1x 4cpu  on a
          young  yields since=1m : 1x 4cpu  on b
          high   priority=9 : 1x 4cpu
        plan
          high  b  | preempt young
    """)


def test_work_that_a_checkpoint_saved_is_not_lost() -> None:
    check("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          saved  yields since=5h saved=1m : 1x 4cpu  on a
          young  yields since=2m : 1x 4cpu  on b
          high   priority=9 : 1x 4cpu
        plan
          high  a  | preempt saved
    """)


def test_lost_work_counts_for_every_task() -> None:
    check("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          many  yields since=2m : 4x 1cpu  on a a a a
          one   yields since=5m : 1x 4cpu  on b
          high  priority=9 : 1x 4cpu
        plan
          high  b  | preempt one
    """)


def test_a_gang_bound_to_a_rack_evicts_in_one_rack_only_and_in_the_cheapest() -> None:
    check(
        """
        nodes
          a  4cpu rack=r1 zone=z
          b  4cpu rack=r1 zone=z
          c  4cpu rack=r2 zone=z
          d  4cpu rack=r2 zone=z
        jobs
          one    yields since=1m : 1x 4cpu  on a
          two    yields since=3h : 1x 4cpu  on b
          three  yields since=1h : 1x 4cpu  on c
          four   yields since=1h : 1x 4cpu  on d
          high   priority=9 : 2x 4cpu in:rack
        plan
          high  c d  | preempt three | preempt four
        """,
        RACKS,
    )


def test_a_domain_in_which_something_stays_is_passed_over() -> None:
    check(
        """
        nodes
          a  4cpu rack=r1 zone=z
          b  4cpu rack=r1 zone=z
          c  4cpu rack=r2 zone=z
          d  4cpu rack=r2 zone=z
        jobs
          stays  priority=9 : 1x 4cpu  on a
          two    yields since=1m : 1x 4cpu  on b
          three  yields since=1h : 1x 4cpu  on c
          four   yields since=1h : 1x 4cpu  on d
          high   priority=9 : 2x 4cpu in:rack
        plan
          high  c d  | preempt three | preempt four
        """,
        RACKS,
    )


def test_what_is_free_already_is_used_and_only_what_is_missing_is_evicted() -> None:
    check("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          one   yields since=1h : 1x 2cpu  on a
          two   yields since=2h : 1x 2cpu  on a
          three yields since=3h : 1x 2cpu  on b
          high  priority=9 : 3x 2cpu
        plan
          high  a a b | preempt one | preempt two
    """)


def test_a_victim_whose_own_place_stays_free_is_pruned() -> None:
    """Memory says that both would have to go; the whole set is tried, and who was not needed stays."""
    check("""
        nodes
          a  8cpu 8Gi
        jobs
          cpus  yields since=1m : 1x 4cpu 1Gi  on a
          mem   yields since=2m : 1x 1cpu 6Gi  on a
          high  priority=9 : 1x 3cpu 6Gi
        plan
          high  a | preempt mem
    """)


def test_no_more_victims_in_a_round_than_its_cap_and_the_others_wait_for_the_next() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          one    yields : 1x 2cpu  on a
          two    yields : 1x 2cpu  on a
          first  priority=9 : 1x 2cpu
          next   priority=8 : 1x 2cpu
    """)
    cap = Policy(max_victims=1)
    world.expect("first a | preempt one\nnext INSUFFICIENT", cap)
    world.expect("next a | preempt two", cap)


def test_a_tenant_gives_no_more_victims_in_a_round_than_its_cap() -> None:
    check(
        """
        nodes
          a  4cpu
          b  4cpu
        jobs
          one    tenant=t yields since=1m : 1x 4cpu  on a
          two    tenant=u yields since=1h : 1x 4cpu  on b
          first  priority=9 : 1x 4cpu
          next   priority=8 : 1x 4cpu
          last   priority=7 : 1x 4cpu
        plan
          first  a | preempt one
          next   b | preempt two
          last   INSUFFICIENT
        """,
        Policy(max_victims_per_tenant=1),
    )


def test_a_gang_that_would_need_more_victims_than_the_cap_evicts_nobody() -> None:
    check(
        """
        nodes
          a  4cpu
        jobs
          one   tenant=t yields : 1x 2cpu  on a
          two   tenant=t yields : 1x 2cpu  on a
          high  priority=9 : 1x 4cpu
        plan
          high  INSUFFICIENT
        """,
        Policy(max_victims_per_tenant=1),
    )


def test_a_search_that_ran_out_of_budget_is_not_taken_for_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          one    yields since=1m : 1x 4cpu  on a
          two    yields since=2m : 1x 4cpu  on b
          first  priority=9 : 1x 4cpu
          next   priority=9 : 1x 4cpu
    """)
    with monkeypatch.context() as patch:
        patch.setattr(victim_search, "MAX_SIMULATIONS", 1)
        plan = world.expect("first a | preempt one\nnext INSUFFICIENT")
        assert "budget" in plan.explanations["next"].message
    world.expect("next b | preempt two")


def test_a_gang_that_is_on_its_way_out_is_nobodys_victim() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          low   yields : 1x 4cpu  on a
          high  priority=8 : 1x 4cpu
          top   priority=9 : 1x 4cpu
    """)
    world.expect("top a | preempt low\nhigh INSUFFICIENT")
    world.expect("high INSUFFICIENT")


def test_of_victims_that_cost_the_same_the_choice_does_not_depend_on_how_the_view_lists_them() -> None:
    world = begin("""
        nodes
          a  4cpu
        jobs
          one    yields since=1h : 1x 2cpu  on a
          two    yields since=1h : 1x 2cpu  on a
          high   priority=9 : 1x 2cpu
    """)
    view = world.builder.view(world.state)
    turned = replace(view, holders=dict(reversed(view.holders.items())))
    now = world.state.clock_ms
    assert schedule(turned, Policy(), now, 7) == schedule(view, Policy(), now, 7)
    assert world.expect("high a | preempt one")
