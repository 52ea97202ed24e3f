"""Expected waste: by hand, and the table against the same walk written as a plain recursion."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gosched.scheduling.placement import expected_waste as module
from gosched.scheduling.placement.expected_waste import OFFERS, SHORT_OFFERS, ExpectedWaste
from gosched.scheduling.placement.fragmentation import Demand, Workload, placement_scores

SETTINGS = settings(max_examples=60, deadline=None, derandomize=True, database=None, print_blob=False)

Asks = list[tuple[Demand, int]]

HALVES: Asks = [(Demand(cpu_millis=1600, gpu_millis=500, allowed=0), 1)]


def wasted(
    requests: Asks, cpu: int, gpus: list[int], models: tuple[bool, ...] = (True, True), *, cpu_short: bool = False
) -> float:
    """In milli-GPUs."""
    workload = Workload.of([(demand, 1000 * count) for demand, count in requests])  # so that integers do not round
    measure = ExpectedWaste(workload, np.array([models]), len(gpus), cpu_short=cpu_short)
    row = np.array([cpu], dtype=np.int64), np.array([gpus], dtype=np.int64)
    return float(measure(workload, *row, measure.kinds)[0]) / workload.total


def after_offers(milli: float, offers: int = OFFERS) -> float:
    """What is left of it when the one typical task can use all: offers end before, once in a while."""
    return milli / (1 + offers)


@pytest.mark.parametrize(
    ("cpu", "gpus", "models", "expected"),
    [
        pytest.param(1600, [500], (True,), after_offers(500), id="a half is used by the next task"),
        pytest.param(3200, [1000], (True,), after_offers(1000 + OFFERS * after_offers(500)), id="a whole by two"),
        pytest.param(1600, [1000], (True,), after_offers(1000 + OFFERS * 500), id="CPU for one: half is wasted"),
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


PAIRS: Asks = [(Demand(cpu_millis=1600, gpu_millis=2000, allowed=0), 1)]
TWO, FOUR = 2 * SHORT_OFFERS, 4 * SHORT_OFFERS  # offers of so many devices


@pytest.mark.parametrize(
    ("cpu", "gpus", "expected"),
    [
        pytest.param(1600, [1000, 1000], after_offers(2000, TWO), id="a pair of devices is used by the next task"),
        pytest.param(1500, [1000, 1000], 2000, id="without CPU for both all is wasted"),
        pytest.param(9600, [1000], 1000, id="one device alone is wasted"),
        pytest.param(9600, [1000, 900], 1900, id="a device in part is of no use to it"),
        pytest.param(1600, [1000] * 4, after_offers(4000 + FOUR * 2000, FOUR), id="CPU for one pair of two"),
    ],
)
def test_where_cpus_are_short_a_task_on_several_devices_needs_them_and_their_cpus_together(
    cpu: int, gpus: list[int], expected: float
) -> None:
    assert wasted(PAIRS, cpu, gpus, cpu_short=True) == pytest.approx(expected, abs=0.01)


def test_where_cpus_are_short_they_go_with_whole_devices_and_parts_evenly() -> None:
    """500 of 2500 idle milli-GPUs get a fifth of the CPUs."""
    asks = HALVES + PAIRS
    apart = wasted(asks, 6400, [1000, 1000], cpu_short=True) + wasted(asks, 1600, [500], cpu_short=True)
    assert wasted(asks, 8000, [1000, 500, 1000], cpu_short=True) == pytest.approx(apart, abs=0.01)


def test_a_share_is_taken_from_the_device_that_it_leaves_nothing_useless_on() -> None:
    workload = Workload.of([(Demand(cpu_millis=100, gpu_millis=gpu, allowed=0), 1) for gpu in (300, 500)])
    measure = ExpectedWaste(workload, np.ones((1, 1), dtype=np.bool_), 3, cpu_short=False)
    nodes = np.array([64_000]), np.array([[700, 500, 300]])
    scores, devices = placement_scores(workload, 100, 500, *nodes, measure.kinds, measure)
    assert devices.tolist() == [1]
    assert scores[0] >= 50


def test_kinds_beyond_the_limit_count_as_suiting_every_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KINDS", 2)
    suits = np.array([[False, False], [False, False], [True, False], [False, True]])
    asks = [(Demand(cpu_millis=1, gpu_millis=500, allowed=m), 1) for m in (0, 1)]
    waste = ExpectedWaste(Workload.of(asks), suits, 1, cpu_short=False)
    workload = Workload.of(HALVES)
    left = waste(workload, np.full(4, 1000), np.full((4, 1), 500), waste.kinds)
    assert left.tolist() == [500, 500, left[2], left[2]]
    assert left[2] == int(after_offers(500))


DEMANDS = st.builds(
    Demand,
    cpu_millis=st.sampled_from([100, 1600, 3000, 6400]),
    gpu_millis=st.sampled_from([0, 250, 330, 500, 1000, 2000]),
    allowed=st.integers(0, 1),
)


CASES = (
    st.lists(st.tuples(DEMANDS, st.integers(1, 50)), min_size=1, max_size=4),
    st.integers(0, 20_000),
    st.sampled_from([[0], [250], [670], [1000], [1000] * 2, [1000] * 4]),
    st.tuples(st.booleans(), st.booleans()),
    st.booleans(),
)


def check(requests: Asks, cpu: int, gpus: list[int], models: tuple[bool, bool], cpu_short: bool) -> None:
    gpus = gpus if cpu_short else gpus[:1]
    expected = walked(requests, cpu, gpus, models, SHORT_OFFERS if cpu_short else OFFERS)
    assert wasted(requests, cpu, gpus, models, cpu_short=cpu_short) == pytest.approx(expected, abs=0.01)


def test_the_table_is_the_mean_over_all_ways_that_tasks_come() -> None:
    SETTINGS(given(*CASES)(check))()


@pytest.mark.parametrize(("name", "value"), [("OFFERS", 50), ("SHORT_OFFERS", 10), ("MAX_KINDS", 0), ("GPU_STEP", 20)])
def test_a_wrong_table_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str, value: int) -> None:
    monkeypatch.setattr(module, name, value)
    with pytest.raises((AssertionError, IndexError)):
        settings(SETTINGS, phases=[Phase.generate])(given(*CASES)(check))()


def walked(requests: Asks, cpu: int, gpus: list[int], models: tuple[bool, bool], offers: int) -> float:
    """One device, or a lot of whole ones; between two columns of the table the waste is a straight line."""
    workload = Workload.of(requests)
    columns = zip(workload.cpu_millis, workload.gpus, workload.need, workload.allowed, workload.weights, strict=True)
    typical = [
        (int(c), int(g), -(-int(workload.needs[n]) // 10), offers * int(w) / workload.total)
        for c, g, n, a, w in columns
        if models[a]
    ]
    if offers == OFFERS:  # a task on several GPUs counts as one task for each
        typical = [(c // g, 1, need, w) for c, g, need, w in typical]
    most = max([int(c) // int(g) for c, g in zip(workload.cpu_millis, workload.gpus, strict=True)], default=0)
    unit = max(-(-most // 16), 1)

    def between(milli: float, devices: int, steps: int) -> float:
        """What is wasted of a lot: `milli` CPUs and `steps` GPU are left with each device."""
        at = min(milli / unit, 32)
        low = min(int(at), 31)
        return at_column(low, devices, steps) * (1 - (at - low)) + at_column(low + 1, devices, steps) * (at - low)

    @cache
    def at_column(column: int, devices: int, steps: int) -> float:
        idle, comes = devices * steps * 10.0, 1.0
        for c, g, need, w in typical:
            left = devices * column * unit - c
            if left >= 0 and g <= devices and need <= steps:
                idle += devices * w * after(left, devices - g, steps - need)
                comes += devices * w
        return idle / comes

    def after(left: float, whole: int, steps: int) -> float:
        share = left / max(100 * whole + steps, 1)  # for each step
        part = between(share * steps, 1, steps)
        return part + between(100 * share, whole, 100) if whole else part

    return between(cpu // len(gpus), len(gpus), gpus[0] // 10)
