"""In which order queues give back what others are entitled to: next is the one that stands furthest above its own.

A queue's level is what it holds beyond its guarantee, as a dominant share for its weight (fairness/drf_order.py), if it
held half of what it would give next: a large gang goes when its queue stands above the others before and after on
average. Levels are compared among siblings, from the top; tenants of a queue that is fair among them are siblings.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from gosched.core.sharing import lineage
from gosched.scheduling.preemption.eviction_rules import EvictionBudget
from gosched.scheduling.snapshot.columns import AMOUNTS, NOTHING, Vector
from gosched.scheduling.snapshot.occupancy import Occupied
from gosched.scheduling.snapshot.running_gangs import RunningGang
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import BoolArray, IntArray

TURNS = 128
MAX_GIVEN = 1024  # units that are taken in turn for one gang: what is not among them comes last
_ONE = 1 << 30  # the level of a queue that has all of a resource

Path = tuple[str, ...]  # a queue's ancestors, the topmost first, itself, and perhaps a tenant of it


@dataclass(frozen=True, slots=True)
class Unit:
    """What a queue gives at once: a gang, or one of its surplus tasks."""

    #: Their numbers.
    tasks: Sequence[int]
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


class QueueTurns:
    """The turns of one cycle. `core`: tasks with which their gang goes; `cost`: by task, the cheapest of a queue goes
    first."""

    def __init__(self, held: Occupied[RunningGang], core: BoolArray, cost: IntArray, budget: EvictionBudget) -> None:
        self._held = held
        self._core = core
        self._budget = budget
        #: Of all tasks, the cheapest first.
        self._order = np.lexsort((-held.rank, cost))
        paths = [_path(holder, budget) for holder in held.gangs]
        self._leaves = sorted(set(paths))
        number_of = {path: number for number, path in enumerate(self._leaves)}
        #: By task: the index of its queue or tenant.
        self._leaf = np.array([number_of[path] for path in paths], dtype=np.int64)[held.gang]
        queues = sorted({holder.queue for holder in held.gangs})
        self._queue_number = {queue: number for number, queue in enumerate(queues)}
        self._queue = np.array([self._queue_number[holder.queue] for holder in held.gangs], dtype=np.int64)[held.gang]
        self._sums: IntArray | None = None

    def forget(self) -> None:
        """Note that gangs were evicted."""
        self._sums = None

    def of_tasks(self, gang: PendingGang, useful: BoolArray) -> IntArray:
        """Return by task in which turn, below TURNS, its queue would give it up for the gang. `useful`: tasks that
        count. The turns end after MAX_GIVEN units: all other tasks, and those of its own queue, come last."""
        turns = np.full(len(self._held), TURNS - 1, dtype=np.int64)
        wanted = useful & (self._queue != self._queue_number.get(gang.queue, -1))
        order = self._order[wanted[self._order]]
        leaves = np.unique(self._leaf[order]).tolist()
        if len(leaves) < 2:
            turns[order] = 0
            return turns
        given = list(islice(in_turn(self._givers(order, leaves), self._budget.total), MAX_GIVEN))
        for place, unit in enumerate(given):
            turns[unit.tasks] = place * (TURNS - 1) // len(given)
        return turns

    def _givers(self, order: IntArray, leaves: Sequence[int]) -> list[Giver]:
        """Return the queues and tenants that may give, parents first. `order`: the tasks that may be given."""
        sums = self._held_by_leaf()
        totals: dict[Path, IntArray] = {}
        above = {self._leaves[number][:length] for number in leaves for length in range(1, len(self._leaves[number]))}
        for path, own in zip(self._leaves, sums, strict=True):
            for length in range(1, len(path)):
                if path[:length] in above:
                    totals[path[:length]] = totals.get(path[:length], 0) + own
        units: dict[Path, Iterator[Unit]] = {}
        by_leaf = order[np.argsort(self._leaf[order], kind="stable")]
        borders = np.flatnonzero(np.diff(self._leaf[by_leaf])) + 1
        for number, own in zip(leaves, np.split(by_leaf, borders), strict=True):
            path = self._leaves[number]
            totals[path] = sums[number]
            units[path] = _units(own, self._held, self._core)
        found = []
        for path, total in sorted(totals.items()):
            weight, guaranteed = self._budget.claim_of(path[-1])
            own_units = units.get(path, iter(()))
            found.append(Giver(path=path, held=_vector(total), weight=weight, guaranteed=guaranteed, units=own_units))
        return found

    def _held_by_leaf(self) -> IntArray:
        if self._sums is None:
            held, budget = self._held, self._budget
            stays = [not (holder.is_stopping or budget.is_victim(holder.job_id)) for holder in held.gangs]
            here = np.array(stays, dtype=np.bool_)[held.gang]
            self._sums = np.zeros((len(self._leaves), len(NOTHING)), dtype=np.int64)
            np.add.at(self._sums, self._leaf[here], held.amounts[here, AMOUNTS])
        return self._sums


def _path(holder: RunningGang, budget: EvictionBudget) -> Path:
    tenant = (f"/{holder.tenant}",) if budget.is_fair_among_tenants(holder.queue) else ()
    return (*lineage(holder.queue), *tenant)


def _units(order: IntArray, held: Occupied[RunningGang], core: BoolArray) -> Iterator[Unit]:
    given: dict[int, list[int]] = {}  # by gang: its surplus tasks so far
    whole: dict[int, None] = {}
    for task in order.tolist():
        gang = int(held.gang[task])
        if gang in whole:
            continue
        tasks = [task]
        if core[task]:
            whole[gang] = None
            own = held.own(gang)
            before = given.get(gang, ())
            tasks = [other for other in range(own.start, own.stop) if other not in before]
        else:
            given.setdefault(gang, []).append(task)
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
