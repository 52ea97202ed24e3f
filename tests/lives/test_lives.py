"""Lives of small clusters find no fault; and they do find the faults that they were written for.

`python -m tests.lives SECONDS` lives for as long as you like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from gosched.scheduling.preemption import gang_repair
from gosched.scheduling.snapshot import builder
from gosched.scheduling.snapshot.view import FencedCharge
from gosched.state_machine import MachineBug, fences, gangs
from tests.lives.life import Life, Seen

STEPS = 150
SEEDS = range(10)
#: Things that meet in one job in these lives; each must go on doing so.
PAIRS = (
    ("scale", "task lost NODE_LOST"),
    ("freeze", "task lost NODE_LOST"),
    ("clock back", "task lost NODE_LOST"),
    ("restored", "scale"),
    ("SetWindow", "suspend"),
)


def lives(seeds: Iterable[int]) -> Seen:
    seen = Seen()
    for seed in seeds:
        Life(seed, seen).run(STEPS)
    return seen


def test_whatever_people_agents_and_the_planner_do_leaves_a_cluster_that_goes_on() -> None:
    seen = lives(SEEDS)
    assert [pair for pair in PAIRS if not seen.pairs[min(pair), max(pair)]] == [], sorted(seen.marks)
    assert len(seen.commands) > 35, sorted(seen.commands)


def test_a_gang_that_more_tasks_join_is_not_evicted_in_the_same_cycle() -> None:
    """The planner knew nothing of what these hold, and took a queue below its guarantee: the plan was refused."""
    Life(30_000_030, Seen()).run(250)


def _all_that_is_held_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_repair, "_kept", lambda repair, *_: list(repair.holdings))


def _held_gangs_are_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builder.restarts_in_place
    monkeypatch.setattr(builder, "restarts_in_place", lambda job: real(replace(job, held=False)))


def _fences_cost_no_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FencedCharge, "added", lambda self: {})


def _fences_outlive_their_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fences, "drop_on", lambda *_: None)


def _broken_gangs_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangs, "_goes_on", lambda *_: True)


#: What seldom meets a fault has seeds that do.
@pytest.mark.parametrize(
    ("fault", "seeds"),
    [
        (_all_that_is_held_is_kept, range(40)),
        (_held_gangs_are_repaired, (5, 31)),
        (_fences_cost_no_quota, (1, 55, 116)),
        (_fences_outlive_their_nodes, range(40)),
        (_broken_gangs_run_on, range(40)),
    ],
)
def test_a_seeded_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[[pytest.MonkeyPatch], None], seeds: Iterable[int]
) -> None:
    fault(monkeypatch)
    with pytest.raises((AssertionError, LookupError, MachineBug)):
        lives(seeds)
