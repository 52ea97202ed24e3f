"""Learned run times in the planner: starts that are expected by them, and that they break no promise."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gosched.core.records.reservation import Reservation
from gosched.scheduling import Policy, ViewBuilder
from gosched.scheduling.backfill.reserved_starts import ReservedStart
from gosched.scheduling.policy import ALL
from gosched.scheduling.queries.explain_on_request import explain_on_request
from gosched.scheduling.snapshot import builder
from tests.scheduling.support.tables import World, begin

MINUTE = 60_000
EASY, CONSERVATIVE = Policy(reservations=1), Policy(reservations=ALL)
THREE_NODES = """
    nodes
      a  4cpu
      b  4cpu
      c  4cpu
    jobs
"""


def experienced(table: str = THREE_NODES, *run_m: int) -> World:
    """A world in which jobs of one task on node a have run for these minutes; by default ten of them for ten."""
    world = begin(table)
    world.go("0s")
    for number, minutes in enumerate(run_m or (10,) * 10):
        world.start(f"old{number} : 1x 4cpu on a")
        world.go(f"{minutes + sum(run_m[:number]) if run_m else 10 * (number + 1)}m")
        world.end(f"old{number}")
    return world


def reservation(world: World, job_id: str) -> tuple[int, str, bool]:
    """In how many minutes, on which nodes, and whether it rests on learned run times."""
    found: Reservation = world.state.reservations[job_id]
    after_ms = found.start_ms - world.state.clock_ms
    return after_ms // MINUTE, " ".join([share.node_id for share in found.shares]), found.learned


def submit(world: World, text: str) -> None:
    world.submit(text.split())


def plan(world: World, policy: Policy = EASY) -> None:
    world.commit(world.plan(policy))


def test_a_gang_gets_a_start_where_nobody_said_how_long_jobs_run() -> None:
    without = begin(THREE_NODES)
    world = experienced()
    for each in (without, world):
        each.start("run1 : 1x 4cpu on a")
        each.start("run2 : 1x 4cpu on b")
        submit(each, "big : 3x 4cpu")
        plan(each)
    assert without.state.reservations == {}
    assert reservation(world, "big") == (10, "a b c", True)
    why = explain_on_request(world.builder.view(world.state), EASY, "big", world.state.clock_ms)
    assert why is not None
    assert why.start_from == "reserved, expected by the run times of jobs like those that run"
    assert [(holder.name, holder.until_ms - world.state.clock_ms) for holder in why.holders] == [
        ("run1", 10 * MINUTE),
        ("run2", 10 * MINUTE),
    ]


def test_gangs_know_what_jobs_like_them_ran() -> None:
    world = experienced()
    world.start("run1 : 1x 4cpu on a")
    world.start("run2 timeout=2m : 1x 4cpu on b")
    submit(world, "next : 1x 4cpu")
    view = world.builder.view(world.state)
    assert [(gang.median_ms, gang.likely_ms) for gang in view.pending] == [(10 * MINUTE, 10 * MINUTE)]
    running = [(holder.median_ms, holder.likely_ms) for holder in view.holders.values()]
    assert running == [(10 * MINUTE, 10 * MINUTE), (2 * MINUTE, 2 * MINUTE)]


def test_a_job_that_runs_on_is_expected_to_end_like_those_that_ran_for_longer() -> None:
    world = experienced(THREE_NODES, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 30)
    world.start("run1 : 1x 4cpu on a")
    begun_ms = world.state.clock_ms
    world.go("141m")  # it has run for eleven
    holder = world.builder.view(world.state).holders["run1"]
    assert holder.likely_ends_ms(world.state.clock_ms) == begun_ms + holder.likely_ms > begun_ms + 30 * MINUTE
    assert holder.ends_ms(world.state.clock_ms) > begun_ms + 10_000 * MINUTE  # as far as limits tell
    world.go("400m")
    holder = world.builder.view(world.state).holders["run1"]
    overrun_ms = world.state.clock_ms - begun_ms - holder.likely_ms
    assert holder.likely_ends_ms(world.state.clock_ms) == world.state.clock_ms + overrun_ms > world.state.clock_ms


@pytest.mark.parametrize("limit", ["timeout=1h", "estimate=1h"])
def test_what_limits_and_estimates_say_counts_for_more_than_what_was_learned(limit: str) -> None:
    world = experienced()
    world.start(f"run1 {limit} : 1x 4cpu on a")
    world.start("run2 : 1x 4cpu on b")  # it is expected to end in ten minutes
    world.start("run3 : 1x 4cpu on c")
    submit(world, "next : 1x 4cpu")
    plan(world)
    assert reservation(world, "next") == (60, "a", False)
    world.go("101m")
    plan(world)
    assert reservation(world, "next") == (59, "a", False)


def a_promise_beside_an_expectation() -> World:
    """`big` came first and is expected to start in ten minutes; `small` has the promise of node a in an hour."""
    world = experienced()
    world.start("run1 timeout=1h : 1x 4cpu on a")
    world.start("run2 : 1x 4cpu on b")
    world.start("run3 : 1x 4cpu on c")
    submit(world, "big : 2x 4cpu")
    submit(world, "small : 1x 4cpu")
    plan(world, CONSERVATIVE)
    assert reservation(world, "big") == (10, "b c", True)
    assert reservation(world, "small") == (60, "a", False)
    return world


def check_that_small_keeps_its_promise(world: World) -> None:
    world.go("109m")
    world.end("run3")
    world.go("130m")  # run2 runs for longer than any before
    plan(world, CONSERVATIVE)
    after, nodes, learned = reservation(world, "small")
    assert (after, nodes, learned) == (30, "a", False)
    after, nodes, learned = reservation(world, "big")
    assert (nodes, learned) == ("b c", True)
    assert after > 0


def test_no_promise_by_limits_is_put_off_because_a_job_runs_for_longer_than_expected() -> None:
    check_that_small_keeps_its_promise(a_promise_beside_an_expectation())


def test_a_planner_that_lets_an_expectation_be_as_old_as_a_promise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    by_time = property(lambda self: (self.reservation.made_at_ms, self.gang.sequence))
    monkeypatch.setattr(ReservedStart, "age", by_time)
    with pytest.raises((AssertionError, KeyError)):
        check_that_small_keeps_its_promise(a_promise_beside_an_expectation())


def test_gangs_are_told_of_new_run_times_some_with_each_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "EXPECTED_AT_ONCE", 2)
    world = experienced(THREE_NODES, 10, 10, 10)
    world.start("run1 : 1x 4cpu on a")
    for number in range(5):
        submit(world, f"next{number} : 1x 4cpu")
    view = world.builder.view(world.state)
    assert [gang.likely_ms for gang in view.pending] == [0] * 5
    world.go("40m")
    world.end("run1")
    views = [world.builder.view(world.state) for _ in range(6)]
    told = [sum(gang.likely_ms > 0 for gang in view.pending) for view in views]
    assert told[-1] == 5
    assert max(after - before for before, after in pairwise(told)) == 2
    again = ViewBuilder()
    again.reset(world.state)
    assert again.view(world.state).pending == world.builder.view(world.state).pending
