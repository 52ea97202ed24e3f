"""Places a gang whole or not at all.

Equal tasks are placed by counting how many each node has room for, so the work grows with nodes, not with tasks.
For a gang of one group the answer is exact. Several groups together are a packing problem: they are tried from
the hardest to the easiest, then in a few orders drawn from the seed, so that each cycle tries others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gosched.core.command import GangPlacement, TaskPlacement
from gosched.core.job import Strategy
from gosched.scheduling.room import Room
from gosched.scheduling.view import GPU, Ask, BoolArray, IntArray, PendingGang

TRIES = 8  # for a gang whose groups fit alone but not together

_NEVER = np.iinfo(np.int64).max

Share = tuple[IntArray, IntArray]  # rows, and how many tasks on each; in order of rank


def place(gang: PendingGang, room: Room, strategy: Strategy, seed: int) -> GangPlacement | None:
    """Takes from the room what it places; a gang that does not fit takes nothing."""
    if not room.may_hold(gang):
        return None
    for order, shuffled in _tries(gang, room, seed):
        shares = _try(gang, order, room, strategy, shuffled)
        if shares is not None:
            return _named(gang, shares, room)
    return None


def _tries(gang: PendingGang, room: Room, seed: int) -> Iterator[tuple[Sequence[int], IntArray | None]]:
    """Orders of the groups; from the second on also an order of the nodes."""
    if len(gang.asks) == 1:
        yield (0,), None
        return
    spots = [int(room.slots(ask).sum()) for ask in gang.asks]
    if any(spot < ask.count for spot, ask in zip(spots, gang.asks, strict=True)):
        return
    slack = [spot * 1000 // ask.count for spot, ask in zip(spots, gang.asks, strict=True)]
    yield sorted(range(len(slack)), key=lambda i: (slack[i], i)), None
    draw = np.random.default_rng([seed, gang.sequence])
    for _ in range(TRIES - 1):
        yield draw.permutation(len(gang.asks)).tolist(), draw.permutation(len(room.nodes))


def _try(
    gang: PendingGang, order: Sequence[int], room: Room, strategy: Strategy, shuffled: IntArray | None
) -> list[Share] | None:
    shares: dict[int, Share] = {}
    for index in order:
        ask = gang.asks[index]
        share = _share(ask, room, ask.strategy or strategy, shuffled)
        if share is None:
            for done, (rows, counts) in shares.items():
                room.take(gang.asks[done], rows, -counts)
            return None
        room.take(ask, *share)
        shares[index] = share
    return [shares[index] for index in range(len(gang.asks))]


def _share(ask: Ask, room: Room, strategy: Strategy, shuffled: IntArray | None) -> Share | None:
    """How the tasks of one group fall on the nodes."""
    prefer = room.preference(strategy, ask.each[GPU] > 0) if shuffled is None else shuffled
    if ask.count == 1:
        return _one(room.fits(ask), prefer)
    slots = room.slots(ask)
    if int(slots.sum()) < ask.count:
        return None
    if strategy is Strategy.SPREAD:
        return _evenly(slots, prefer, ask.count)
    return _greedily(slots, prefer, ask.count)


def _one(fits: BoolArray, prefer: IntArray) -> Share | None:
    if not fits.any():
        return None
    return np.array([np.where(fits, prefer, _NEVER).argmin()]), np.array([1])


def _greedily(slots: IntArray, prefer: IntArray, count: int) -> Share:
    """Fills the best node, then the next."""
    rows = _best(np.flatnonzero(slots), prefer, count)
    upto = np.cumsum(slots[rows])
    used = int(np.searchsorted(upto, count)) + 1
    counts = slots[rows[:used]]
    counts[-1] -= upto[used - 1] - count
    return rows[:used], counts


def _evenly(slots: IntArray, prefer: IntArray, count: int) -> Share:
    """Every node the same number, as far as it has room; what is left over goes to the best ones, one each."""
    level = _level(slots, count)
    counts = np.minimum(slots, level)
    left = count - int(counts.sum())
    counts[_best(np.flatnonzero(slots > level), prefer, left)[:left]] += 1
    rows = np.flatnonzero(counts)
    rows = rows[np.argsort(prefer[rows])]
    return rows, counts[rows]


def _level(slots: IntArray, count: int) -> int:
    """The highest level at which min(slots, level) is at most `count` in all; by bisection."""
    low, high = 0, count
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.minimum(slots, middle).sum()) <= count:
            low = middle
        else:
            high = middle - 1
    return low


def _best(rows: IntArray, prefer: IntArray, count: int) -> IntArray:
    """The `count` most preferred of the rows (fewer when there are fewer), best first."""
    if count < len(rows):
        rows = rows[np.argpartition(prefer[rows], count - 1)[:count]]
    return rows[np.argsort(prefer[rows])]


def _named(gang: PendingGang, shares: list[Share], room: Room) -> GangPlacement:
    """Ranks count through the groups; neighbours in rank stand on the same node."""
    tasks: list[TaskPlacement] = []
    for ask, (rows, counts) in zip(gang.asks, shares, strict=True):
        gpus = room.gpus_of(ask)
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            node_id = room.nodes.ids[row]
            for _ in range(count):
                named = room.name_gpus(row, gpus) if gpus else ()
                tasks.append(TaskPlacement(rank=len(tasks), node_id=node_id, gpus=named))
    return GangPlacement(job_id=gang.job_id, attempt=gang.attempt, tasks=tuple(tasks))
