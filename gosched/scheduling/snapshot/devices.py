"""Which GPUs and CPUs of a node a task gets.

Invariant: a task on whole GPUs stays within one island of fast links if one has enough free, the smallest such; its
CPUs are taken near its GPUs. A task on a share gets the fullest device that has enough free, so whole ones stay whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gosched.core.resources import MILLI
from gosched.scheduling.snapshot.labels import IntArray

_UNKNOWN = -1


def device_columns(gpu_free: IntArray, gpu_link: IntArray) -> IntArray:
    """Return the columns WHOLE, SHARE and LINK for each row."""
    if not gpu_free.shape[1]:
        return np.zeros((len(gpu_free), 3), dtype=np.int64)
    whole = gpu_free == MILLI
    count = whole.sum(axis=1)
    best = np.zeros_like(count)
    known = gpu_link[gpu_link != _UNKNOWN]
    for island in np.unique(known) if known.size else ():
        np.maximum(best, (whole & (gpu_link == island)).sum(axis=1), out=best)
    loose = (whole & (gpu_link == _UNKNOWN)).sum(axis=1)  # devices of no known island are one island
    return np.stack([count * MILLI, gpu_free.max(axis=1), np.maximum(best, loose) * MILLI], axis=1)


def device_columns_of_one(free: Sequence[int], links: Sequence[int]) -> tuple[int, int, int]:
    """Return the same for the devices of one node."""
    islands: dict[int, int] = {}
    for link, millis in zip(links, free, strict=True):
        if millis == MILLI:
            islands[link] = islands.get(link, 0) + MILLI
    return sum(islands.values()), max(free, default=0), max(islands.values(), default=0)


def share_slots(gpu_free: IntArray, share: int) -> IntArray:
    """Return, for each row, how many tasks fit on its devices, each on `share` (> 0) milli-GPUs of one of them."""
    slots: IntArray = (gpu_free // share).sum(axis=1)
    return slots


def choose_shared_gpu(free: Sequence[int], share: int) -> int:
    """Return the device with the least free that is enough; the lowest of equals. At least one has enough."""
    return min((millis, gpu) for gpu, millis in enumerate(free) if millis >= share)[1]


def choose_whole_gpus(
    free: Sequence[int], links: Sequence[int], count: int, among: Sequence[int] | None = None
) -> list[int]:
    """Return `count` free devices, out of `among` if given; there are as many."""
    islands: dict[int, list[int]] = {}
    for gpu in range(len(free)) if among is None else among:
        if free[gpu] == MILLI:
            islands.setdefault(links[gpu], []).append(gpu)
    fitting = [gpus for gpus in islands.values() if len(gpus) >= count]
    if fitting:
        return min(fitting, key=lambda gpus: (len(gpus), gpus[0]))[:count]
    chosen: list[int] = []
    for gpus in sorted(islands.values(), key=lambda gpus: (-len(gpus), gpus[0])):
        chosen += gpus[: count - len(chosen)]
    return sorted(chosen)


def fitting_numa_node(
    free: Sequence[int], numa: Sequence[int], cpus: Sequence[int], owned: int, gpus: int, cpu_count: int
) -> int | None:
    """Return the NUMA node with that many whole GPUs and CPUs free; of several, the one with the fewest free GPUs. None
    if there is no such node."""
    fitting = []
    for node, mask in enumerate(cpus):
        there = sum(1 for gpu, millis in enumerate(free) if millis == MILLI and numa[gpu] == node)
        spare = (mask & ~owned).bit_count()
        if there >= gpus and spare >= cpu_count:
            fitting.append((there, spare, node))
    return min(fitting)[2] if fitting else None


def choose_cpus(cpus: Sequence[int], owned: int, count: int, near: Sequence[int]) -> int:
    """Return the mask of `count` CPUs that no task owns, the lowest of each NUMA node.

    They are taken from the NUMA nodes in `near` (one entry per GPU), those of more GPUs first, then from the others.
    """
    weight = {node: near.count(node) for node in near}
    chosen = 0
    for node in sorted(range(len(cpus)), key=lambda node: (-weight.get(node, 0), node)):
        chosen |= _lowest(cpus[node] & ~owned, count - chosen.bit_count())
    return chosen


def _lowest(mask: int, count: int) -> int:
    taken = 0
    while mask and count > 0:
        bit = mask & -mask
        taken |= bit
        mask ^= bit
        count -= 1
    return taken
