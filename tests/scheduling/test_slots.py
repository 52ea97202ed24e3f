"""Slots that are counted on a few nodes equal those that are counted on all."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gosched.scheduling.placement.free_capacity import FreeCapacity
from tests.scheduling.support.cluster import group, job, node, view_of


@pytest.mark.parametrize("seed", range(30))
def test_a_few_allowed_nodes_have_the_slots_that_they_have_among_all(seed: int) -> None:
    draw = random.Random(seed)
    draws = [[draw.randint(0, most) for most in (9, 9, 3)] for _ in range(40)]
    nodes = [node(f"n{i:02}", cpu=cpu, mem=mem, gpu=gpu) for i, (cpu, mem, gpu) in enumerate(draws)]
    wanted = group(count=draw.randint(1, 6), cpu=draw.randint(0, 2), mem=draw.randint(0, 2), gpu=draw.randint(0, 1))
    view = view_of(nodes, [job(1, wanted)])
    request, capacity = view.pending[0].requests[0], FreeCapacity(view.nodes)
    everywhere = capacity.slots(request, np.ones(40, dtype=np.bool_))
    few = np.array([draw.random() < 0.1 for _ in range(40)])
    assert capacity.slots(request, few).tolist() == np.where(few, everywhere, 0).tolist()
    assert everywhere.max() <= wanted.count
