"""Fragmentation scores: by hand, and against the paper's definition written out in plain Python.

A mutation breaks the columns on purpose; the comparison must notice it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gosched.scheduling.placement import fragmentation as module
from gosched.scheduling.placement.fragmentation import Demand, Workload, fragmentation, placement_scores

SETTINGS = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow],
)


@dataclass(frozen=True)
class Row:
    cpu: int
    gpus: tuple[int, ...]
    models: tuple[bool, ...] = (True,)


Asks = list[tuple[Demand, int]]


def demand(cpu: int, gpu: int, allowed: int = 0) -> Demand:
    return Demand(cpu_millis=cpu, gpu_millis=gpu, allowed=allowed)


def score_of(requests: Asks, row: Row, cpu: int, gpu: int) -> tuple[int, int]:
    scores, devices = scored(Workload.of(requests), [row], cpu, gpu)
    return scores[0], devices[0]


def scored(workload: Workload, rows: list[Row], cpu: int, gpu: int) -> tuple[list[int], list[int]]:
    scores, devices = placement_scores(workload, cpu, gpu, *columns(rows))
    return scores.tolist(), devices.tolist()


def columns(
    rows: list[Row],
) -> tuple[module.IntArray, module.IntArray, module.BoolArray]:
    width = max((len(row.gpus) for row in rows), default=0)
    return (
        np.array([row.cpu for row in rows], dtype=np.int64),
        np.array([row.gpus + (0,) * (width - len(row.gpus)) for row in rows], dtype=np.int64).reshape(len(rows), width),
        np.array([row.models for row in rows], dtype=np.bool_),
    )


# By hand


@pytest.mark.parametrize(
    ("typical", "row", "wasted"),
    [
        pytest.param(demand(1000, 500), Row(4000, (1000, 300)), 300, id="a device with less than the share is waste"),
        pytest.param(demand(1000, 500), Row(4000, (1000, 500)), 0, id="a device with just the share is not"),
        pytest.param(demand(1000, 500), Row(999, (1000, 300)), 1300, id="without CPU all is waste"),
        pytest.param(demand(0, 500), Row(99, (1000, 300)), 1300, id="a task without CPU counts as a tenth of one"),
        pytest.param(demand(0, 500), Row(100, (1000, 300)), 300, id="a tenth of a CPU is enough for it"),
        pytest.param(demand(1000, 2000), Row(4000, (1000, 1000, 900)), 900, id="whole GPUs: devices in use are waste"),
        pytest.param(demand(1000, 2000), Row(4000, (1000, 900, 900)), 2800, id="too few whole GPUs: all is waste"),
        pytest.param(demand(1000, 0), Row(4000, (1000, 300)), 1300, id="to a task without GPU all is waste"),
        pytest.param(demand(1000, 500), Row(4000, (1000,), (False,)), 1000, id="another model: all is waste"),
        pytest.param(demand(1000, 500), Row(4000, ()), 0, id="no devices, no waste"),
    ],
)
def test_fragmentation_of_one_node_for_one_demand(typical: Demand, row: Row, wasted: int) -> None:
    assert fragmentation(Workload.of([(typical, 1)]), *columns([row])).tolist() == [wasted]


def test_demands_count_by_their_number_of_tasks() -> None:
    workload = Workload.of([(demand(1000, 500), 3), (demand(1000, 1000), 1)])
    assert fragmentation(workload, *columns([Row(4000, (600,))])).tolist() == [600]  # wasted to one of four


def test_spoiling_a_whole_gpu_scores_below_half_and_using_a_rest_above() -> None:
    requests = [(demand(1000, 1000), 1)]
    assert score_of(requests, Row(4000, (1000, 400)), 1000, 400) == (59, 1)  # 100 * sigmoid(0.4) = 59.87
    assert score_of(requests, Row(4000, (1000,)), 1000, 400) == (35, 0)  # 100 * sigmoid(-0.6) = 35.43
    assert score_of(requests, Row(4000, (1000,)), 1000, 1000) == (50, 0)


def test_a_task_that_takes_the_last_cpu_strands_the_gpus() -> None:
    assert score_of([(demand(1000, 1000), 1)], Row(4000, (1000, 1000)), 4000, 0) == (11, 0)  # sigmoid(-2) = 0.119


def test_equal_devices_are_told_apart_by_their_number() -> None:
    assert score_of([(demand(1000, 500), 1)], Row(4000, (300, 1000, 1000)), 1000, 500) == (50, 1)


def test_the_rarest_twentieth_is_no_part_of_the_workload() -> None:
    requests = [(demand(1000, 1000), 95), (demand(1000, 500), 5)]
    assert Workload.of(requests).total == 95
    assert Workload.of([(demand(1000, 1000), 94), (demand(1000, 500), 6)]).total == 100


def test_the_workload_does_not_depend_on_the_order_of_its_tasks() -> None:
    requests = [(demand(i, 100 * i), 1) for i in range(1, 10)]
    assert fields(Workload.of(requests)) == fields(Workload.of(requests[::-1]))


def fields(workload: Workload) -> list[object]:
    return [np.asarray(getattr(workload, name)).tolist() for name in workload.__slots__]


def test_without_a_workload_all_nodes_are_equal() -> None:
    scores, _ = scored(Workload.of([]), [Row(4000, (1000, 400)), Row(4000, (400,))], 1000, 400)
    assert scores[0] == scores[1]


def test_no_nodes_give_no_scores() -> None:
    scores, devices = placement_scores(
        Workload.of([]), 1000, 500, np.zeros(0, np.int64), np.zeros((0, 2), np.int64), np.ones((0, 1), bool)
    )
    assert len(scores) == len(devices) == 0


# Against the definition

LEVELS = st.sampled_from([0, 100, 250, 400, 500, 900, 1000])
DEMANDS = st.builds(
    demand,
    st.sampled_from([0, 100, 1000, 2500]),
    st.sampled_from([0, 100, 400, 500, 900, 1000, 2000]),
    st.integers(0, 1),
)
ROWS = st.builds(
    Row,
    st.integers(0, 4000),
    st.lists(LEVELS, max_size=4).map(tuple),
    st.tuples(st.booleans(), st.booleans()),
)
CASES = (
    st.lists(st.tuples(DEMANDS, st.integers(1, 50)), min_size=1, max_size=6),
    st.lists(ROWS, min_size=1, max_size=6),
    DEMANDS,
)


@SETTINGS
@given(*CASES)
def test_scores_and_devices_are_those_of_the_definition(requests: Asks, rows: list[Row], task: Demand) -> None:
    compare(requests, rows, task)


@SETTINGS
@given(*CASES)
def test_chunks_do_not_show(requests: Asks, rows: list[Row], task: Demand) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_CELLS", 1)
        compare(requests, rows, task)


@pytest.mark.parametrize(
    "break_it",
    [
        pytest.param(lambda p: p.setattr(module, "_SCORES", range(2, 101 - 1)), id="a score too few"),
        pytest.param(lambda p: p.setattr(module, "TYPICAL_PERCENT", 100), id="rare demands count"),
        pytest.param(lambda p: p.setattr(module, "MIN_CPU_MILLIS", 2000), id="no CPU counts as much"),
        pytest.param(lambda p: p.setattr(module, "fragmentation", _half_blind), id="CPU left is not looked at"),
    ],
)
def test_a_wrong_column_is_noticed(
    monkeypatch: pytest.MonkeyPatch, break_it: Callable[[pytest.MonkeyPatch], None]
) -> None:
    break_it(monkeypatch)

    @settings(SETTINGS, phases=[Phase.generate])
    @given(*CASES)
    def check(requests: Asks, rows: list[Row], task: Demand) -> None:
        compare(requests, rows, task)

    with pytest.raises(AssertionError):
        check()


def _half_blind(
    workload: Workload, cpu_free: module.IntArray, gpu_free: module.IntArray, model_ok: module.BoolArray
) -> module.IntArray:
    return fragmentation(workload, cpu_free + 4000, gpu_free, model_ok)


def compare(requests: Asks, rows: list[Row], task: Demand) -> None:
    found = zip(*scored(Workload.of(requests), rows, task.cpu_millis, task.gpu_millis), strict=True)
    expected = [expected_score(requests, row, task) for row in rows]
    assert [f for f, e in zip(found, expected, strict=True) if e] == [e for e in expected if e]


def expected_score(requests: Asks, row: Row, task: Demand) -> tuple[int, int] | None:
    """The definition, one node, one demand and one device at a time; None where the task has no room."""
    before = expected_fragmentation(requests, row)
    best: tuple[int, int] | None = None
    for device, gpus in taken(row.gpus, task.gpu_millis):
        after = expected_fragmentation(requests, Row(row.cpu - task.cpu_millis, gpus, row.models))
        score = int(100 / (1 + math.exp(-(before - after) / 1000)))
        if best is None or score > best[0]:
            best = (score, device)
    return best


def taken(gpus: tuple[int, ...], gpu_millis: int) -> list[tuple[int, tuple[int, ...]]]:
    """Each way to take what a task asks for: the device and what is left."""
    if 0 < gpu_millis < 1000:
        return [
            (i, (*gpus[:i], left - gpu_millis, *gpus[i + 1 :])) for i, left in enumerate(gpus) if left >= gpu_millis
        ]
    whole = [i for i, left in enumerate(gpus) if left == 1000]
    count = gpu_millis // 1000
    if len(whole) < count:
        return []
    return [(0, tuple([0 if i in whole[:count] else left for i, left in enumerate(gpus)]))]


def expected_fragmentation(requests: Asks, row: Row) -> float:
    typical = expected_typical(requests)
    total = sum(typical.values())
    return sum(count / total * wasted(row, task) for task, count in typical.items())


def expected_typical(requests: Asks) -> dict[tuple[int, int, int], int]:
    counts: dict[tuple[int, int, int], int] = {}
    for task, count in requests:
        key = (task.cpu_millis or 100, task.gpu_millis, task.allowed)
        counts[key] = counts.get(key, 0) + count
    kept: dict[tuple[int, int, int], int] = {}
    for key, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if sum(kept.values()) >= 0.95 * sum(counts.values()):
            break
        kept[key] = count
    return kept


def wasted(row: Row, task: tuple[int, int, int]) -> int:
    cpu, gpu, allowed = task
    each, count = (gpu, 1) if gpu < 1000 else (1000, gpu // 1000)
    runs = gpu > 0 and row.cpu >= cpu and row.models[allowed] and sum(left >= each for left in row.gpus) >= count
    return sum(left for left in row.gpus if not runs or left < each)
