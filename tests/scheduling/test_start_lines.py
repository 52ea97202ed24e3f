"""What reserved starts leave is the same whether it was changed one by one or is computed anew."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from gosched.scheduling import Plan, Policy
from gosched.scheduling.backfill.reserved_starts import ReservedStart, ReservedStarts
from gosched.scheduling.backfill.start_lines import StartLines
from gosched.scheduling.cycle_state import CycleState
from gosched.scheduling.plugins.calls import Plugins
from gosched.scheduling.policy import ALL
from gosched.scheduling.snapshot.task_requests import PendingGang
from tests.scheduling.support import tables
from tests.scheduling.support.seeds import SEEDS
from tests.scheduling.test_properties import SETTINGS, UNSHRUNK

POLICY = Policy(reservations=ALL)
SHARED, NUMA = "8cpu 8Gi 4gpu:h100", "8cpu 8Gi 2gpu:a100 numa:0-3/4-7 gpu_numa:0,1"
NODES = ("4cpu 8Gi", "8cpu 8Gi", SHARED, SHARED, "16cpu 8Gi 8gpu:h100 2*license", NUMA)
GROUPS = (
    *("1x 2cpu", "2x 3cpu", "4x 1cpu 1Gi", "1x 8cpu", "1x 1cpu 1*license", "1x 1cpu | 2x 1cpu 1gpu"),
    *("1x 1cpu 1gpu", "2x 1cpu 2gpu", "1x 1cpu 3gpu", "3x 1cpu 1gpu"),
)
PACKED = ("2x 1cpu 0.5gpu", "1x 1cpu 0.3gpu", "1x 2cpu 1gpu in:numa")  # which device they take matters to others


def crowd(draw: random.Random, groups: tuple[str, ...]) -> tuple[CycleState, list[PendingGang]]:
    """A cycle that has begun: some jobs run and others wait, most of them for a known time."""
    nodes = [f"  n{i}  {draw.choice(NODES)}" for i in range(draw.randint(1, 4))]
    world = tables.begin("nodes\n" + "\n".join(nodes))
    for part in range(2):
        for number in range(10):
            limit = f"timeout={draw.randint(2, 90)}m" if draw.random() < 0.8 else ""
            world.submit(f"j{part}{number} {limit} : {draw.choice(groups)}".split())
        if not part:
            world.commit(world.plan(Policy(reservations=0)))
    world.go("1m")
    view = world.builder.view(world.state)
    plan = Plan(revision=view.revision, planned_at_ms=world.state.clock_ms, seed=draw.randrange(100))
    return CycleState(view, POLICY, Plugins(view, (), POLICY.runner), plan), list(view.pending)


def changes(state: CycleState, waiting: list[PendingGang], draw: random.Random) -> Iterator[ReservedStarts]:
    """Starts are reserved, given up and taken again, and gangs start; yields after each change."""
    starts = state.reserved_starts
    draw.shuffle(waiting)
    gone: list[ReservedStart] = []
    for gang in waiting:
        if draw.random() < 0.3:
            state.start_now.start(gang, gang.shape)
        else:
            state.reserver.reserve_earliest(gang, state.limits.allowance(gang))
        yield starts
        if starts.all and draw.random() < 0.4:
            gone.append(draw.choice(starts.all))
            state.reserver.remove(gone[-1])
            yield starts
        if gone and draw.random() < 0.3:
            state.reserver.add(gone.pop())
            yield starts


def by_line(starts: ReservedStarts) -> dict[tuple[str, int], tuple[list[int], list[int]]]:
    """What each start takes on each node, and leaves there; without devices, among which it may choose."""
    job_of = {reserved.number: reserved.gang.job_id for reserved in starts.all}
    lines = starts.lines().lines
    return {
        (job_of[owner], row): (need[:4].tolist(), free[:4].tolist())
        for owner, row, need, free in zip(lines.owner.tolist(), lines.row, lines.need, lines.free, strict=True)
    }


def anew(starts: ReservedStarts) -> ReservedStarts:
    """The same starts, about which nothing is known yet."""
    made = ReservedStarts(starts._nodes, (), starts._release_profile, starts._plain, starts._now_ms)
    made.add_all([ReservedStart(reserved.gang, reserved.reservation) for reserved in starts.all])
    return made


def check_lines(rules: settings) -> None:
    @rules
    @given(SEEDS)
    def check(seed: int) -> None:
        draw = random.Random(seed)
        for starts in changes(*crowd(draw, GROUPS), draw):
            other = anew(starts)
            assert by_line(starts) == by_line(other), "lines differ"
            assert starts.all_hold() == other.all_hold(), "lines differ"

    check()


def test_no_device_is_taken_twice() -> None:
    """Shares that are chosen anew may be packed otherwise, so the lines are not compared."""

    @settings(SETTINGS, max_examples=20)
    @given(SEEDS)
    def check(seed: int) -> None:
        draw = random.Random(seed)
        for starts in changes(*crowd(draw, GROUPS + PACKED), draw):
            lines = starts.lines()
            assert (lines.lines.free >= 0).all()

    check()


def test_lines_that_were_changed_are_those_that_are_computed_anew() -> None:
    check_lines(settings(SETTINGS, max_examples=20))


def forgets_who_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutated(self: StartLines, owner: int) -> None:
        self.lines = self.lines.chosen(self.lines.owner != owner)

    monkeypatch.setattr(StartLines, "remove", mutated)


def forgets_who_came(monkeypatch: pytest.MonkeyPatch) -> None:
    insert = StartLines._insert

    def mutated(self: StartLines, *args: Any) -> None:
        owner, start_ms, end_ms, rows, need, free = args
        insert(self, owner, start_ms, end_ms, rows, np.zeros_like(need), free)

    monkeypatch.setattr(StartLines, "_insert", mutated)


def forgets_what_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StartLines, "subtract", lambda *args: None)


@pytest.mark.parametrize("mutation", [forgets_who_left, forgets_who_came, forgets_what_starts])
def test_lines_that_miss_a_change_are_noticed(monkeypatch: pytest.MonkeyPatch, mutation: Any) -> None:
    mutation(monkeypatch)
    with pytest.raises(AssertionError, match=r"^lines differ"):
        check_lines(settings(UNSHRUNK, max_examples=60))


def test_a_start_that_is_found_is_the_first_moment_of_all_at_which_the_totals_suffice_on_one_node() -> None:
    """One node and CPUs alone: the totals say it all, and a look at each moment says the same."""

    @settings(SETTINGS, max_examples=30)
    @given(SEEDS)
    def check(seed: int) -> None:
        draw = random.Random(seed)
        words = [f"  j{i}  timeout={draw.randint(1, 60)}m : 1x {draw.randint(1, 8)}cpu" for i in range(12)]
        world = tables.begin("nodes\n  a  8cpu\njobs\n" + "\n".join(words))
        plan = world.plan(POLICY)
        now = plan.planned_at_ms
        starts = {gang.job_id: now for gang in plan.gangs} | {r.job_id: r.start_ms for r in plan.reservations}
        placed: list[tuple[int, int, int]] = []
        for job in world.state.jobs.values():
            span, cpus = job.spec.span_ms, job.spec.groups[0].resources.cpu_millis
            moments = sorted({now, *[stop for _, stop, _ in placed]})
            fits = [at for at in moments if _most(placed, at, at + span) + cpus <= 8000]
            assert starts[job.id] == fits[0]
            placed.append((fits[0], fits[0] + span, cpus))

    check()


def _most(placed: list[tuple[int, int, int]], begin: int, end: int) -> int:
    """The most that is held at any moment between."""
    moments = [begin, *[start for start, _, _ in placed if begin < start < end]]
    return max(sum(cpus for start, stop, cpus in placed if start <= at < stop) for at in moments)
