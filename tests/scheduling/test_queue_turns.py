"""Who gives next, against a naive reckoning that computes every level anew; and what holds of the result."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction

import pytest

from gosched.scheduling.preemption import queue_turns as module
from gosched.scheduling.preemption.queue_turns import Giver, Path, Unit, in_turn
from gosched.scheduling.snapshot.columns import Vector

TOTAL: Vector = (4000, 64 << 30, 0, 800)
PATHS: list[Path] = [("a",), ("a", "x"), ("a", "y"), ("b",), ("b", "x"), ("b", "x", "/ann"), ("b", "x", "/bob"), ("c",)]

Drawn = dict[Path, list[Vector]]


def drawn(seed: int) -> tuple[dict[Path, Giver], Drawn]:
    """Queues with what they hold, all of which they give."""
    draw = random.Random(seed)
    leaves = [path for path in PATHS if not any(other[:-1] == path for other in PATHS) and draw.random() < 0.8]
    gives: Drawn = {}
    for path in leaves:
        gives[path] = [
            (draw.randint(1, 9) * size * 10, draw.randint(1, 9) << 28, 0, draw.choice([0, 0, 10]) * size)
            for size in draw.choices([1, 1, 2, 8], k=draw.randint(0, 9))
        ]
    givers: dict[Path, Giver] = {}
    for path in PATHS:
        inside = [amounts for leaf, units in gives.items() if leaf[: len(path)] == path for amounts in units]
        if not any(leaf[: len(path)] == path for leaf in leaves):
            continue
        cpu, memory, storage, gpu = [sum(column) for column in zip((0, 0, 0, 0), *inside, strict=True)]
        units = iter([Unit([number], amounts) for number, amounts in enumerate(gives.get(path, []))])
        guaranteed = draw.choice([(0, 0, 0, 0), (500, 8 << 30, 0, 100), (0, 0, 0, 100)])
        givers[path] = Giver(
            path=path,
            held=(cpu, memory, storage, gpu),
            weight=draw.randint(1, 3),
            guaranteed=guaranteed,
            units=units,
        )
    return givers, gives


def naive(givers: dict[Path, Giver], gives: Drawn) -> list[Vector]:
    left = {path: list(units) for path, units in gives.items()}
    held = {path: list(giver.held) for path, giver in givers.items()}

    def best(parent: Path) -> Path | None:
        """Return the leaf whose turn it is."""
        if parent in left:
            return parent if left[parent] else None
        found = [
            (-level(path, left[leaf][0]), path[-1], leaf)
            for path in givers
            if path[:-1] == parent and (leaf := best(path)) is not None
        ]
        return min(found)[2] if found else None

    def level(path: Path, amounts: Vector) -> Fraction:
        giver, levels = givers[path], [Fraction(-1)]
        for has, amount, floor, whole in zip(held[path], amounts, giver.guaranteed, TOTAL, strict=True):
            middle = has - Fraction(amount, 2)
            if middle > floor:
                levels.append((middle - floor) / whole / giver.weight)
            elif floor:
                levels.append(middle / floor - 1)
        return max(levels)

    order = []
    while (leaf := best(())) is not None:
        order.append(left[leaf].pop(0))
        for length in range(1, len(leaf) + 1):
            own = held[leaf[:length]]
            held[leaf[:length]] = [has - amount for has, amount in zip(own, order[-1], strict=True)]
    return order


def check_turns() -> None:
    lengths = 0
    for seed in range(300):
        givers, gives = drawn(seed)
        expected = naive(givers, gives)
        assert [unit.amounts for unit in in_turn(list(givers.values()), TOTAL)] == expected, seed
        lengths += len(expected) > 10
    assert lengths > 100


def test_the_same_as_computing_every_level_anew() -> None:
    check_turns()


def weights_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    start = module._Node.__init__

    def equal(node, giver):  # type: ignore[no-untyped-def]
        start(node, Giver(path=giver.path, held=giver.held, weight=1, guaranteed=giver.guaranteed, units=giver.units))

    monkeypatch.setattr(module._Node, "__init__", equal)


def guarantees_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    start = module._Node.__init__

    def bare(node, giver):  # type: ignore[no-untyped-def]
        start(
            node, Giver(path=giver.path, held=giver.held, weight=giver.weight, guaranteed=(0,) * 4, units=giver.units)
        )

    monkeypatch.setattr(module._Node, "__init__", bare)


def parents_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    give = module._Node.give

    def alone(node, total):  # type: ignore[no-untyped-def]
        held = node.held
        give(node, total)
        if node.children:
            node.held = held

    monkeypatch.setattr(module._Node, "give", alone)


def lowest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    level = module._Node.level
    monkeypatch.setattr(module._Node, "level", lambda node, total: -level(node, total))


@pytest.mark.parametrize("mutation", [weights_ignored, guarantees_ignored, parents_not_told, lowest_first])
def test_broken_turns_are_noticed(
    monkeypatch: pytest.MonkeyPatch, mutation: Callable[[pytest.MonkeyPatch], None]
) -> None:
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        check_turns()
