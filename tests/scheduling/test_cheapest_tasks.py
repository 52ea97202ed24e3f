"""The steps by which tasks are chosen, against the same computed with arrays."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gosched.scheduling.preemption.cheapest_tasks import _Step, _step


def step_by_arrays(gained: list[int], price: list[int], begin: int, first: int, end: int) -> _Step | None:
    before, paid = (gained[first - 1], price[first - 1]) if first > begin else (0, 0)
    more = np.array(gained[first:end], dtype=np.int64) - before
    if not (more > 0).any():
        return None
    ratio = np.where(more > 0, (np.array(price[first:end]) - paid) / np.maximum(more, 1), np.inf)
    return _Step(float(ratio.min()), first, end - 1 - int(ratio[::-1].argmin()), begin, end)


@pytest.mark.parametrize("seed", range(200))
def test_a_step_is_the_longest_of_the_cheapest(seed: int) -> None:
    draw = random.Random(seed)
    tasks = draw.randint(1, 12)
    gained = np.cumsum([draw.choice((0, 0, 1, 2)) for _ in range(tasks)]).tolist()
    price = np.cumsum([draw.choice((1, 2, 7, (1 << 41) + (500 << 30))) for _ in range(tasks)]).tolist()
    begin = draw.randrange(tasks)
    for first in range(begin, tasks):
        assert _step(gained, price, begin, first, tasks) == step_by_arrays(gained, price, begin, first, tasks)
