"""Learned run times in the planner: what gangs know of jobs like them, and guesses of starts."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gosched.scheduling import Policy, ViewBuilder
from gosched.scheduling.snapshot import builder
from tests.scheduling.support.tables import World, begin

MINUTE = 60_000
AT_ONCE = Policy(max_wait_ms=0)
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


def submit(world: World, text: str) -> None:
    world.submit(text.split())


def test_the_guess_of_a_start_is_what_jobs_like_those_that_run_took() -> None:
    for world, now, start in ((begin(THREE_NODES), "2m", "4m"), (experienced(), "102m", "110m")):
        world.start("run1 : 1x 4cpu on a")
        world.start("run2 : 1x 4cpu on b")
        submit(world, "big : 3x 4cpu")
        world.go(now)
        world.expect(f"big INSUFFICIENT @{start} a b c", AT_ONCE)


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
