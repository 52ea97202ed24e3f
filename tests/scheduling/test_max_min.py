"""The fluid fair shares that judge the planner in benchmarks/mixes.py: the paper's example, and what the brute force
comes to when jobs are small."""

from __future__ import annotations

import pytest

from benchmarks.max_min import ShareNode, dominant_share, max_min_shares
from tests.scheduling.reference_policy import ReferenceQueue, running_jobs


def leaf(path: str, weight: float = 1, guarantee: float = 0, ceiling: float = 1) -> ShareNode:
    return ShareNode(path=path, weight=weight, guarantee=guarantee, ceiling=ceiling)


def root(*children: ShareNode) -> ShareNode:
    return ShareNode(path="", children=children)


def test_the_example_of_the_paper_has_equal_dominant_shares() -> None:
    found = max_min_shares(root(leaf("a"), leaf("b")), (9, 18), {"a": (100, 400), "b": (300, 100)})
    assert found["a"] == pytest.approx((3, 12), rel=1e-5)
    assert found["b"] == pytest.approx((6, 2), rel=1e-5)


def test_what_a_queue_does_not_want_goes_to_the_others_by_weight() -> None:
    tree = root(leaf("a", weight=2), leaf("b"), leaf("c"))
    found = max_min_shares(tree, (100,), {"a": (90,), "b": (90,), "c": (10,)})
    assert [found[path][0] for path in "abc"] == pytest.approx([60, 30, 10], rel=1e-5)


def test_a_queue_whose_resource_is_used_up_stops_while_others_grow() -> None:
    tree = root(leaf("a"), leaf("b"), leaf("c"))
    found = max_min_shares(tree, (100, 10), {"a": (1, 10), "b": (1, 10), "c": (100, 0)})
    assert [dominant_share(found[path], (100, 10)) for path in "abc"] == pytest.approx([0.5, 0.5, 0.99], abs=1e-4)


def test_nothing_is_given_where_nothing_is_wanted() -> None:
    assert max_min_shares(root(leaf("a"), leaf("b")), (8,), {"a": (0,), "b": (0,)}) == {"a": (0,), "b": (0,)}


def test_guarantees_ceilings_and_levels_are_those_of_the_brute_force() -> None:
    below = (leaf("x.a", weight=3), leaf("x.b", guarantee=0.1))
    x = ShareNode(path="x", guarantee=0.2, ceiling=0.6, children=below)
    tree = root(x, leaf("y", weight=2), leaf("z", guarantee=0.3))
    queues = (
        ReferenceQueue(path="x", guarantee_pct=20, ceiling_pct=60),
        ReferenceQueue(path="x.a", weight=3),
        ReferenceQueue(path="x.b", guarantee_pct=50),
        ReferenceQueue(path="y", weight=2),
        ReferenceQueue(path="z", guarantee_pct=30),
    )
    paths = ("x.a", "x.b", "y", "z")
    found = max_min_shares(tree, (1000,), dict.fromkeys(paths, (2000,)))
    counted = running_jobs((1000,), queues, {path: [(1,)] * 2000 for path in paths})
    assert [found[path][0] for path in paths] == pytest.approx([counted[path] for path in paths], abs=2)
