"""The fair share of each queue: guarantees first, the rest by dominant resource fairness, level by level.

Ghodsi et al., "Dominant Resource Fairness" (NSDI'11), of demand that can be divided: a queue gets all of its resources
in proportion to what it lacks, and for their weights all queues reach the same dominant share, each until it has all
that it lacks or until something is used up that it lacks. What is then left of a resource goes by weight to whoever
wants more of that one, since the jobs of a queue need not all be alike.

Invariant: every amount is an integer, and as long as a queue wants more, no unit is left over.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from gosched.core.records.queue import Queue
from gosched.core.sharing import MODEL_PREFIX, Amounts, guarantees, parent_of

# Levels are fractions that are scaled and rounded. An amount that rounding leaves just below a whole number is that
# number: it is as near as that to no other one, as long as amounts are below 2**96.
_FINE, _NEAR = 192, 128


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
    whole = {name: total[name] for name in names}
    floors = guarantees(queues, whole)
    shares: dict[str, Amounts] = {"": whole}
    for parent in ("", *sorted(queues)):  # parents come before their children
        siblings = children.get(parent, ())
        if len(siblings) == 1:  # no other wants what it wants
            only = siblings[0]
            shares[only] = {name: min(amount, wanted[only][name]) for name, amount in shares[parent].items()}
        elif siblings:
            found = _guaranteed(
                shares[parent], [floors[path] for path in siblings], [wanted[path] for path in siblings]
            )
            _divide(
                shares[parent], whole, [queues[path].weight for path in siblings], [wanted[p] for p in siblings], found
            )
            shares.update(zip(siblings, found, strict=True))
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


def _guaranteed(amounts: Amounts, floors: Sequence[Amounts], wanted: Sequence[Amounts]) -> list[Amounts]:
    """Return what each sibling gets of its guarantee, as far as it wants it and the parent's amounts suffice."""
    found: list[Amounts] = [{} for _ in floors]
    for name, amount in amounts.items():
        parts = [min(floor.get(name, 0), most[name]) for floor, most in zip(floors, wanted, strict=True)]
        if (together := sum(parts)) > amount:
            parts = [part * amount // together for part in parts]
        for own, part in zip(found, parts, strict=True):
            own[name] = part
    return found


def _divide(
    amounts: Amounts, total: Amounts, weights: Sequence[int], wanted: Sequence[Amounts], found: Sequence[Amounts]
) -> None:
    """Add to what siblings have got what is left of the parent's amounts."""
    lacks = [{name: most[name] - own[name] for name in amounts} for own, most in zip(found, wanted, strict=True)]
    rest = {name: amount - sum([own[name] for own in found]) for name, amount in amounts.items()}
    if sum([any(lack[name] for lack in lacks) for name in amounts]) > 1:  # of one alone the next step makes the same
        for own, lack, parts in zip(found, lacks, _by_dominant_share(rest, total, weights, lacks), strict=True):
            for name, part in parts.items():
                own[name] += part
                lack[name] -= part
                rest[name] -= part
    for name, left in rest.items():
        by_weight = _shared_by_weight(left, weights, [lack[name] for lack in lacks])
        for own, part in zip(found, by_weight, strict=True):
            own[name] += part


def _by_dominant_share(
    rest: Amounts, total: Amounts, weights: Sequence[int], lacks: Sequence[Amounts]
) -> list[Amounts]:
    """Return what each queue gets of `rest` while levels grow alike, each until its queue has all that it lacks, or
    until nothing is left of something that it lacks. A level is a dominant share in `total` for a weight."""
    lacks = [{name: amount for name, amount in lack.items() if amount and total[name]} for lack in lacks]
    full = [
        max([(amount << _FINE) // (total[name] * weight) + 1 for name, amount in lack.items()], default=0)
        for weight, lack in zip(weights, lacks, strict=True)
    ]
    # What each gets for a level, rounded up, so that no more is given than there is.
    speeds = [
        {name: (amount << _FINE) // level + 1 for name, amount in lack.items()}
        for level, lack in zip(full, lacks, strict=True)
    ]
    growing = sorted([queue for queue, level in enumerate(full) if level], key=lambda queue: full[queue], reverse=True)
    left = dict(rest)
    flow = {name: sum([speeds[queue].get(name, 0) for queue in growing]) for name in rest}
    found: list[Amounts] = [{} for _ in lacks]
    while growing:
        level, name = min([((left[name] << _FINE) // flow[name], name) for name in rest if flow[name]])
        if full[growing[-1]] <= level:
            stopped = [growing.pop()]
        else:
            stopped = [queue for queue in growing if name in lacks[queue]]
            growing = [queue for queue in growing if name not in lacks[queue]]
        for queue in stopped:
            reached = min(level + (level >> _NEAR), full[queue])
            for own, speed in speeds[queue].items():
                found[queue][own] = part = lacks[queue][own] * reached // full[queue]
                left[own] -= part
                flow[own] -= speed
    return found


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
