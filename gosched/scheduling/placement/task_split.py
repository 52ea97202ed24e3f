"""How equal tasks are divided among nodes: pure arithmetic on columns.

`slots[row]` is how many tasks fit on a node; the node with the lowest `keys[row]` is the best.

Invariant: exactly `count` tasks are handed out, never more to a node than it has slots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gosched.scheduling.snapshot.labels import IntArray

Share = tuple[IntArray, IntArray]  # rows, and how many tasks on each

NONE: Share = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def greedily(slots: IntArray, keys: IntArray, count: int) -> Share:
    """Fill the best node, then the next. There are enough slots."""
    if not count:
        return NONE
    rows = best(np.flatnonzero(slots), keys, count)
    upto = np.cumsum(slots[rows])
    used = int(np.searchsorted(upto, count)) + 1
    counts = slots[rows[:used]]
    counts[-1] -= upto[used - 1] - count
    return rows[:used], counts


def evenly(slots: IntArray, keys: IntArray, count: int) -> Share:
    """Give every node the same number, as far as it has slots; the rest goes to the best ones, one each."""
    counts = np.minimum(slots, level(slots, count))
    left = count - int(counts.sum())
    counts[best(np.flatnonzero(slots > counts), keys, left)[:left]] += 1
    rows = np.flatnonzero(counts)
    return rows, counts[rows]


def compactly(slots: IntArray, keys: IntArray, count: int, codes: Sequence[IntArray]) -> Share:
    """Use the fewest domains of each level (`codes`, widest first; the last are the nodes): the largest first, but for
    the rest the smallest that holds it."""
    if not codes:
        return greedily(slots, keys, count)
    inside = np.flatnonzero(slots > 0)
    own = codes[0][inside]
    if len(own) > 1 and (own == own[0]).all():  # one domain, as at the levels above the one that is required
        return compactly(slots, keys, min(count, int(slots[inside].sum())), codes[1:])
    domains, where = np.unique(own, return_inverse=True)
    capacity = np.bincount(where, weights=slots[inside]).astype(np.int64)
    best_keys = np.full(len(domains), np.iinfo(np.int64).max)
    np.minimum.at(best_keys, where, keys[inside])
    rows: list[IntArray] = []
    counts: list[IntArray] = []
    for domain, number in _fewest(capacity, best_keys, count):
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


def _fewest(capacity: IntArray, best_keys: IntArray, count: int) -> list[tuple[int, int]]:
    """Return (domain, tasks) of the domains to use."""
    order = np.lexsort((best_keys, -capacity)).tolist()
    sizes = capacity.tolist()
    chosen: list[tuple[int, int]] = []
    for i, domain in enumerate(order):
        if count <= 0:
            break
        if sizes[domain] >= count:  # the rest fits here, and perhaps into smaller ones further on
            fitting = [p for p in order[i:] if sizes[p] >= count]
            domain = min(fitting, key=lambda p: (sizes[p], int(best_keys[p])))
        number = min(count, sizes[domain])
        chosen.append((domain, number))
        count -= number
    return chosen


def by_domain(slots: IntArray, codes: IntArray, wanted: IntArray, split: Callable[[IntArray, int], Share]) -> Share:
    """Put `wanted[d]` tasks into each domain d, divided inside it by `split(slots, count)`."""
    shares = [split(np.where(codes == d, slots, 0), int(wanted[d])) for d in np.flatnonzero(wanted).tolist()]
    if not shares:
        return NONE
    return np.concatenate([rows for rows, _ in shares]), np.concatenate([counts for _, counts in shares])


def level(slots: IntArray, count: int) -> int:
    """Return the highest level at which the sum of min(slots, level) is at most `count`; by bisection."""
    low, high = 0, count
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.minimum(slots, middle).sum()) <= count:
            low = middle
        else:
            high = middle - 1
    return low


def best(rows: IntArray, keys: IntArray, count: int) -> IntArray:
    """Return the `count` most preferred of the rows (fewer when there are fewer), best first."""
    if 0 < count < len(rows):
        rows = rows[np.argpartition(keys[rows], count - 1)[:count]]
    return rows[np.argsort(keys[rows])]
