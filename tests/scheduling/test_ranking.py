"""The ranked order of nodes against a search of all nodes: exhausted ones are left out, and nothing else changes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from gosched.core.spec.placement_rules import Strategy
from gosched.scheduling.placement import node_orders, ranking
from gosched.scheduling.placement.least_request import LeastRequest
from gosched.scheduling.placement.node_orders import NodeOrders
from gosched.scheduling.placement.ranking import Ranked
from gosched.scheduling.snapshot.columns import Column, Vector
from gosched.scheduling.snapshot.view import BoolArray, IntArray, NodeColumns
from tests.scheduling.support.cluster import node, view_of

ROUNDS = 600
Needs = list[tuple[int, int]]


def columns(draw: random.Random, count: int) -> NodeColumns:
    nodes = view_of([node(f"n{i:03}", cpu=draw.randint(1, 16), mem=draw.randint(1, 16)) for i in range(count)]).nodes
    return replace(nodes, ready=np.array([draw.random() < 0.9 for _ in range(count)]))


def best_of_all(keys: IntArray, ready: BoolArray, free: IntArray, needs: Needs, mask: BoolArray) -> int:
    fits = ready & mask
    for column, amount in needs:
        fits &= free[:, column] >= amount
    return int(np.where(fits, keys, np.iinfo(np.int64).max).argmin()) if fits.any() else -1


def task(draw: random.Random) -> Vector:
    return draw.randint(0, 4000), draw.randint(0, 4) << 30, 0, 0


def needs_of(each: Vector) -> Needs:
    return [(column, amount) for column, amount in enumerate(each) if amount]


@pytest.mark.parametrize("strategy", [Strategy.BINPACK, Strategy.SPREAD])
@pytest.mark.parametrize("looks", [0, ROUNDS // 2])
@pytest.mark.parametrize("seed", range(8))
def test_the_best_node_is_that_of_a_search_of_all_nodes(
    seed: int, looks: int, strategy: Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_orders, "MAX_LOOKS", looks)
    monkeypatch.setattr(ranking, "_MOST_MOVED", 4)  # so that the parts are merged often
    monkeypatch.setattr(ranking, "_FIRST_CHUNK", 8)
    draw = random.Random(seed)
    nodes = columns(draw, 60)
    free = nodes.free
    orders = NodeOrders(nodes, free)
    taken: list[tuple[int, Vector]] = []
    outcomes = {"placed": 0, "missed": 0, "given": 0}
    for _ in range(ROUNDS):
        each, mask = task(draw), np.array([draw.random() < 0.8 for _ in range(60)])
        orders.serve(each)
        order = orders.ranked.get(strategy) or orders.order(strategy)
        row = order.first(needs_of(each), (mask,))
        assert row == best_of_all(orders.keys(strategy), nodes.ready, free, needs_of(each), mask)
        outcomes["placed" if row >= 0 else "missed"] += 1
        if row >= 0:
            taken.append((row, each))
            free[row, :4] -= each
            orders.move_one(row, free[row].tolist())
            orders.renew_keys(np.array([row]))
        while taken and (row < 0 or draw.random() < 0.1):  # given back: nodes that were exhausted are there again
            row, each = taken.pop(draw.randrange(len(taken)))
            free[row, :4] += each
            orders.move(np.array([row]))
            outcomes["given"] += 1
    assert min(outcomes.values()) > 10


def ranked_of(free: Sequence[int], least: int) -> Ranked:
    amounts = np.zeros((len(free), Column.CUSTOM), dtype=np.int64)
    amounts[:, Column.CPU] = free
    bound = LeastRequest()
    bound.lower_to((least, 0, 0, 0))
    rows = np.arange(len(free))
    return Ranked(amounts[:, Column.CPU] * len(free) + rows, rows, amounts, bound)


def test_exhausted_nodes_are_in_no_part_of_the_order() -> None:
    ranked = ranked_of([50, 100, 500, 300], 100)
    assert [ranked.first([(Column.CPU, amount)], ()) for amount in (100, 101, 301)] == [1, 3, 2]
    left = [99, *[0] * 6]
    ranked.move(1, 99 * 4 + 1, left)
    assert ranked.first([(Column.CPU, 1)], ()) == 3


def test_a_node_that_is_not_ready_stays_out_whatever_is_free_there() -> None:
    ranked = Ranked(np.arange(2), np.array([0]), np.full((2, Column.CUSTOM), 9), LeastRequest())
    ranked.move(1, 1, [9] * Column.CUSTOM)
    assert [ranked.first([], (np.array(mask),)) for mask in ((True, True), (False, True))] == [0, -1]


def test_the_bound_falls_to_half_of_what_a_smaller_task_asks_for() -> None:
    bound = LeastRequest()
    assert bound.lower_to((1000, 8, 0, 4000))
    assert bound.needs == [(Column.CPU, 1000), (Column.MEMORY, 8), (Column.SHARE, 1000)]
    assert not bound.lower_to((1000, 9, 1, 4000))
    assert bound.lower_to((999, 9, 1, 500))
    assert bound.needs == [(Column.CPU, 499), (Column.MEMORY, 8), (Column.SHARE, 250)]
    assert not bound.lower_to((499, 8, 0, 250))
