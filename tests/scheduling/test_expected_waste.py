"""Expected waste: by hand, and the table against the same walk written as a plain recursion."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gosched.scheduling.placement import expected_waste as module
from gosched.scheduling.placement.expected_waste import OFFERS, ExpectedWaste
from gosched.scheduling.placement.fragmentation import Demand, Workload, placement_scores

SETTINGS = settings(max_examples=60, deadline=None, derandomize=True, database=None, print_blob=False)

Asks = list[tuple[Demand, int]]

HALVES: Asks = [(Demand(cpu_millis=1600, gpu_millis=500, allowed=0), 1)]


def wasted(requests: Asks, cpu: int, gpus: list[int], models: tuple[bool, ...] = (True, True)) -> float:
    """In milli-GPUs."""
    workload = Workload.of([(demand, 1000 * count) for demand, count in requests])  # so that integers do not round
    measure = ExpectedWaste(workload, np.array([models]))
    row = np.array([cpu], dtype=np.int64), np.array([gpus], dtype=np.int64)
    return float(measure(workload, *row, measure.kinds)[0]) / workload.total


def after_offers(milli: float) -> float:
    """What is left of it when the one typical task can use all: offers end before, once in a while."""
    return milli / (1 + OFFERS)


@pytest.mark.parametrize(
    ("cpu", "gpus", "models", "expected"),
    [
        pytest.param(1600, [500], (True,), after_offers(500), id="a half is used by the next task"),
        pytest.param(3200, [1000], (True,), after_offers(1000 + 100 * after_offers(500)), id="a whole by two"),
        pytest.param(1600, [1000], (True,), after_offers(1000 + 100 * 500), id="CPU for one: the other half is wasted"),
        pytest.param(1500, [500], (True,), 500, id="without CPU all is wasted"),
        pytest.param(1600, [490], (True,), 490, id="less than a half is wasted"),
        pytest.param(1600, [500], (False,), 500, id="nothing typical may use this model"),
        pytest.param(1600, [0, 0], (True,), 0, id="nothing idle, nothing wasted"),
    ],
)
def test_waste_of_one_node(cpu: int, gpus: list[int], models: tuple[bool, ...], expected: float) -> None:
    assert wasted(HALVES, cpu, gpus, models) == pytest.approx(expected, abs=0.01)


def test_gpus_far_from_cpus_are_wasted_before_the_last_cpu_is_gone() -> None:
    """Fragmentation sees no harm yet: each of the four could still run a task."""
    assert wasted(HALVES, 1600, [500, 500, 500, 500]) > 1900
    assert wasted(HALVES, 6400, [500, 500, 500, 500]) < 100


def test_a_share_is_taken_from_the_device_that_it_leaves_nothing_useless_on() -> None:
    workload = Workload.of([(Demand(cpu_millis=100, gpu_millis=gpu, allowed=0), 1) for gpu in (300, 500)])
    measure = ExpectedWaste(workload, np.ones((1, 1), dtype=np.bool_))
    nodes = np.array([64_000]), np.array([[700, 500, 300]])
    scores, devices = placement_scores(workload, 100, 500, *nodes, measure.kinds, measure)
    assert devices.tolist() == [1]
    assert scores[0] >= 50


def test_kinds_beyond_the_limit_count_as_suiting_every_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KINDS", 2)
    suits = np.array([[False, False], [False, False], [True, False], [False, True]])
    waste = ExpectedWaste(Workload.of([(Demand(cpu_millis=1, gpu_millis=500, allowed=m), 1) for m in (0, 1)]), suits)
    workload = Workload.of(HALVES)
    left = waste(workload, np.full(4, 1000), np.full((4, 1), 500), waste.kinds)
    assert left.tolist() == [500, 500, left[2], left[2]]
    assert left[2] < 10


DEMANDS = st.builds(
    Demand,
    cpu_millis=st.sampled_from([100, 1600, 3000, 6400]),
    gpu_millis=st.sampled_from([0, 250, 330, 500, 1000, 2000]),
    allowed=st.integers(0, 1),
)


CASES = (
    st.lists(st.tuples(DEMANDS, st.integers(1, 50)), min_size=1, max_size=4),
    st.integers(0, 9000),
    st.sampled_from([0, 250, 670, 1000]),
    st.tuples(st.booleans(), st.booleans()),
)


@SETTINGS
@given(*CASES)
def test_the_table_is_the_mean_over_all_ways_that_tasks_come(
    requests: Asks, cpu: int, gpu: int, models: tuple[bool, bool]
) -> None:
    assert wasted(requests, cpu, [gpu], models) == pytest.approx(walked(requests, cpu, gpu, models), abs=0.01)


@pytest.mark.parametrize(("name", "value"), [("OFFERS", 50), ("MAX_KINDS", 0), ("GPU_STEP", 20)])
def test_a_wrong_table_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str, value: int) -> None:
    monkeypatch.setattr(module, name, value)

    @settings(SETTINGS, phases=[Phase.generate])
    @given(*CASES)
    def check(requests: Asks, cpu: int, gpu: int, models: tuple[bool, bool]) -> None:
        assert wasted(requests, cpu, [gpu], models) == pytest.approx(walked(requests, cpu, gpu, models), abs=0.01)

    with pytest.raises((AssertionError, IndexError)):
        check()


def walked(requests: Asks, cpu: int, gpu: int, models: tuple[bool, bool]) -> float:
    """One device and its CPUs; between two columns of the table the waste is a straight line."""
    workload = Workload.of(requests)
    columns = zip(workload.cpu_millis, workload.gpus, workload.need, workload.allowed, workload.weights, strict=True)
    typical = [
        (int(c) // int(g), -(-int(workload.needs[n]) // 10), OFFERS * int(w) / workload.total)
        for c, g, n, a, w in columns
        if models[a]
    ]
    most = max([int(c) // int(g) for c, g in zip(workload.cpu_millis, workload.gpus, strict=True)], default=0)
    unit = max(-(-most // 16), 1)

    def between(milli: float, steps: int) -> float:
        at = min(milli / unit, 32)
        low = min(int(at), 31)
        return at_column(low, steps) * (1 - (at - low)) + at_column(low + 1, steps) * (at - low)

    @cache
    def at_column(column: int, steps: int) -> float:
        some = [(cpu, need, w) for cpu, need, w in typical if need <= steps and cpu <= column * unit]
        total = steps * 10 + sum(w * between(column * unit - cpu, steps - need) for cpu, need, w in some)
        return float(total / (1 + sum(w for _, _, w in some)))

    return between(cpu, gpu // 10)
