"""Which running tasks free places for a group of tasks at the lowest price.

Invariant: a node's tasks are chosen in the order of their cost; no more are chosen than the group lacks places.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

import numpy as np

from gosched.scheduling.snapshot.occupancy import Occupied
from gosched.scheduling.snapshot.running_gangs import RunningGang
from gosched.scheduling.snapshot.task_requests import TaskRequest
from gosched.scheduling.snapshot.view import IntArray


class _Step(NamedTuple):
    """The next tasks of a node, up to where a place costs least. Steps compare by that price, then by their tasks."""

    price_per_place: float
    #: The first and the last of its tasks, in the order by node and cost.
    first: int
    last: int
    #: Where the tasks of its node begin and end.
    begin: int
    end: int


def cheapest_tasks(
    request: TaskRequest,
    free: IntArray,
    held: Occupied[RunningGang],
    cost: IntArray,
    candidates: IntArray,
    wanted: int,
) -> IntArray:
    """Return those of the candidates that free `wanted` more places for the group at the lowest price; fewer places if
    all of them free no more. Of tasks that cost the same the last ranks come first. Devices are left to the simulation.
    """
    own = candidates[np.lexsort((-held.rank[candidates], cost[candidates], held.row[candidates]))]
    # As plain integers: a node has a few candidates, for which an operation on arrays takes several times as long.
    gained, price = [column.tolist() for column in _gains(request, free, held, cost, own)]
    borders = np.flatnonzero(np.diff(held.row[own], prepend=-1, append=-1)).tolist()
    steps = [_step(gained, price, begin, begin, end) for begin, end in pairwise(borders)]
    ahead = [step for step in steps if step is not None]
    heapq.heapify(ahead)
    picked: list[IntArray] = []
    while ahead and wanted > 0:
        _, first, last, begin, end = heapq.heappop(ahead)
        before = gained[first - 1] if first > begin else 0
        last = min(last, bisect_left(gained, before + wanted, first, end))  # no more than is missing
        picked.append(own[first : last + 1])
        wanted -= gained[last] - before
        following = _step(gained, price, begin, last + 1, end)
        if following is not None:
            heapq.heappush(ahead, following)
    return np.concatenate(picked) if picked else own[:0]


def places_for(request: TaskRequest, free: IntArray, held: Occupied[RunningGang], tasks: IntArray) -> int:
    """Return how many more of the group's tasks fit on the nodes of these tasks once all of them are evicted. Devices
    are left to the simulation."""
    rows, number = np.unique(held.row[tasks], return_inverse=True)
    before, after = [np.full(len(rows), 1 << 40, dtype=np.int64) for _ in range(2)]
    for column, amount in enumerate(request.each):
        if amount:
            now, more = np.maximum(free[rows, column], 0), np.zeros(len(rows), dtype=np.int64)
            np.add.at(more, number, held.amounts[tasks, column])
            np.minimum(before, now // amount, out=before)
            np.minimum(after, (now + more) // amount, out=after)
    return int((after - before).sum())


def _step(gained: Sequence[int], price: Sequence[int], begin: int, first: int, end: int) -> _Step | None:
    """Return the step that begins with the task `first` of a node, the longest of the cheapest ones; None: what is left
    there frees no place."""
    before, paid = (gained[first - 1], price[first - 1]) if first > begin else (0, 0)
    lowest, last = inf, -1
    for task in range(first, end):
        more = gained[task] - before
        if more > 0 and (ratio := (price[task] - paid) / more) <= lowest:
            lowest, last = ratio, task
    return _Step(lowest, first, last, begin, end) if last >= 0 else None


def _gains(
    request: TaskRequest, free: IntArray, held: Occupied[RunningGang], cost: IntArray, own: IntArray
) -> tuple[IntArray, IntArray]:
    """Return for each task, in the order given (by node), how many more of the group's tasks fit on its node once it
    and those before it on the node are evicted, and what all these cost. Devices are left to the simulation."""
    rows = held.row[own]
    starts = np.concatenate([[True], rows[1:] != rows[:-1]])
    offset = np.maximum.accumulate(np.where(starts, np.arange(len(own)), 0))
    gained = np.full(len(own), 1 << 40, dtype=np.int64)
    at_first = gained.copy()
    for column, amount in enumerate(request.each):
        if amount:
            total = np.cumsum(held.amounts[own, column])
            here = total - (total - held.amounts[own, column])[offset]
            now = np.maximum(free[rows, column], 0)
            np.minimum(gained, (now + here) // amount, out=gained)
            np.minimum(at_first, now // amount, out=at_first)
    costs = np.cumsum(cost[own])
    price = costs - (costs - cost[own])[offset]
    return gained - at_first, price
