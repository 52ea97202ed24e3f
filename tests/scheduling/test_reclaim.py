"""Reclaim across queues: a queue gets what it is guaranteed, and nobody falls below what he is."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from gosched.core.commands.jobs import CancelJob
from gosched.core.records.job import JobState
from gosched.scheduling import Policy
from gosched.scheduling.preemption.eviction_rules import costs
from tests.scheduling.support.tables import begin, check

HALVES = """
        queues
          x  capacity 50%
          y  capacity 50%
        nodes
          a  8cpu
"""


def test_a_queue_takes_back_what_it_is_guaranteed_whatever_the_priorities() -> None:
    check(f"""{HALVES}
        jobs
          y1  y yields priority=9 since=2h : 1x 4cpu  on a
          y2  y yields priority=9 since=1h : 1x 4cpu  on a
          x1  x : 1x 4cpu
        plan
          x1  a | reclaim y2
    """)


def test_a_queue_takes_back_no_more_than_its_guarantee() -> None:
    check(f"""{HALVES}
        jobs
          y1  y yields since=2h : 1x 4cpu  on a
          y2  y yields since=1h : 1x 4cpu  on a
          x1  x : 1x 5cpu
        plan
          x1  INSUFFICIENT
    """)


def test_what_a_queue_holds_of_its_guarantee_already_counts() -> None:
    check(f"""{HALVES}
        jobs
          x1  x since=3h : 1x 2cpu  on a
          y1  y yields since=2h : 1x 4cpu  on a
          y2  y yields since=1h : 1x 2cpu  on a
          x2  x : 1x 2cpu
          x3  x : 1x 2cpu
        plan
          x2  a | reclaim y2
          x3  INSUFFICIENT
    """)


def test_no_queue_is_taken_below_a_guarantee_that_it_holds() -> None:
    """y holds 6 of 8 and is guaranteed 4: the gang of 4 cannot go, it would leave 2."""
    check(f"""{HALVES}
        jobs
          y1  y yields since=2h : 2x 2cpu  on a a
          y2  y yields since=1h : 2x 1cpu  on a a
          x1  x : 1x 4cpu
          x2  x : 1x 3cpu
        plan
          x1  a | reclaim y2
          x2  INSUFFICIENT
    """)


def test_a_gang_that_could_only_start_by_taking_others_below_their_guarantee_waits() -> None:
    check("""
        queues
          x  capacity 50%
          y  capacity 50%
        nodes
          a  4cpu
          b  4cpu
        jobs
          y1  y yields : 1x 3cpu  on a
          y2  y yields : 1x 3cpu  on b
          x1  x : 1x 4cpu
        plan
          x1  INSUFFICIENT
    """)


def test_what_a_queue_holds_of_one_gpu_model_is_beyond_no_guarantee_of_gpus() -> None:
    """y holds less than its half of the GPUs. That they are h100, of which no queue is guaranteed any, is no more."""
    check("""
        queues
          x  capacity 25%
          y  capacity 50%
          z  fair
        nodes
          a  8cpu 8gpu:h100
        jobs
          y1  y yields : 3x 1cpu 1gpu:h100  on a[0] a[1] a[2]
          z1  z stays : 5x 1cpu 1gpu:h100  on a[3] a[4] a[5] a[6] a[7]
          x1  x : 1x 1cpu 1gpu:h100
        plan
          x1  INSUFFICIENT
    """)


def test_a_gang_that_stops_counts_for_its_queue_until_it_has_stopped() -> None:
    """y is guaranteed 4 CPUs and 4 GPUs. With y1, which stops, it holds 5 CPUs, and would hold 3 without y2; once y1
    has stopped it holds 3 in any case, and one GPU too many."""
    world = begin(f"""{HALVES.replace("8cpu", "8cpu 8gpu")}
        jobs
          y1  y : 1x 2cpu  on a
          y2  y yields : 1x 2cpu 1gpu  on a[0]
          y3  y stays : 1x 1cpu 4gpu  on a[1,2,3,4]
          x1  x stays : 1x 1cpu 3gpu  on a[5,6,7]
          x2  x : 1x 1cpu 1gpu
    """)
    world.do(CancelJob(job_id="y1"))
    world.expect("x2 INSUFFICIENT")
    world.stop()
    world.expect("x2 a | reclaim y2")


def test_a_queue_below_its_guarantee_gives_nothing() -> None:
    check("""
        queues
          x  capacity 25%
          y  capacity 25%
          z  fair
        nodes
          a  4cpu
          b  4cpu
        jobs
          y1  y yields : 1x 2cpu  on a
          z1  z yields : 1x 4cpu  on b
          x1  x : 1x 2cpu
          x2  x : 1x 2cpu
        plan
          x1  a
          x2  INSUFFICIENT
    """)


def test_within_one_queue_reclaim_takes_the_cheapest_and_surplus_first() -> None:
    check(f"""{HALVES}
        jobs
          y1  y yields priority=5 since=1m : 1..3x 2cpu  on a a a
          y2  y yields since=5h : 1x 2cpu  on a
          x1  x : 1x 4cpu
        plan
          x1  a | reclaim y1/1,2
    """)


TWO_NODES = """
        queues
          x  capacity 50%
          y  capacity 50%
        nodes
          a  4cpu
          b  4cpu
"""


def test_surplus_of_one_gang_is_reclaimed_though_several_tasks_of_each_node_are_needed() -> None:
    check(f"""{TWO_NODES}
        jobs
          y1  y yields : 1..8x 1cpu  on a a a a b b b b
          x1  x : 3x 1cpu
        plan
          x1  a a a | reclaim y1/1,2,3
    """)


def test_surplus_is_reclaimed_on_the_nodes_over_which_a_gang_has_to_be_spread_and_no_more_of_it() -> None:
    check(f"""{TWO_NODES}
        jobs
          y1  y yields : 1..8x 1cpu  on a a a a b b b b
          x1  x : 2x 1cpu apart:node
        plan
          x1  a b | reclaim y1/3,7
    """)


def test_a_gang_that_must_not_go_whole_gives_its_surplus_beside_another_gang_that_goes() -> None:
    """y holds 8 of 8 and is guaranteed 4: without y1 it would hold 2."""
    check(f"""{TWO_NODES}
        jobs
          y1  y yields since=9h : 1..3x 2cpu  on a b b
          y2  y yields since=1h : 1x 2cpu  on a
          x1  x : 2x 2cpu apart:node
        plan
          x1  a b | reclaim y1/2 | reclaim y2
    """)


def test_surplus_is_reclaimed_for_one_gang_after_the_other_without_a_pause() -> None:
    world = begin(f"""{TWO_NODES}
        jobs
          y1  y yields : 1..8x 1cpu  on a a a a b b b b
          x1  x : 1x 1cpu
          x2  x : 1x 1cpu
    """)
    first = world.plan(Policy())
    assert [gang.job_id for gang in first.gangs] == ["x1"]
    assert first.more  # the leader runs the next cycle at once
    world.commit(first)
    second = world.plan(Policy())
    assert [gang.job_id for gang in second.gangs] == ["x2"]


@pytest.mark.parametrize(
    ("victim", "reclaimer", "queue"),
    [
        ("stays", "", ""),
        ("", "", ""),
        ("yields min_runtime=2h since=1h", "", ""),
        ("yields", "", "never"),
        ("yields", "never", ""),
    ],
    ids=["not preemptible", "would not start again", "min_runtime", "its queue evicts nobody", "it evicts nobody"],
)
def test_nothing_is_reclaimed(victim: str, reclaimer: str, queue: str) -> None:
    check(f"""
        queues
          x  capacity 50% {queue}
          y  capacity 50%
        nodes
          a  8cpu
        jobs
          y1  y {victim} : 1x 8cpu  on a
          x1  x {reclaimer} : 1x 4cpu
        plan
          x1  INSUFFICIENT
    """)


def test_a_queue_that_only_observes_says_what_it_would_reclaim() -> None:
    check("""
        queues
          x  capacity 50% observe_only
          y  capacity 50%
        nodes
          a  8cpu
        jobs
          y1  y yields since=1h : 1x 4cpu  on a
          y2  y yields since=2h : 1x 4cpu  on a
          x1  x : 1x 4cpu
        plan
          x1  INSUFFICIENT  would reclaim y1
    """)


@pytest.mark.parametrize("waiting", [["p1 p : 6x 1cpu"], [f"p{i} p : 1x 1cpu" for i in range(6)]], ids=["gang", "jobs"])
def test_reclaim_takes_from_the_queue_furthest_above_its_share(waiting: list[str]) -> None:
    """Three queues hold 4 each: each gives 2, though z's are the youngest and the cheapest."""
    ages = (("x", 9), ("y", 8), ("z", 7))
    running = [f"{queue}{i} {queue} yields since={since}m : 1x 1cpu on n" for queue, since in ages for i in range(4)]
    assert reclaimed(running, waiting) == {"x": 2, "y": 2, "z": 2}


def reclaimed(running: list[str], waiting: list[str]) -> Counter[str]:
    """How many jobs each queue loses; the first letter of a job's name is its queue."""
    lines = ["queues", "  p capacity 50%", "  x fair", "  y fair", "  z fair", "nodes", "  n 12cpu", "jobs"]
    plan = begin("\n".join([*lines, *(f"  {job}" for job in [*running, *waiting])])).plan(Policy())
    return Counter(eviction.job_id[0] for gang in plan.gangs for eviction in gang.evictions)


def test_a_queue_far_above_the_others_gives_until_it_is_level_with_the_next() -> None:
    running = [f"x{i} x yields since=9m : 1x 1cpu on n" for i in range(7)]
    running += [f"y{i} y yields since=1m : 1x 1cpu on n" for i in range(2)]
    running += [f"z{i} z yields since=5m : 1x 1cpu on n" for i in range(3)]
    assert reclaimed(running, ["p1 p : 6x 1cpu"]) == {"x": 5, "z": 1}


def test_no_queue_loses_while_another_one_keeps_more_for_its_weight() -> None:
    """Drawn queues, unit jobs, one guaranteed gang: whoever has lost stood above all others, to half a job."""
    lost = 0
    for seed in range(60):
        draw = random.Random(seed)
        weights = {queue: draw.randint(1, 4) for queue in "stuvwxyz"[: draw.randint(2, 8)]}
        held = Counter({queue: draw.randint(0, 12) for queue in weights})
        total = sum(held.values()) + draw.randint(0, 3)
        wants = draw.randint(1, max(total // 2, 1))
        queues = [f"  {queue} fair weight={weight}" for queue, weight in weights.items()]
        jobs = [
            f"  {queue}{number} {queue} yields since={draw.randint(1, 600)}m : 1x 1cpu on n"
            for queue, count in held.items()
            for number in range(count)
        ]
        lines = ["queues", "  p capacity 50%", *queues, "nodes", f"  n {total}cpu", "jobs", *jobs]
        plan = begin("\n".join([*lines, f"  p1 p : {wants}x 1cpu"])).plan(Policy())
        gone = Counter(eviction.job_id[0] for gang in plan.gangs for eviction in gang.evictions)
        assert gone.total() == max(wants - (total - held.total()), 0), seed
        left = held - gone
        for loser in gone:
            for other in weights:
                had, keeps = 2 * left[loser] + 1, 2 * left[other] - 1  # half a job each, doubled
                assert had * weights[other] >= keeps * weights[loser], (seed, held, gone)
        lost += gone.total()
    assert lost > 300


def test_reclaim_takes_from_the_tenant_that_holds_most_of_a_fair_queue() -> None:
    check("""
        queues
          p  capacity 50%
          x  fair order=fair
        nodes
          n  8cpu
        jobs
          a1  x tenant=ann yields since=9m : 1x 2cpu  on n
          a2  x tenant=ann yields since=8m : 1x 2cpu  on n
          a3  x tenant=ann yields since=7m : 1x 2cpu  on n
          b1  x tenant=bob yields since=1m : 1x 2cpu  on n
          p1  p : 2x 2cpu
        plan
          p1  n n | reclaim a3 | reclaim a2
    """)


def test_dominant_shares_decide_who_gives() -> None:
    """x holds a quarter of the CPUs and all GPUs, y three quarters of the CPUs: x stands higher."""
    check("""
        queues
          p  capacity 50%
          x  fair
          y  fair
        nodes
          n  16cpu 4gpu
        jobs
          x1  x yields since=9h : 1x 2cpu 2gpu  on n[0,1]
          x2  x yields since=9h : 1x 2cpu 2gpu  on n[2,3]
          y1  y yields since=1m : 6x 1cpu  on n n n n n n
          y2  y yields since=1m : 6x 1cpu  on n n n n n n
          p1  p : 1x 2cpu
        plan
          p1  n | reclaim x1
    """)


def test_many_small_jobs_of_the_queue_above_go_rather_than_a_large_one_of_another() -> None:
    """x holds 40 CPUs in jobs of one, and y 8 in one job: though they are more to evict, x's go."""
    small = [f"x{node}{i} x yields since=60m : 1x 1cpu on {node}" for node in "abcde" for i in range(8)]
    lines = ["queues", "  p capacity guaranteed cpu=16", "  x fair", "  y fair"]
    lines += ["nodes", *(f"  {node} 8cpu" for node in "abcdef"), "jobs", *(f"  {job}" for job in small)]
    plan = begin("\n".join([*lines, "  y1 y yields since=60m : 1x 8cpu on f", "  p1 p : 1x 8cpu"])).plan(Policy())
    assert Counter(eviction.job_id[0] for gang in plan.gangs for eviction in gang.evictions) == {"x": 8}


def test_costs_grow_with_lost_work_however_much_it_is() -> None:
    """A month of 10,000 nodes is 1.7e12 in seconds and 64ths of a node."""
    lost = np.array([10**exponent for exponent in range(13)], dtype=np.int64)
    found = costs(np.full(len(lost), 7), lost, surplus=False)
    assert (np.diff(found) > 0).all()
    assert found[-1] < costs(np.array([8]), lost[:1], surplus=False)[0]
    assert int(found[-1]) * (1 << 19) < 1 << 63


def test_a_task_of_many_gpus_costs_more_than_a_task_of_one() -> None:
    check("""
        queues
          p  capacity 50%
          x  fair
        nodes
          n  16cpu 16gpu
        jobs
          x1  x yields since=60m : 1x 8cpu 8gpu  on n[0,1,2,3,4,5,6,7]
          x2  x yields since=90m : 8x 1cpu 1gpu  on n[8] n[9] n[10] n[11] n[12] n[13] n[14] n[15]
          p1  p : 1x 1cpu 1gpu
        plan
          p1  n | reclaim x1
    """)


def test_who_loses_little_goes_before_who_has_just_begun() -> None:
    check("""
        queues
          p  capacity 50%
          x  fair
        nodes
          n  4cpu
        jobs
          x1  x yields signal since=9h : 1x 2cpu  on n
          x2  x yields since=1m : 1x 2cpu  on n
          p1  p : 1x 2cpu
        plan
          p1  n | reclaim x1
    """)


def test_reclaim_looks_at_the_children_of_the_lowest_common_ancestor() -> None:
    """Inside of p each child has half of p's 8; q is within its guarantee and gives nothing."""
    check("""
        queues
          p    capacity 50%
          p.a  capacity 50%
          p.b  capacity 50%
          q    capacity 50%
        nodes
          n  16cpu
        jobs
          b1  p.b yields since=2h : 1x 4cpu  on n
          b2  p.b yields since=1h : 1x 4cpu  on n
          q1  q yields since=1m : 1x 8cpu  on n
          a1  p.a : 1x 4cpu
        plan
          a1  n | reclaim b2
    """)


def test_a_child_within_its_own_guarantee_gives_way_if_its_parent_borrows() -> None:
    """q.u holds what its parent could give it, but q holds 12 of its 8."""
    check("""
        queues
          p    capacity 50%
          q    capacity 50%
          q.u  capacity 50%
          q.v  capacity 50%
        nodes
          n  16cpu
        jobs
          u1  q.u yields since=3h : 1x 4cpu  on n
          v1  q.v yields since=2h : 1x 4cpu  on n
          v2  q.v yields since=1h : 1x 4cpu  on n
          p0  p since=4h : 1x 4cpu  on n
          p1  p : 1x 4cpu
        plan
          p1  n | reclaim v2
    """)


def test_a_nested_guarantee_is_kept_though_the_parent_borrows() -> None:
    """q holds 12 of its 8; v holds exactly its 4 and u 8: only u gives, though v would be cheaper."""
    check("""
        queues
          p    capacity 50%
          q    capacity 50%
          q.u  capacity 50%
          q.v  capacity 50%
        nodes
          n  16cpu
        jobs
          u1  q.u yields since=3h : 1x 4cpu  on n
          u2  q.u yields since=2h : 1x 4cpu  on n
          v1  q.v yields since=1m : 1x 4cpu  on n
          p0  p since=4h : 1x 4cpu  on n
          p1  p : 1x 4cpu
        plan
          p1  n | reclaim u2
    """)


def test_what_is_reclaimed_is_not_taken_back_and_the_victim_waits() -> None:
    world = begin(f"""{HALVES}
        jobs
          y1  y yields since=2h : 1x 4cpu  on a
          y2  y yields since=1h : 1x 4cpu  on a
          x1  x yields : 1x 4cpu
    """)
    world.expect("x1 a | reclaim y2")
    world.stop()
    assert world.state.jobs["x1"].state is JobState.RUNNING
    for _ in range(3):
        world.expect("y2 INSUFFICIENT")


def test_what_a_fence_keeps_counts_as_held_by_its_queue() -> None:
    world = begin(f"""{HALVES}
        jobs
          y1  y yields since=2h : 1x 4cpu  on a
          y2  y yields since=1h : 1x 4cpu  on a
          x1  x : 1x 4cpu
          x2  x : 1x 4cpu
    """)
    world.expect("x1 a | reclaim y2\nx2 INSUFFICIENT")
    world.expect("x2 INSUFFICIENT")


def test_in_one_cycle_two_gangs_do_not_take_a_queue_below_its_guarantee_together() -> None:
    check("""
        queues
          x  capacity 25%
          y  capacity 25%
          z  capacity 50%
        nodes
          a  8cpu
        jobs
          z1  z yields since=3h : 1x 3cpu  on a
          z2  z yields since=2h : 1x 3cpu  on a
          z3  z yields since=1h : 1x 2cpu  on a
          x1  x : 1x 2cpu
          y1  y : 1x 2cpu
        plan
          x1  a | reclaim z3
          y1  INSUFFICIENT
    """)
