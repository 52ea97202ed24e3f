"""The compact division of tasks, against the same without its short way through levels of one domain."""

from __future__ import annotations

import numpy as np
import pytest

from gosched.scheduling.placement import task_split
from gosched.scheduling.placement.task_split import Share, compactly
from gosched.scheduling.snapshot.view import IntArray


def by_levels(slots: IntArray, keys: IntArray, count: int, codes: list[IntArray]) -> Share:
    if not codes:
        return task_split.greedily(slots, keys, count)
    inside = np.flatnonzero(slots > 0)
    domains, where = np.unique(codes[0][inside], return_inverse=True)
    capacity = np.bincount(where, weights=slots[inside]).astype(np.int64)
    best_keys = np.array([keys[inside[where == d]].min() for d in range(len(domains))], dtype=np.int64)
    shares = []
    for domain, number in task_split._fewest(capacity, best_keys, count):
        members = inside[where == domain]
        here = np.zeros_like(slots)
        here[members] = slots[members]
        one = (members, np.array([number]))
        shares.append(one if len(members) == 1 else by_levels(here, keys, number, codes[1:]))
    return np.concatenate([rows for rows, _ in shares]), np.concatenate([counts for _, counts in shares])


@pytest.mark.parametrize("seed", range(100))
def test_levels_of_one_domain_change_nothing(seed: int) -> None:
    draw = np.random.default_rng(seed)
    nodes, racks = 24, int(draw.integers(1, 5))
    rack = draw.integers(0, racks, nodes)
    codes = [rack // 2, rack, np.arange(nodes)]
    here = rack == rack[0] if seed % 2 else np.ones(nodes, dtype=np.bool_)
    slots = np.where(here, draw.integers(0, 4, nodes), 0)
    if not slots.any():
        slots[0] = 1
    keys = draw.permutation(nodes)
    count = int(draw.integers(1, int(slots.sum()) + 1))
    found, expected = compactly(slots, keys, count, codes), by_levels(slots, keys, count, codes)
    assert [part.tolist() for part in found] == [part.tolist() for part in expected]
