"""Columns of scores that follow a growing plan, against columns that are made anew after each step."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gosched.core.resources import MILLI, Resources
from gosched.core.spec.placement_rules import Strategy
from gosched.scheduling import View
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.placement.free_devices import Slot
from gosched.scheduling.placement.score_columns import ScoreColumns, cpu_is_short
from gosched.scheduling.snapshot.task_requests import TaskRequest, pending_gang
from tests.scheduling.support.cluster import group, job, node, view_of

NODES, ROUNDS = 12, 150
EVERYWHERE = np.ones(NODES, dtype=np.bool_)
SCORED = [Strategy.FRAGMENTATION, Strategy.EXPECTED_WASTE]


GROUPS = [
    replace(group(cpu=cpu), resources=Resources(cpu_millis=cpu * MILLI, gpu_millis=gpu_millis))
    for cpu, gpu_millis in [(1, 0), (2, 300), (1, 500), (4, 1000), (6, 2000)]
]
JOBS = [job(number, own) for number, own in enumerate(GROUPS, 1)]


def a_view(draw: random.Random) -> View:
    nodes = [node(f"n{i:02}", cpu=draw.randint(4, 16), gpu=draw.randint(0, 4)) for i in range(NODES)]
    return view_of(nodes, JOBS)


def walk(seed: int, strategy: Strategy) -> dict[str, int]:
    """Take and give back tasks, each where the column says; compare after each step. Return how often each happened."""
    draw = random.Random(seed)
    view = a_view(draw)
    requests = [pending_gang(each).requests[0] for each in JOBS]
    capacity = FreeCapacity(view.nodes)
    columns = ScoreColumns(strategy, view, capacity)
    taken: list[tuple[TaskRequest, Slot]] = []
    happened = {"taken": 0, "missed": 0, "given": 0}
    for _ in range(ROUNDS):
        request = draw.choice(requests)
        fits = compare(columns, ScoreColumns(strategy, view, capacity.copy()), capacity, request)
        if fits.any():
            row = int(np.where(fits, columns.keys(request), 1 << 62).argmin())
            taken.append((request, capacity.take_one(request, row, columns.device(request, row))))
            happened["taken"] += 1
        else:
            happened["missed"] += 1
        if taken and (not fits.any() or draw.random() < 0.2):
            given, slot = taken.pop(draw.randrange(len(taken)))
            capacity.take_back(given, [slot])
            happened["given"] += 1
    return happened


def compare(columns: ScoreColumns, anew: ScoreColumns, capacity: FreeCapacity, request: TaskRequest) -> np.ndarray:
    """Return the nodes on which the task fits; on these both columns have to say the same."""
    fits = capacity.fits(request, EVERYWHERE)
    assert fits.tolist() == (capacity.slots(request, EVERYWHERE) > 0).tolist()
    assert columns.keys(request)[fits].tolist() == anew.keys(request)[fits].tolist()
    rows = np.flatnonzero(fits).tolist()
    assert [columns.device(request, row) for row in rows] == [anew.device(request, row) for row in rows]
    assert len(set(columns.keys(request).tolist())) == NODES
    return fits


@pytest.mark.parametrize(
    ("cpus", "without_gpus", "asks", "short"),
    [
        pytest.param(16, 0, [(4, 1000)], False, id="as many as the GPUs' tasks ask for"),
        pytest.param(15, 0, [(4, 1000)], True, id="fewer"),
        pytest.param(16, 0, [(4, 1000), (1, 0)], True, id="and a task without GPUs takes one"),
        pytest.param(16, 4, [(4, 1000), (1, 0)], False, id="which it finds elsewhere"),
        pytest.param(16, 99, [(5, 1000)], True, id="CPUs elsewhere are of no use to GPUs"),
        pytest.param(16, 0, [(2, 500)], False, id="shares count in part"),
        pytest.param(16, 0, [], False, id="no live jobs"),
    ],
)
def test_cpus_are_short_where_they_run_out_before_gpus(
    cpus: int, without_gpus: int, asks: list[tuple[int, int]], short: bool
) -> None:
    nodes = [node("gpus", cpu=cpus, gpu=4)] + [node("cpus", cpu=without_gpus, gpu=0)] * bool(without_gpus)
    jobs = [
        job(i, replace(group(cpu=cpu), resources=Resources(cpu_millis=cpu * MILLI, gpu_millis=gpu)))
        for i, (cpu, gpu) in enumerate(asks, 1)
    ]
    assert cpu_is_short(view_of(nodes, jobs)) is short


@pytest.mark.parametrize("strategy", SCORED)
@pytest.mark.parametrize("seed", range(6))
def test_columns_kept_for_the_cycle_are_those_made_anew(seed: int, strategy: Strategy) -> None:
    assert min(walk(seed, strategy).values()) > 5


def _forget_a_change(capacity: type[FreeCapacity]) -> Callable[..., Slot]:
    take_one = capacity.take_one

    def forgetful(self: FreeCapacity, request: TaskRequest, row: int, gpu: int | None = None) -> Slot:
        slot = take_one(self, request, row, gpu)
        self.touched.pop()
        return slot

    return forgetful


def test_a_node_that_is_not_scored_again_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FreeCapacity, "take_one", _forget_a_change(FreeCapacity))
    with pytest.raises(AssertionError):
        walk(0, Strategy.FRAGMENTATION)


def test_shares_are_taken_from_the_device_that_the_column_names() -> None:
    view = a_view(random.Random(1))
    capacity = FreeCapacity(view.nodes)
    request = pending_gang(JOBS[2]).requests[0]
    row = int(np.flatnonzero(view.nodes.gpu_free.sum(axis=1) >= 2 * MILLI)[0])
    assert capacity.take_one(request, row, 1) == Slot(row, (1,))
