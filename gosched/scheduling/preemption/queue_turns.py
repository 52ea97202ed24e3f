"""In which order queues give back what others are entitled to: next is the one that stands furthest above its own.

A queue's level is what it holds beyond its guarantee, as a dominant share for its weight (fairness/drf_order.py), if it
held half of what it would give next: a large gang goes when its queue stands above the others before and after on
average. Levels are compared among siblings, from the top; tenants of a queue that is fair among them are siblings.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gosched.core.sharing import lineage
from gosched.scheduling.preemption.eviction_rules import EvictionBudget
from gosched.scheduling.snapshot.columns import AMOUNTS, NOTHING, Vector
from gosched.scheduling.snapshot.occupancy import Occupied
from gosched.scheduling.snapshot.running_gangs import RunningGang
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import BoolArray, IntArray

TURNS = 128
MAX_GIVEN = 4096  # units that are taken in turn for one gang: what is not among them comes last
_ONE = 1 << 30  # the level of a queue that has all of a resource

Path = tuple[str, ...]  # a queue's ancestors, the topmost first, itself, and perhaps a tenant of it


@dataclass(frozen=True, slots=True)
class Unit:
    """What a queue gives at once: a gang, or one of its surplus tasks."""

    tasks: IntArray
    amounts: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Giver:
    """A queue, or a tenant of one."""

    path: Path
    held: Vector
    weight: int
    guaranteed: Vector
    #: What it gives, the cheapest first. Inner queues give what those in them do.
    units: Iterator[Unit]


def turns_of_tasks(
    gang: PendingGang,
    held: Occupied[RunningGang],
    core: BoolArray,
    cost: IntArray,
    useful: BoolArray,
    budget: EvictionBudget,
) -> IntArray:
    """Return by task in which turn, below TURNS, its queue would give it up for the gang.

    `core`: tasks with which their gang goes; `cost`: by task, the cheapest of a queue goes first; `useful`: tasks that
    count. The turns end with twice of what the gang asks for; other tasks, and those of its own queue, come last.
    """
    turns = np.full(len(held), TURNS - 1, dtype=np.int64)
    paths = [_path(holder, budget) for holder in held.gangs]
    own = np.array([holder.queue == gang.queue for holder in held.gangs], dtype=np.bool_)
    order = np.flatnonzero(useful & ~own[held.gang])
    if len({paths[number] for number in np.unique(held.gang[order]).tolist()}) < 2:
        turns[order] = 0
        return turns
    order = order[np.lexsort((-held.rank[order], cost[order]))]
    given: list[Unit] = []
    left = [2 * amount for amount in gang.total]
    for unit in in_turn(_givers(paths, order, held, core, budget), budget.total):
        given.append(unit)
        left = [amount - more for amount, more in zip(left, unit.amounts, strict=True)]
        if max(left) <= 0 or len(given) >= MAX_GIVEN:
            break
    for place, unit in enumerate(given):
        turns[unit.tasks] = place * (TURNS - 1) // len(given)
    return turns


def _path(holder: RunningGang, budget: EvictionBudget) -> Path:
    tenant = (f"/{holder.tenant}",) if budget.is_fair_among_tenants(holder.queue) else ()
    return (*lineage(holder.queue), *tenant)


def _givers(
    paths: Sequence[Path], order: IntArray, held: Occupied[RunningGang], core: BoolArray, budget: EvictionBudget
) -> list[Giver]:
    """Return the queues and tenants that hold something, parents first. `paths`: by gang; `order`: the tasks that may
    be given, in their order."""
    leaves = sorted(set(paths))
    number_of = {path: number for number, path in enumerate(leaves)}
    leaf = np.array([number_of[path] for path in paths], dtype=np.int64)[held.gang]
    stays = np.array([not (holder.is_stopping or budget.is_victim(holder.job_id)) for holder in held.gangs])[held.gang]
    sums = np.zeros((len(leaves), len(NOTHING)), dtype=np.int64)
    np.add.at(sums, leaf[stays], held.amounts[stays, AMOUNTS])
    totals: dict[Path, IntArray] = {}
    for path, own in zip(leaves, sums, strict=True):
        for length in range(1, len(path) + 1):
            totals[path[:length]] = totals.get(path[:length], 0) + own
    found = []
    for path, total in sorted(totals.items()):
        weight, guaranteed = budget.claim_of(path[-1])
        number = number_of.get(path)
        units = _units(order[leaf[order] == number], held, core) if number is not None else iter(())
        found.append(Giver(path=path, held=_vector(total), weight=weight, guaranteed=guaranteed, units=units))
    return found


def _units(order: IntArray, held: Occupied[RunningGang], core: BoolArray) -> Iterator[Unit]:
    given = np.zeros(len(held), dtype=np.bool_)
    for task in order.tolist():
        if given[task]:
            continue
        tasks = np.array([task])
        if core[task]:
            own = held.own(int(held.gang[task]))
            tasks = np.arange(own.start, own.stop)[~given[own]]
        given[tasks] = True
        yield Unit(tasks, _vector(held.amounts[tasks, AMOUNTS].sum(axis=0)))


def _vector(amounts: IntArray) -> Vector:
    cpu, memory, storage, gpu = amounts.tolist()
    return cpu, memory, storage, gpu


def in_turn(givers: Sequence[Giver], total: Vector) -> Iterator[Unit]:
    """Yield what the queues give. Parents come before their children in `givers`; `total`: what there is."""
    root = _Node(Giver(path=(), held=NOTHING, weight=1, guaranteed=NOTHING, units=iter(())))
    nodes: dict[Path, _Node] = {(): root}
    for giver in givers:
        nodes[giver.path] = _Node(giver)
    for path, node in reversed(nodes.items()):  # children come before their parents
        node.settle()
        if path and node.head is not None:
            nodes[path[:-1]].children.append((-node.level(total), path[-1], node))
    while (unit := root.head) is not None:
        yield unit
        root.give(total)


class _Node:
    __slots__ = ("children", "giver", "head", "held")

    def __init__(self, giver: Giver) -> None:
        self.giver = giver
        self.held = giver.held
        #: Those that have something to give, the highest level first, as a heap.
        self.children: list[tuple[int, str, _Node]] = []
        #: What it gives next.
        self.head = next(giver.units, None)

    def settle(self) -> None:
        """Find the head among the children, which are all there."""
        if self.children:
            heapq.heapify(self.children)
            self.head = self.children[0][2].head

    def give(self, total: Vector) -> None:
        """Give the head away; another one takes its place, or none."""
        assert self.head is not None
        cpu, memory, storage, gpu = [held - more for held, more in zip(self.held, self.head.amounts, strict=True)]
        self.held = (cpu, memory, storage, gpu)
        if not self.children:
            self.head = next(self.giver.units, None)
            return
        child = self.children[0][2]
        child.give(total)
        if child.head is None:
            heapq.heappop(self.children)
        else:
            heapq.heapreplace(self.children, (-child.level(total), child.giver.path[-1], child))
        self.head = self.children[0][2].head if self.children else None

    def level(self, total: Vector) -> int:
        """Return the level while half of the head is given; up to the guarantee it is below zero."""
        assert self.head is not None
        highest = -_ONE
        amounts = zip(self.held, self.head.amounts, self.giver.guaranteed, total, strict=True)
        for held, amount, guaranteed, whole in amounts:
            twice = 2 * held - amount
            if twice > 2 * guaranteed:
                level = (twice - 2 * guaranteed) * _ONE // (2 * max(whole, 1) * self.giver.weight)
            else:
                level = twice * _ONE // (2 * guaranteed) - _ONE if guaranteed else -_ONE
            highest = max(highest, level)
        return highest
