"""Fair shares: small trees by hand, what holds for every tree, and a brute force that hands out unit by unit.

A mutation breaks the division on purpose; the property that should notice it must.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gosched.core.records.queue import Queue, QueueType
from gosched.core.resources import AmountMap
from gosched.core.sharing import parent_of
from gosched.scheduling.fairness import fair_shares as module
from gosched.scheduling.fairness.fair_shares import fair_shares

SETTINGS = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow],
)
UNSHRUNK = settings(SETTINGS, phases=[Phase.generate])
NAMES = ("cpu", "memory")


def fair(path: str, weight: int = 1) -> Queue:
    return Queue(path=path, type=QueueType.FAIR, weight=weight)


def capacity(path: str, pct: int = 0, weight: int = 1, guaranteed: AmountMap = ()) -> Queue:
    return Queue(path=path, type=QueueType.CAPACITY, capacity_pct=pct, weight=weight, guaranteed=guaranteed)


def cpus(
    total: int, queues: list[Queue], demand: Mapping[str, int], ceilings: Mapping[str, int] | None = None
) -> dict[str, int]:
    found = fair_shares(
        {queue.path: queue for queue in queues},
        {"cpu": total},
        {path: {"cpu": amount} for path, amount in demand.items()},
        {path: {"cpu": amount} for path, amount in (ceilings or {}).items()},
    )
    return {path: share["cpu"] for path, share in found.items()}


def test_the_rest_goes_by_weight() -> None:
    assert cpus(90, [fair("a", 2), fair("b")], {"a": 90, "b": 90}) == {"a": 60, "b": 30}


def test_guarantees_come_first_and_what_is_left_goes_by_weight() -> None:
    queues = [capacity("a", 50), capacity("b", 10, weight=2), fair("c")]
    assert cpus(100, queues, {"a": 100, "b": 100, "c": 100}) == {"a": 60, "b": 30, "c": 10}


def test_a_vector_counts_before_the_percentage() -> None:
    queues = [capacity("a", 10, guaranteed=(("cpu", 70),)), fair("b")]
    assert cpus(100, queues, {"a": 70, "b": 100}) == {"a": 70, "b": 30}


def test_vectors_beyond_what_there_is_shrink_in_proportion() -> None:
    queues = [capacity("a", guaranteed=(("cpu", 90),)), capacity("b", guaranteed=(("cpu", 30),)), fair("c")]
    assert cpus(40, queues, {"a": 100, "b": 100, "c": 100}) == {"a": 30, "b": 10, "c": 0}


def test_an_idle_guarantee_is_lent() -> None:
    assert cpus(100, [capacity("a", 80), fair("b")], {"a": 5, "b": 100}) == {"a": 5, "b": 95}


def test_borrowing_stops_at_the_ceiling() -> None:
    assert cpus(100, [capacity("a", 20), fair("b")], {"a": 90}, {"a": 40}) == {"a": 40, "b": 0}


def test_children_divide_what_their_parent_has() -> None:
    queues = [fair("a"), fair("a.x", 3), fair("a.y"), fair("b")]
    assert cpus(80, queues, {"a.x": 99, "a.y": 99, "b": 99}) == {"a": 40, "a.x": 30, "a.y": 10, "b": 40}


def test_a_queue_gets_no_share_that_its_children_may_not_use() -> None:
    queues = [fair("a"), fair("a.x"), fair("b")]
    assert cpus(80, queues, {"a.x": 99, "b": 99}, {"a.x": 10}) == {"a": 10, "a.x": 10, "b": 70}


def test_what_rounding_leaves_goes_to_the_lowest_level_and_then_by_path() -> None:
    assert cpus(5, [fair("a"), fair("b"), fair("c")], {"a": 9, "b": 9, "c": 9}) == {"a": 2, "b": 2, "c": 1}
    assert cpus(2, [fair("a"), fair("b", 5)], {"a": 9, "b": 9}) == {"a": 0, "b": 2}


def test_single_gpu_models_have_no_shares() -> None:
    found = fair_shares({"a": fair("a")}, {"gpu": 8, "gpu:h100": 8}, {"a": {"gpu": 8, "gpu:h100": 8}}, {})
    assert found == {"a": {"gpu": 8}}


@dataclass(frozen=True)
class Scenario:
    queues: dict[str, Queue]
    total: dict[str, int]
    demand: dict[str, dict[str, int]]
    ceilings: dict[str, dict[str, int]]

    def shares(self) -> dict[str, dict[str, int]]:
        return fair_shares(self.queues, self.total, self.demand, self.ceilings)

    def wanted(self, path: str, name: str) -> int:
        children = self.children(path)
        asked = sum(self.wanted(child, name) for child in children)
        asked = asked if children else self.demand[path][name]
        return min(asked, self.ceilings.get(path, {}).get(name, asked))

    def children(self, path: str) -> list[str]:
        return sorted(other for other in self.queues if parent_of(other) == path)

    def claims(self, children: list[str], name: str) -> list[int]:
        return [min(self.guaranteed(child, name), self.wanted(child, name)) for child in children]

    def guaranteed(self, path: str, name: str) -> int:
        """Of what the parent is guaranteed."""
        queue, parent = self.queues[path], parent_of(path)
        if queue.type is not QueueType.CAPACITY:
            return 0
        base = self.guaranteed(parent, name) if parent else self.total[name]
        return dict(queue.guaranteed).get(name, base * queue.capacity_pct // 100)


@st.composite
def scenarios(draw: st.DrawFn, most: int = 0) -> Scenario:
    most = most or draw(st.sampled_from([12, 60, 1 << 60]))
    amounts = st.integers(0, most)
    vectors = st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, amounts))
    paths = draw(
        st.lists(st.sampled_from(["a", "b", "c", "a.x", "a.y", "a.z", "b.x", "b.y", "a.x.1", "a.x.2"]), min_size=2)
    )
    queues: dict[str, Queue] = {}
    for path in sorted({path[:length] for path in paths for length in (1, 3, 5)}):
        weight = draw(st.integers(1, 4) | st.integers(1, 1000))
        queues[path] = fair(path, weight)
        if draw(st.booleans()):
            vector = tuple(sorted(draw(vectors).items())) if draw(st.booleans()) else ()
            queues[path] = capacity(path, draw(st.integers(0, 33)), weight, vector)
    parents = {parent_of(path) for path in queues}
    return Scenario(
        queues,
        {name: draw(amounts) for name in NAMES},
        {path: {name: draw(amounts) for name in NAMES} for path in queues if path not in parents},
        {path: draw(vectors) for path in queues if draw(st.booleans())},
    )


def check_sums_stay_within_the_parents_share(rules: settings = SETTINGS) -> None:
    @rules
    @given(scenarios())
    def check(scenario: Scenario) -> None:
        found = {"": scenario.total, **scenario.shares()}
        for path in found:
            for name in NAMES:
                assert sum(found[child][name] for child in scenario.children(path)) <= found[path][name]

    check()


def check_nobody_gets_more_than_demand_and_ceiling(rules: settings = SETTINGS) -> None:
    @rules
    @given(scenarios())
    def check(scenario: Scenario) -> None:
        for path, share in scenario.shares().items():
            for name in NAMES:
                assert 0 <= share[name] <= scenario.wanted(path, name)

    check()


def check_nothing_is_left_while_somebody_wants_it(rules: settings = SETTINGS) -> None:
    @rules
    @given(scenarios())
    def check(scenario: Scenario) -> None:
        found = {"": scenario.total, **scenario.shares()}
        for path in found:
            children = scenario.children(path)
            for name in NAMES if children else ():
                wanted = sum(scenario.wanted(child, name) for child in children)
                assert sum(found[child][name] for child in children) == min(found[path][name], wanted)

    check()


def check_guarantees_are_kept(rules: settings = SETTINGS) -> None:
    kept = 0

    @rules
    @given(scenarios())
    def check(scenario: Scenario) -> None:
        nonlocal kept
        found = {"": scenario.total, **scenario.shares()}
        for path in found:
            children = scenario.children(path)
            for name in NAMES:
                claims = scenario.claims(children, name)
                scale = max(sum(claims), found[path][name])
                for child, claim in zip(children, claims, strict=True):
                    kept += claim > 0
                    assert found[child][name] >= (claim * found[path][name] // scale if scale else 0)

    check()
    assert kept > 50


def check_more_weight_is_never_less(rules: settings = SETTINGS) -> None:
    @rules
    @given(
        st.lists(st.integers(1, 5) | st.integers(1, 1000), min_size=2, max_size=6),
        st.integers(0, 40) | st.integers(0, 1 << 60),
        st.integers(0, 40) | st.integers(0, 1 << 60),
    )
    def check(weights: list[int], total: int, demand: int) -> None:
        queues = [fair(f"q{i}", weight) for i, weight in enumerate(weights)]
        found = cpus(total, queues, {queue.path: demand for queue in queues})
        for one in queues:
            for other in queues:
                assert one.weight <= other.weight or found[one.path] >= found[other.path]

    check()


def check_order_of_input_does_not_matter(rules: settings = SETTINGS) -> None:
    @rules
    @given(scenarios(), st.integers(0, 1000))
    def check(scenario: Scenario, seed: int) -> None:
        paths = list(scenario.queues)
        random.Random(seed).shuffle(paths)
        again = Scenario(
            {path: scenario.queues[path] for path in paths},
            dict(reversed(scenario.total.items())),
            {path: scenario.demand[path] for path in paths if path in scenario.demand},
            {path: scenario.ceilings[path] for path in paths if path in scenario.ceilings},
        )
        assert again.shares() == scenario.shares()

    check()


def check_the_same_as_unit_by_unit(rules: settings = SETTINGS) -> None:
    @rules
    @given(scenarios(most=12) | scenarios(most=60))
    def check(scenario: Scenario) -> None:
        demand = {path: {**amounts, "memory": 0} for path, amounts in scenario.demand.items()}
        one = replace(scenario, demand=demand)
        assert one.shares() == unit_by_unit(one)

    check()


def check_dominant_shares_grow_alike(rules: settings = SETTINGS) -> None:
    """Each queue has what it gets while all fill up at once, in exact fractions, but for a rounded unit."""
    contested = 0

    @rules
    @given(scenarios())
    def check(scenario: Scenario) -> None:
        nonlocal contested
        found = {"": scenario.total, **scenario.shares()}
        for path in found:
            children = scenario.children(path)
            if len(children) < 2:
                continue
            least = filled(scenario, found[path], children)
            contested += sum(any(parts.values()) for parts in least.values()) > 1
            for child, parts in least.items():
                for name, part in parts.items():
                    assert found[child][name] >= int(part) - 1, (child, name)

    check()
    assert contested > 50


def filled(scenario: Scenario, amounts: Mapping[str, int], children: list[str]) -> dict[str, dict[str, Fraction]]:
    """What each child gets of its guarantee, and while the dominant shares of what they lack grow for their weights."""
    names = [name for name in NAMES if scenario.total[name]]
    has: dict[str, dict[str, Fraction]] = {child: {} for child in children}
    for name in names:
        claims = scenario.claims(children, name)
        scale = min(Fraction(1), Fraction(amounts[name], max(sum(claims), 1)))
        for child, claim in zip(children, claims, strict=True):
            has[child][name] = Fraction(int(claim * scale))
    lacks = {child: {n: scenario.wanted(child, n) - has[child][n] for n in names} for child in children}
    rates: dict[str, dict[str, Fraction]] = {}
    for child in children:
        dominant = max([lack / scenario.total[name] for name, lack in lacks[child].items()], default=Fraction(0))
        if dominant:
            weight = scenario.queues[child].weight
            rates[child] = {name: lack * weight / dominant for name, lack in lacks[child].items()}
    while rates:
        rest = {name: amounts[name] - sum(has[child][name] for child in children) for name in names}
        steps = [lacks[child][n] / rate for child, own in rates.items() for n, rate in own.items() if rate]
        flow = {name: sum(own[name] for own in rates.values()) for name in names}
        steps += [rest[name] / flow[name] for name in names if flow[name]]
        step = min(steps)
        for child, own in rates.items():
            for name, rate in own.items():
                has[child][name] += rate * step
                lacks[child][name] -= rate * step
        short = [name for name in names if flow[name] and rest[name] == flow[name] * step]
        rates = {
            child: own
            for child, own in rates.items()
            if any(lacks[child].values()) and not any(own[name] for name in short)
        }
    return has


def unit_by_unit(scenario: Scenario) -> dict[str, dict[str, int]]:
    """Each unit to the queue that would then be lowest, by what it has beyond its guarantee for its weight."""
    found: dict[str, dict[str, int]] = {"": scenario.total, **{path: {} for path in scenario.queues}}
    for parent in ("", *sorted(scenario.queues)):
        children = scenario.children(parent)
        for name in NAMES:
            rest = found[parent][name]
            claims = scenario.claims(children, name)
            if sum(claims) > rest:
                claims = [int(Fraction(claim * rest, sum(claims))) for claim in claims]
            floors = dict(zip(children, claims, strict=True))
            for child in children:
                found[child][name] = floors[child]
            for _ in range(rest - sum(claims)):
                ranked = [
                    (Fraction(found[child][name] - floors[child] + 1, scenario.queues[child].weight), child)
                    for child in children
                    if found[child][name] < scenario.wanted(child, name)
                ]
                if ranked:
                    found[min(ranked)[1]][name] += 1
    del found[""]
    return found


PROPERTIES = [
    check_sums_stay_within_the_parents_share,
    check_nobody_gets_more_than_demand_and_ceiling,
    check_nothing_is_left_while_somebody_wants_it,
    check_guarantees_are_kept,
    check_more_weight_is_never_less,
    check_order_of_input_does_not_matter,
    check_the_same_as_unit_by_unit,
    check_dominant_shares_grow_alike,
]


@pytest.mark.parametrize("check", PROPERTIES, ids=lambda check: check.__name__.removeprefix("check_"))
def test_for_every_tree(check: Callable[[], None]) -> None:
    check()


def the_rest_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = module._shared_by_weight
    monkeypatch.setattr(module, "_shared_by_weight", lambda rest, weights, unmet: shared(rest * 2, weights, unmet))


def no_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = module._wanted
    monkeypatch.setattr(module, "_wanted", lambda children, names, demand, _: wanted(children, names, demand, {}))


def the_rest_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = module._shared_by_weight
    monkeypatch.setattr(
        module, "_shared_by_weight", lambda rest, weights, unmet: shared(max(rest - 1, 0), weights, unmet)
    )


def no_guarantees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "guarantees", lambda queues, total: {path: {} for path in queues})


def weights_upside_down(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = module._shared_by_weight
    monkeypatch.setattr(
        module,
        "_shared_by_weight",
        lambda rest, weights, unmet: shared(rest, [max(weights) + 1 - weight for weight in weights], unmet),
    )


def siblings_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_depth(items, **how):  # type: ignore[no-untyped-def]
        items = list(items)
        return sorted(items, **how) if "key" in how else sorted(items, key=lambda path: path.count("."), **how)

    monkeypatch.setattr(module, "sorted", by_depth, raising=False)


def weights_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = module._shared_by_weight
    monkeypatch.setattr(
        module, "_shared_by_weight", lambda rest, weights, unmet: shared(rest, [1] * len(weights), unmet)
    )


def each_resource_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_by_dominant_share", lambda rest, total, weights, lacks: [{} for _ in lacks])


@pytest.mark.parametrize(
    ("mutation", "check"),
    [
        (the_rest_given_twice, check_sums_stay_within_the_parents_share),
        (no_ceilings, check_nobody_gets_more_than_demand_and_ceiling),
        (the_rest_kept, check_nothing_is_left_while_somebody_wants_it),
        (no_guarantees, check_guarantees_are_kept),
        (weights_upside_down, check_more_weight_is_never_less),
        (siblings_as_they_come, check_order_of_input_does_not_matter),
        (weights_ignored, check_the_same_as_unit_by_unit),
        (the_rest_kept, check_the_same_as_unit_by_unit),
        (each_resource_by_itself, check_dominant_shares_grow_alike),
    ],
)
def test_a_broken_division_is_noticed(
    monkeypatch: pytest.MonkeyPatch, mutation: Callable[[pytest.MonkeyPatch], None], check: Callable[[settings], None]
) -> None:
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        check(UNSHRUNK)
