"""How equal tasks fall on nodes that have so many slots each: pure arithmetic on columns.

Rule: `count` tasks are handed out exactly, never more to a node than it has slots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gosched.scheduling.snapshot.labels import IntArray

Share = tuple[IntArray, IntArray]  # rows, and how many tasks on each

NONE: Share = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def greedily(slots: IntArray, keys: IntArray, count: int) -> Share:
    """Fills the best node, then the next. There are enough slots."""
    if not count:
        return NONE
    rows = best(np.flatnonzero(slots), keys, count)
    upto = np.cumsum(slots[rows])
    used = int(np.searchsorted(upto, count)) + 1
    counts = slots[rows[:used]]
    counts[-1] -= upto[used - 1] - count
    return rows[:used], counts


def evenly(slots: IntArray, keys: IntArray, count: int) -> Share:
    """Every node the same number, as far as it has room; what is left over goes to the best ones, one each."""
    counts = np.minimum(slots, level(slots, count))
    left = count - int(counts.sum())
    counts[best(np.flatnonzero(slots > counts), keys, left)[:left]] += 1
    rows = np.flatnonzero(counts)
    return rows, counts[rows]


def compactly(slots: IntArray, keys: IntArray, count: int, codes: Sequence[IntArray]) -> Share:
    """Into the fewest domains of each level (`codes`, widest first; the last are the nodes): the largest first, but the
    last one is the smallest that holds the rest."""
    if not codes:
        return greedily(slots, keys, count)
    inside = np.flatnonzero(slots > 0)
    domains, where = np.unique(codes[0][inside], return_inverse=True)
    capacity = np.bincount(where, weights=slots[inside]).astype(np.int64)
    liked = np.full(len(domains), np.iinfo(np.int64).max)
    np.minimum.at(liked, where, keys[inside])
    rows: list[IntArray] = []
    counts: list[IntArray] = []
    for domain, number in _fewest(capacity, liked, count):
        here = np.zeros_like(slots)
        members = inside[where == domain]
        here[members] = slots[members]
        if len(members) == 1:
            rows.append(members)
            counts.append(np.array([number]))
            continue
        share = compactly(here, keys, number, codes[1:])
        rows.append(share[0])
        counts.append(share[1])
    return (np.concatenate(rows), np.concatenate(counts)) if rows else NONE


def _fewest(capacity: IntArray, liked: IntArray, count: int) -> list[tuple[int, int]]:
    """(place, tasks) of the domains that are used."""
    order = np.lexsort((liked, -capacity)).tolist()
    sizes = capacity.tolist()
    chosen: list[tuple[int, int]] = []
    for i, place in enumerate(order):
        if count <= 0:
            break
        if sizes[place] >= count:  # the rest fits here, and so perhaps into smaller ones further on
            fitting = [p for p in order[i:] if sizes[p] >= count]
            place = min(fitting, key=lambda p: (sizes[p], int(liked[p])))
        number = min(count, sizes[place])
        chosen.append((place, number))
        count -= number
    return chosen


def by_domain(slots: IntArray, codes: IntArray, wanted: IntArray, split: Callable[[IntArray, int], Share]) -> Share:
    """`wanted[d]` tasks into each domain d, inside it by `split(slots, count)`."""
    shares = [split(np.where(codes == d, slots, 0), int(wanted[d])) for d in np.flatnonzero(wanted).tolist()]
    if not shares:
        return NONE
    return np.concatenate([rows for rows, _ in shares]), np.concatenate([counts for _, counts in shares])


def level(slots: IntArray, count: int) -> int:
    """The highest level at which min(slots, level) is at most `count` in all; by bisection."""
    low, high = 0, count
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.minimum(slots, middle).sum()) <= count:
            low = middle
        else:
            high = middle - 1
    return low


def best(rows: IntArray, keys: IntArray, count: int) -> IntArray:
    """The `count` most preferred of the rows (fewer when there are fewer), best first."""
    if 0 < count < len(rows):
        rows = rows[np.argpartition(keys[rows], count - 1)[:count]]
    return rows[np.argsort(keys[rows])]
