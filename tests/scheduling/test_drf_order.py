"""DRF order: the textbook's examples, and a naive reckoning that computes everything anew at each turn.

A mutation breaks the turns on purpose; the check that should notice it must.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gosched.core.resources import AmountMap
from gosched.core.sharing import lineage
from gosched.scheduling.fairness import drf_order as module
from gosched.scheduling.fairness.drf_order import ONE, Claim, DrfOrder, Line

SETTINGS = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow],
)
UNSHRUNK = settings(SETTINGS, phases=[Phase.generate])

Uses = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Gang:
    name: str
    charge: AmountMap = ()


def line(queue: str, charges: Iterable[Mapping[str, int]], tenant: str = "") -> Line[Gang]:
    who = tenant or queue
    return Line(queue, tenant, [Gang(f"{who}{i}", tuple(sorted(each.items()))) for i, each in enumerate(charges, 1)])


def placed_in_turn(
    lines: list[Line[Gang]],
    total: Mapping[str, int],
    claims: Mapping[str, Claim] | None = None,
    used: Uses | None = None,
) -> list[str]:
    order, names = DrfOrder(lines, total, claims or {}, used or {}), []
    while (gang := order.next()) is not None:
        names.append(gang.name)
        order.placed(dict(gang.charge))
    return names


def test_the_example_of_the_paper_ends_with_equal_dominant_shares() -> None:
    total = {"cpu": 9, "memory": 18}
    lines = [line("A", [{"cpu": 1, "memory": 4}] * 9), line("B", [{"cpu": 3, "memory": 1}] * 9)]
    order, free, placed = DrfOrder(lines, total, {}, {}), dict(total), []
    while (gang := order.next()) is not None:
        if all(free[name] >= amount for name, amount in gang.charge):
            free = {name: free[name] - amount for name, amount in gang.charge}
            placed.append(gang.name)
            order.placed(dict(gang.charge))
        else:
            order.passed()
    assert sorted(placed) == ["A1", "A2", "A3", "B1", "B2"]


def test_twice_the_weight_gets_two_turns_to_one() -> None:
    lines = [line("a", [{"cpu": 1}] * 6), line("b", [{"cpu": 1}] * 3)]
    assert placed_in_turn(lines, {"cpu": 90}, {"a": Claim(weight=2)}) == [
        *("a1", "a2", "b1"),
        *("a3", "a4", "b2"),
        *("a5", "a6", "b3"),
    ]


def test_guarantees_come_first_and_all_in_proportion() -> None:
    lines = [line("a", [{"cpu": 1}] * 7), line("b", [{"cpu": 1}] * 4), line("c", [{"cpu": 1}] * 2)]
    claims = {"a": Claim(guaranteed={"cpu": 6}), "b": Claim(guaranteed={"cpu": 3})}
    assert placed_in_turn(lines, {"cpu": 90}, claims) == [
        *("a1", "a2", "b1", "a3", "a4", "b2", "a5", "a6", "b3"),
        *("a7", "b4", "c1", "c2"),
    ]


def test_a_head_beyond_the_guarantee_is_weighed_like_any_other() -> None:
    lines = [line("a", [{"cpu": 9}]), line("b", [{"cpu": 3}, {"cpu": 3}])]
    assert placed_in_turn(lines, {"cpu": 90}, {"a": Claim(guaranteed={"cpu": 5})}) == ["b1", "a1", "b2"]


def test_a_guarantee_of_one_resource_says_nothing_of_another() -> None:
    lines = [line("a", [{"gpu": 1, "cpu": 9}]), line("b", [{"cpu": 3}])]
    assert placed_in_turn(lines, {"cpu": 90, "gpu": 8}, {"a": Claim(guaranteed={"gpu": 4})}) == ["b1", "a1"]


def test_each_level_takes_turns_by_itself() -> None:
    lines = [line("a.x.1", [{"cpu": 1}] * 2), line("a.y.1", [{"cpu": 1}] * 2), line("b.x.1", [{"cpu": 1}] * 4)]
    assert placed_in_turn(lines, {"cpu": 40}) == [
        *("a.x.11", "b.x.11", "a.y.11", "b.x.12"),
        *("a.x.12", "b.x.13", "a.y.12", "b.x.14"),
    ]


def test_tenants_of_a_queue_take_turns_by_what_each_uses_in_it() -> None:
    lines = [line("q", [{"cpu": 1}] * 3, "ann"), line("q", [{"cpu": 1}] * 3, "bob")]
    names = placed_in_turn(lines, {"cpu": 10}, {}, {"q": {"cpu": 2}, "q/ann": {"cpu": 2}})
    assert names == ["bob1", "bob2", "ann1", "bob3", "ann2", "ann3"]


def test_a_queue_with_a_huge_head_waits_behind_one_with_a_small_head() -> None:
    lines = [line("a", [{"cpu": 50}]), line("b", [{"cpu": 20}, {"cpu": 20}, {"cpu": 20}])]
    assert placed_in_turn(lines, {"cpu": 100}) == ["b1", "b2", "a1", "b3"]


def test_who_needs_what_there_is_not_comes_last() -> None:
    lines = [line("a", [{"gpu": 1}]), line("b", [{"cpu": 9}])]
    assert placed_in_turn(lines, {"cpu": 1}) == ["b1", "a1"]


def test_a_head_that_may_not_start_does_not_count() -> None:
    lines = [line("a", [{"cpu": 50}, {"cpu": 10}]), line("b", [{"cpu": 20}] * 2)]
    order = DrfOrder(lines, {"cpu": 100}, {}, {}, lambda gang: gang.name != "a1")
    assert order.next() == Gang("a1", (("cpu", 50),))
    order.passed()
    assert order.next() == Gang("a2", (("cpu", 10),))


def test_gangs_that_ask_for_nothing_add_nothing() -> None:
    lines = [line("a", [{}, {"cpu": 1}]), line("b", [{"cpu": 1}])]
    assert placed_in_turn(lines, {"cpu": 9}) == ["a1", "a2", "b1"]


def test_single_gpu_models_are_left_out() -> None:
    lines = [line("a", [{"gpu": 1, "gpu:h100": 1}]), line("b", [{"gpu": 2}])]
    assert placed_in_turn(lines, {"gpu": 9, "gpu:h100": 1}) == ["a1", "b1"]
    claims = {"a": Claim(guaranteed={"gpu": 4}), "b": Claim(guaranteed={"gpu": 4})}
    assert placed_in_turn(lines, {"gpu": 9, "gpu:h100": 1}, claims) == ["a1", "b1"]


def test_one_that_is_passed_uses_nothing() -> None:
    order = DrfOrder([line("a", [{"cpu": 5}] * 3), line("b", [{"cpu": 6}])], {"cpu": 18}, {}, {})
    order.passed()
    order.passed()
    assert order.next() == Gang("a3", (("cpu", 5),))


def test_no_lines_and_empty_lines_have_no_turn() -> None:
    assert DrfOrder([], {}, {}, {}).next() is None
    assert placed_in_turn([line("a", []), line("b", [{"cpu": 1}])], {}) == ["b1"]


class Naive:
    """The definition: at each turn every level of every queue, by division."""

    def __init__(
        self, lines: list[Line[Gang]], total: Mapping[str, int], claims: Mapping[str, Claim], used: Uses
    ) -> None:
        self.lines = [(each.queue, each.tenant, list(each.gangs)) for each in lines]
        self.total = total
        self.claims = claims
        self.used = {path: dict(amounts) for path, amounts in used.items()}

    def next(self) -> Gang | None:
        best = self._best("")
        return best[2][0] if best else None

    def placed(self, charge: Mapping[str, int]) -> None:
        queue, tenant, gangs = self._best("")
        for key in (*lineage(queue), f"{queue}/{tenant}"):
            mine = self.used.setdefault(key, {})
            for name, amount in charge.items():
                mine[name] = mine.get(name, 0) + amount
        del gangs[0]

    def passed(self) -> None:
        self.placed({})

    def _best(self, parent: str) -> tuple[str, str, list[Gang]]:
        inside = [each for each in self.lines if each[2] and (not parent or f"{each[0]}.".startswith(f"{parent}."))]
        found = []
        for each in inside:
            if each[0] == parent:
                key, name, claim = f"{parent}/{each[1]}", each[1], Claim()
            else:
                key = name = lineage(each[0])[len(lineage(parent)) if parent else 0]
                each, claim = self._best(name), self.claims.get(name, Claim())
            found.append((self._level(key, claim, each[2][0].charge), name, each))
        return min(found)[2] if found else ()

    def _level(self, key: str, claim: Claim, charge: AmountMap) -> int:
        held = dict(self.used.get(key, {}))
        for name, amount in charge:
            held[name] = held.get(name, 0) + amount
        levels = [-ONE]
        for name, amount in held.items():
            if amount and not name.startswith("gpu:"):
                floor, total = claim.guaranteed.get(name, 0), self.total.get(name, 0) * claim.weight
                if amount <= floor:
                    levels.append(math.floor(Fraction(amount * ONE, floor)) - ONE)
                else:
                    levels.append((amount - floor) * ONE // total if total else 1 << 100)
        return max(levels)


@dataclass(frozen=True)
class Scenario:
    lines: list[Line[Gang]]
    total: dict[str, int]
    claims: dict[str, Claim]
    used: dict[str, dict[str, int]]
    seed: int

    def followed(self, order: DrfOrder[Gang] | Naive) -> list[str]:
        """The names in turn; what becomes of each is drawn from the seed."""
        draw, names = random.Random(self.seed), []
        while (gang := order.next()) is not None:
            names.append(gang.name)
            match draw.choice(["placed", "placed", "placed", "grown", "passed"]):
                case "placed":
                    order.placed(dict(gang.charge))
                case "grown":
                    order.placed({name: amount * 2 for name, amount in reversed(gang.charge)})
                case _:
                    order.passed()
        return names

    def expected(self) -> list[str]:
        return self.followed(Naive(self.lines, self.total, self.claims, self.used))

    def found(self) -> list[str]:
        return self.followed(DrfOrder(self.lines, self.total, self.claims, self.used))


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    most = draw(st.sampled_from([3, 20, 1 << 60]))
    charges = st.dictionaries(st.sampled_from(["cpu", "gpu", "gpu:h100", "memory"]), st.integers(1, most), max_size=3)
    totals = st.fixed_dictionaries(
        {"cpu": st.integers(0, most), "memory": st.integers(1, most)}, optional={"gpu": st.integers(1, most)}
    )
    claims = st.builds(Claim, st.integers(1, 3), st.one_of(st.just({}), totals))
    lines = []
    for queue in draw(st.lists(st.sampled_from(["a.x", "a.y", "a-b", "b.x.1", "b.x.2", "b.y", "c"]), unique=True)):
        for tenant in draw(st.sampled_from([[""], ["ann"], ["ann", "bob"], ["", "bob", "cyn"]])):
            repeated = draw(st.lists(st.tuples(charges, st.integers(1, 3)), max_size=4))
            lines.append(line(queue, [charge for charge, times in repeated for _ in range(times)], tenant))
    lines = [Line(own.queue, own.tenant, [Gang(f"{own.queue}/{g.name}", g.charge) for g in own.gangs]) for own in lines]
    paths = sorted({path for own in lines for path in lineage(own.queue)})
    users = [*paths, *[f"{own.queue}/{own.tenant}" for own in lines]]
    used = {key: draw(charges) for key in users if draw(st.booleans())}
    own = {path: draw(claims) for path in paths if draw(st.booleans())}
    return Scenario(lines, draw(totals), own, used, draw(st.integers(0, 1000)))


def check_the_same_as_computing_everything_anew(rules: settings = SETTINGS) -> None:
    seen = 0

    @rules
    @given(scenarios())
    def check(scenario: Scenario) -> None:
        nonlocal seen
        names = scenario.found()
        seen += len(scenario.lines) > 2 and len(names) > 5
        assert names == scenario.expected()

    check()
    assert seen > 40


def check_order_of_input_does_not_matter(rules: settings = SETTINGS) -> None:
    @rules
    @given(scenarios())
    def check(scenario: Scenario) -> None:
        lines = list(scenario.lines)
        random.Random(scenario.seed).shuffle(lines)
        claims, used = dict(reversed(scenario.claims.items())), dict(reversed(scenario.used.items()))
        assert Scenario(lines, scenario.total, claims, used, scenario.seed).found() == scenario.found()

    check()


def check_each_line_keeps_its_order(rules: settings = SETTINGS) -> None:
    @rules
    @given(scenarios())
    def check(scenario: Scenario) -> None:
        names = placed_in_turn(scenario.lines, scenario.total, scenario.claims, scenario.used)
        places = {name: place for place, name in enumerate(names)}
        assert len(places) == len(names) == sum(len(own.gangs) for own in scenario.lines)
        for own in scenario.lines:
            mine = [places[gang.name] for gang in own.gangs]
            assert mine == sorted(mine)

    check()


@pytest.mark.parametrize(
    "check",
    [
        check_the_same_as_computing_everything_anew,
        check_order_of_input_does_not_matter,
        check_each_line_keeps_its_order,
    ],
    ids=lambda check: check.__name__.removeprefix("check_"),
)
def test_for_every_tree(check: Callable[[], None]) -> None:
    check()


def head_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    level = module._Node.level

    def without(node, charge):  # type: ignore[no-untyped-def]
        level(node, charge)
        return node.floor >> module._SHIFT

    monkeypatch.setattr(module._Node, "level", without)


def use_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._Node, "use_tried", lambda node, charge: None)


def elastic_use_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    use = module._Node.use
    monkeypatch.setattr(module._Node, "use", lambda node, charge: None if node.charge else use(node, charge))


def parents_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def rise(order, node):  # type: ignore[no-untyped-def]
        parent = node.parent
        if parent is not None and parent.others:
            entry = (node.level(node.leaf.charge), node.key, node)
            parent.leaf = module.heapq.heappushpop(parent.others, entry)[2].leaf
        while node.parent is not None:
            node = node.parent
        order._leaf = node.leaf

    monkeypatch.setattr(DrfOrder, "_update_winners", rise)


def rounded_reciprocals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SHIFT", 8)
    monkeypatch.setattr(module, "_NOTHING", module.INFINITE << 8)
    monkeypatch.setattr(module, "_LOWEST", -module.ONE << 8)


def first_come_first_among_equals(monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter(range(1 << 30))
    start = module._Node.__init__

    def as_they_come(node, key, *rest):  # type: ignore[no-untyped-def]
        start(node, f"{next(made):09}", *rest)

    monkeypatch.setattr(module._Node, "__init__", as_they_come)


def last_gang_first(monkeypatch: pytest.MonkeyPatch) -> None:
    stand = module._Node.set_gangs
    monkeypatch.setattr(module._Node, "set_gangs", lambda node, gangs, may_start: stand(node, gangs[::-1], may_start))


@pytest.mark.parametrize(
    ("mutation", "check"),
    [
        (head_left_out, check_the_same_as_computing_everything_anew),
        (use_forgotten, check_the_same_as_computing_everything_anew),
        (elastic_use_forgotten, check_the_same_as_computing_everything_anew),
        (parents_not_told, check_the_same_as_computing_everything_anew),
        (rounded_reciprocals, check_the_same_as_computing_everything_anew),
        (first_come_first_among_equals, check_order_of_input_does_not_matter),
        (last_gang_first, check_each_line_keeps_its_order),
        (head_left_out, test_a_queue_with_a_huge_head_waits_behind_one_with_a_small_head),
    ],
)
def test_broken_turns_are_noticed(
    monkeypatch: pytest.MonkeyPatch, mutation: Callable[[pytest.MonkeyPatch], None], check: Callable[..., None]
) -> None:
    mutation(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):  # a queue that is not asked has no cells for a new resource
        check(UNSHRUNK) if check.__name__.startswith("check_") else check()
