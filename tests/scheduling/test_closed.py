"""Nodes that take no work, GPUs that are bad, and jobs that are frozen."""

from __future__ import annotations

import pytest

from gosched.core.commands.jobs import Action, ControlJob
from gosched.core.commands.nodes import NodeAction
from gosched.scheduling import Policy
from tests.scheduling.support import notation
from tests.scheduling.support.tables import World, begin, check

CORDON, DRAIN, UNCORDON = NodeAction.CORDON, NodeAction.DRAIN, NodeAction.UNCORDON


def test_a_cordoned_node_gets_nothing_and_its_room_counts_for_nobody() -> None:
    check("""
        nodes
          a  4cpu cordoned
          b  4cpu
        jobs
          one  : 1x 4cpu
          two  : 1x 4cpu
        plan
          one  b
          two  INSUFFICIENT needs 4 CPUs in all; 0 are free
    """)


@pytest.mark.parametrize("action", [CORDON, DRAIN])
def test_nobody_is_evicted_for_room_on_a_node_that_takes_no_work(action: NodeAction) -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          low    yields since=1h : 1x 4cpu  on a
          other  yields since=2h : 1x 4cpu  on b
    """)
    world.turn("a", action)
    world.submit(["high", "priority=9", ":", "1x", "4cpu"])
    waits = "low INSUFFICIENT\n" if action is DRAIN else ""
    world.stop()
    world.expect(f"high b | preempt other\n{waits}")


def test_a_promise_on_a_node_that_is_cordoned_moves_to_the_next_start_in_sight() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          soon   timeout=1h since=10m : 1x 4cpu  on a
          later  timeout=2h since=10m : 1x 4cpu  on b
          next   : 1x 4cpu
    """)
    one = Policy(reservations=1)
    world.expect("next INSUFFICIENT @50m a", one)
    world.turn("a", CORDON)
    world.expect("next INSUFFICIENT @110m b", one)
    world.turn("a", UNCORDON)
    world.expect("next INSUFFICIENT @50m a", one)


def test_what_a_drain_sends_away_starts_elsewhere() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          job  yields since=1h : 1x 4cpu  on a
    """)
    world.turn("a", DRAIN)
    world.stop()
    world.expect("job b")


def test_bad_gpus_are_given_to_nobody_whole_or_shared() -> None:
    check("""
        nodes
          a  8cpu 4gpu:h100 bad:0,2
        jobs
          whole  : 1x 1gpu
          part   : 2x 0.5gpu
          more   : 1x 0.1gpu
        plan
          whole  a[1]
          part   a[3] a[3]
          more   INSUFFICIENT
    """)


def test_a_gang_that_can_only_fit_on_bad_gpus_is_told_what_there_is() -> None:
    check("""
        nodes
          a  8cpu 4gpu:h100 bad:0
        jobs
          four  : 1x 4gpu
          gang  : 4x 1gpu
        plan
          four  NODE_TOO_SMALL the largest has 3
          gang  INSUFFICIENT needs 4 GPUs in all; 3 are on ready nodes
    """)


def turn_bad(world: World, words: str) -> None:
    world.do(notation.node(words.split()))


def test_a_gang_keeps_a_gpu_that_turned_bad_and_nobody_gets_it_afterwards() -> None:
    world = begin("""
        nodes
          a  8cpu 2gpu:h100
        jobs
          run   since=1h : 1x 1gpu  on a[0]
    """)
    turn_bad(world, "a 8cpu 2gpu:h100 bad:0")
    world.submit(["one", ":", "1x", "1gpu"])
    world.submit(["two", ":", "1x", "1gpu"])
    world.expect("one a[1]\ntwo INSUFFICIENT")
    world.end("run")
    world.expect("two INSUFFICIENT")
    turn_bad(world, "a 8cpu 2gpu:h100")
    world.expect("two a[0]")


def test_nobody_is_evicted_for_a_gpu_that_is_bad_and_no_start_is_promised_on_one() -> None:
    world = begin("""
        nodes
          a  8cpu 1gpu:h100
          b  8cpu 1gpu:h100
        jobs
          bad   yields timeout=2h since=1h : 1x 1gpu  on a[0]
          good  yields timeout=3h since=1h : 1x 1gpu  on b[0]
    """)
    turn_bad(world, "a 8cpu 1gpu:h100 bad:0")
    world.submit(["next", ":", "1x", "1gpu"])
    world.expect("next INSUFFICIENT @2h b", Policy(reservations=1))
    world.submit(["high", "priority=9", ":", "1x", "1gpu"])
    world.expect("high b[0] | preempt good\nnext INSUFFICIENT", Policy(reservations=0))


def test_a_repaired_gang_leaves_a_gpu_that_turned_bad() -> None:
    world = begin("""
        nodes
          a  8cpu 2gpu:h100
          b  8cpu 1gpu:h100
          c  8cpu 1gpu:h100
        jobs
          gang  yields since=1h : 2x 1gpu  on a[0] b[0]
    """)
    turn_bad(world, "a 8cpu 2gpu:h100 bad:0")
    world.kill("b")
    world.expect("gang a[1] c[0] | repair gang")


def test_nothing_joins_a_job_as_long_as_it_is_frozen() -> None:
    world = begin("""
        nodes
          a  2cpu
        jobs
          grow  : 1..3x 1cpu  on a
    """)
    world.do(ControlJob(job_id="grow", action=Action.FREEZE))
    world.expect("")
    world.do(ControlJob(job_id="grow", action=Action.RESUME))
    world.expect("grow a")


def test_a_frozen_job_is_known_to_end_by_its_timeout_alone() -> None:
    world = begin("""
        nodes
          a  2cpu
          b  4cpu
        jobs
          guess  estimate=1h since=10m : 1x 2cpu  on a
          limit  timeout=2h estimate=30m since=10m : 1x 4cpu  on b
    """)
    for job in ("guess", "limit"):
        world.do(ControlJob(job_id=job, action=Action.FREEZE))
    world.submit(["next", ":", "1x", "2cpu"])
    world.expect("next INSUFFICIENT @110m b", Policy(reservations=1))
