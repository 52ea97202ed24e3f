"""The fair share of each queue: guarantees first, the rest by weight, level by level.

Water-filling as in Ghodsi et al., "Dominant Resource Fairness" (NSDI'11), for each resource by itself.

Invariant: every amount is an integer, and as long as a queue wants more, no unit is left over.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from gosched.core.records.queue import Queue, QueueType
from gosched.core.sharing import MODEL_PREFIX, Amounts, parent_of


def fair_shares(
    queues: Mapping[str, Queue],
    total: Mapping[str, int],
    demand: Mapping[str, Mapping[str, int]],
    ceilings: Mapping[str, Mapping[str, int]],
) -> dict[str, Amounts]:
    """Return, by queue path of all levels, the share of each resource in `total`, without single GPU models.

    `demand` is what the jobs of each leaf hold and wait for; `ceilings` are those of `core.sharing.ceilings`, where a
    resource that is not named has none. A share is never above the demand or the ceiling.
    """
    names = [name for name in total if not name.startswith(MODEL_PREFIX)]
    children: dict[str, list[str]] = {}
    for path in sorted(queues):
        children.setdefault(parent_of(path), []).append(path)
    wanted = _wanted(children, names, demand, ceilings)
    shares: dict[str, Amounts] = {"": {name: total[name] for name in names}}
    for parent in ("", *sorted(queues)):  # parents come before their children
        if parent not in children:
            continue
        siblings = children[parent]
        if len(siblings) == 1:  # no other wants what it wants
            only = siblings[0]
            shares[only] = {name: min(amount, wanted[only][name]) for name, amount in shares[parent].items()}
            continue
        shares.update({path: {} for path in siblings})
        for name in names:
            parts = _divide(
                shares[parent][name], name, [queues[p] for p in siblings], [wanted[p][name] for p in siblings]
            )
            for path, part in zip(siblings, parts, strict=True):
                shares[path][name] = part
    del shares[""]
    return shares


def _wanted(
    children: Mapping[str, Sequence[str]],
    names: Sequence[str],
    demand: Mapping[str, Mapping[str, int]],
    ceilings: Mapping[str, Mapping[str, int]],
) -> dict[str, Amounts]:
    """Return, for each queue, its demand up to its ceiling.

    An inner queue wants no more than its children may use: what they may not use would be lost to its siblings.
    """
    wanted: dict[str, Amounts] = {}
    for path in sorted([path for siblings in children.values() for path in siblings], reverse=True):
        asked, ceiling = demand.get(path, {}), ceilings.get(path, {})
        if path in children:
            asked = {name: sum([wanted[child][name] for child in children[path]]) for name in names}
        wanted[path] = {name: min(asked.get(name, 0), ceiling.get(name, asked.get(name, 0))) for name in names}
    return wanted


def _divide(amount: int, name: str, siblings: Sequence[Queue], wanted: Sequence[int]) -> list[int]:
    """Divide the parent's `amount` of one resource among siblings, which are in the order of their paths."""
    guaranteed = [min(_guarantee(queue, name, amount), most) for queue, most in zip(siblings, wanted, strict=True)]
    if (guaranteed_total := sum(guaranteed)) > amount:
        guaranteed = [part * amount // guaranteed_total for part in guaranteed]
    unmet = [most - part for most, part in zip(wanted, guaranteed, strict=True)]
    more = _shared_by_weight(amount - sum(guaranteed), [queue.weight for queue in siblings], unmet)
    return [part + extra for part, extra in zip(guaranteed, more, strict=True)]


def _guarantee(queue: Queue, name: str, amount: int) -> int:
    """Return what the queue is guaranteed of one resource; an amount counts before the percentage."""
    if queue.type is not QueueType.CAPACITY:
        return 0
    return dict(queue.guaranteed).get(name, amount * queue.capacity_pct // 100)


def _shared_by_weight(rest: int, weights: Sequence[int], unmet: Sequence[int]) -> list[int]:
    """Divide `rest` by weight, to each at most its unmet demand; the sum is min(rest, all unmet demand).

    The result is that of handing out single units, each to the one whose (units got + 1) / weight is lowest, ties in
    order. It is computed in closed form up to the level that `rest` reaches if units can be split; only the last few
    units are handed out one by one.
    """
    # Fractions over weights below 2**bits differ by 2**(-2 * bits) or more: scaled, their integer parts order them.
    bits = 2 * max(weights, default=1).bit_length()
    by_level = sorted(range(len(unmet)), key=lambda i: (unmet[i] << bits) // weights[i])
    volume, filled = sum(weights), 0
    for i in by_level:
        if unmet[i] * volume > rest * weights[i]:
            break
        rest, volume, filled = rest - unmet[i], volume - weights[i], filled + 1
    unfilled = by_level[filled:]
    got = list(unmet)
    for i in unfilled:
        got[i] = rest * weights[i] // volume
    next_units = [(((got[i] + 1) << bits) // weights[i], i) for i in unfilled]
    heapq.heapify(next_units)
    for _ in range(rest - sum([got[i] for i in unfilled]) if unfilled else 0):  # fewer units than queues
        _, i = heapq.heappop(next_units)
        got[i] += 1
        if got[i] < unmet[i]:
            heapq.heappush(next_units, (((got[i] + 1) << bits) // weights[i], i))
    return got
