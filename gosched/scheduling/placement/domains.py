"""Which domains a gang is tried in, and in what order.

Levels are tried from the preferred one upwards to the required one (or the whole cluster). Within a level the smallest
domain that seems to hold the whole gang comes first; then, for a gang with elastic tasks, the one that holds most.
Slots are counted per node after all filters and summed upwards. The count is optimistic where groups compete or devices
matter, so the caller makes a real placement. After Kueue's topology-aware scheduling and Slurm's topology/block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.placement.topology import ANYWHERE, NOWHERE
from gosched.scheduling.plugins.filters import Choice
from gosched.scheduling.snapshot.columns import Column
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import BoolArray, IntArray

Masks = list[BoolArray | None]  # for each group the nodes of its domain; None: all nodes


def domain_masks(
    gang: PendingGang, choices: Sequence[Choice], capacity: FreeCapacity, feasibility: Feasibility
) -> Iterator[Masks]:
    """Yield the domains to try, as masks of nodes, in the order in which to try them."""
    bounds = [feasibility.bounds(gang, request.constraints) for request in gang.requests]
    narrowest = max(preferred for _, preferred in bounds)
    tried: list[int] = []
    for step in range(narrowest, ANYWHERE - 1, -1):
        # A group whose preferred level is wider than the narrowest is placed in the domain above.
        levels = [max(required, min(step, preferred)) for required, preferred in bounds]
        level = max(levels)
        if levels == tried:
            continue
        tried = levels
        if level == ANYWHERE:
            yield [None] * len(levels)
            continue
        for domain in _candidates(gang, choices, capacity, feasibility, level, levels):
            yield [_mask(feasibility, level, domain, own) for own in levels]


def slots_by_domain(
    gang: PendingGang,
    choices: Sequence[Choice],
    capacity: FreeCapacity,
    feasibility: Feasibility,
    level: int,
    index: int,
) -> IntArray:
    """Return, for each domain of a level, how many tasks of one group seem to fit."""
    return feasibility.topology.domains(level, capacity.slots(gang.requests[index], choices[index].allowed))


def _candidates(
    gang: PendingGang,
    choices: Sequence[Choice],
    capacity: FreeCapacity,
    feasibility: Feasibility,
    level: int,
    levels: Sequence[int],
) -> list[int]:
    """Return the domains of a level that seem to hold the floors, the best first."""
    bound = [i for i, own in enumerate(levels) if own == level]
    slots = [slots_by_domain(gang, choices, capacity, feasibility, level, i) for i in bound]
    fits = np.logical_and.reduce([s >= max(gang.requests[i].floor, 1) for i, s in zip(bound, slots, strict=True)])
    whole = np.logical_and.reduce([s >= gang.requests[i].count for i, s in zip(bound, slots, strict=True)])
    size: IntArray = np.add.reduce(_sizes(gang, choices, capacity, feasibility, level, bound))
    if len(bound) > 1:
        fits &= _enough(gang, capacity, feasibility, level, bound)
    for request, own in zip(gang.requests, levels, strict=True):
        if own != ANYWHERE:
            fits &= reachable_domains(gang, request.group, feasibility, own, level)
    found = np.flatnonzero(fits)
    order = np.lexsort((found, np.where(whole[found], size[found], -size[found]), ~whole[found]))
    return [int(domain) for domain in found[order]]


def _sizes(
    gang: PendingGang,
    choices: Sequence[Choice],
    capacity: FreeCapacity,
    feasibility: Feasibility,
    level: int,
    bound: Sequence[int],
) -> list[IntArray]:
    """Return what is free in each domain, as the measure of its size: GPUs for a gang that asks for some, else CPUs."""
    capacity.settle()
    column = Column.GPU if gang.total[Column.GPU] else Column.CPU
    masks = np.logical_or.reduce([choices[i].allowed for i in bound])
    return [feasibility.topology.domains(level, np.where(masks, capacity.free[:, column], 0))]


def _enough(
    gang: PendingGang, capacity: FreeCapacity, feasibility: Feasibility, level: int, bound: Sequence[int]
) -> BoolArray:
    """Return, for each domain, whether it has free in all what the groups' floors ask for together."""
    enough: list[BoolArray] = []
    for column in range(len(gang.total)):
        wanted = sum([gang.requests[i].each[column] * gang.requests[i].floor for i in bound])
        free = np.where(capacity.nodes.ready, np.maximum(capacity.free[:, column], 0), 0)
        enough.append(feasibility.topology.domains(level, free) >= wanted)
    found: BoolArray = np.logical_and.reduce(enough)
    return found


def reachable_domains(gang: PendingGang, group: str, feasibility: Feasibility, own: int, level: int) -> BoolArray:
    """Return the domains of a level that lie in a domain of the group's `own` level; if tasks of the group are placed
    already, in theirs, where the others have to join them."""
    rows = feasibility.nodes.rows([node for name, node in gang.placed if name == group])
    if not rows.size:
        return feasibility.topology.reachable(own, level)
    codes = feasibility.topology.codes[own]
    inside = (codes != NOWHERE) & np.isin(codes, codes[rows])
    found: BoolArray = feasibility.topology.domains(level, inside.astype(np.int64)) > 0
    return found


def _mask(feasibility: Feasibility, level: int, domain: int, own: int) -> BoolArray | None:
    if own == ANYWHERE:
        return None
    row = int(np.flatnonzero(feasibility.topology.codes[level] == domain)[0])
    return feasibility.topology.rows(own, int(feasibility.topology.codes[own][row]))
