"""The order of gangs by dominant resource fairness: next is one of the queue that has got least for its weight.

Invariant: among siblings the lowest (level, path) wins. Tenants of one queue are siblings too, by (level, name).

A queue's level is its dominant share (Ghodsi et al., NSDI'11, algorithm 1) once its head, the gang that is its next,
has started, if it can: the highest, over the resources, of (used + head - guaranteed) / (total * weight), in parts of
`ONE`. Up to the guarantee the level of a resource is negative, and grows from -ONE to 0: guarantees come first, all in
proportion. From gang to gang only the winner's path through the tree changes, so each inner queue keeps its winner
apart from a heap of the others, and only that path is computed anew.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from gosched.core.resources import AmountMap
from gosched.core.sharing import MODEL_PREFIX, lineage

ONE = 1 << 20  # the level of a queue that has all of a resource
INFINITE = 1 << 100  # the level of a queue that would use a resource of which there is nothing

# Divisions are multiplications by ceil(ONE * 2**_SHIFT / divisor): exact while amounts and divisors stay below 2**63.
_SHIFT = 128
_LOWEST = -ONE << _SHIFT
_NOTHING = INFINITE << _SHIFT


class Gang(Protocol):
    @property
    def charge(self) -> AmountMap:
        """Return what its floors count as, by resource name."""


G = TypeVar("G", bound=Gang)


@dataclass(frozen=True, slots=True)
class Line(Generic[G]):
    """The gangs of one leaf queue that wait, in the queue's order."""

    queue: str
    #: Empty unless the queue is fair among its tenants, each of which has a line then.
    tenant: str
    gangs: Sequence[G]


@dataclass(frozen=True, slots=True)
class Claim:
    """What a queue may claim of what there is."""

    weight: int = 1
    #: By resource name.
    guaranteed: Mapping[str, int] = field(default_factory=dict)


_EQUAL = Claim()  # that of a tenant, and of a queue that is not known


class DrfOrder(Generic[G]):
    """The order of the gangs of all lines. After each `next` comes `placed` or `passed`, which is about that gang."""

    def __init__(
        self,
        lines: Iterable[Line[G]],
        total: Mapping[str, int],
        claims: Mapping[str, Claim],
        used: Mapping[str, Mapping[str, int]],
        may_start: Callable[[G], bool] = lambda _: True,
    ) -> None:
        """Each queue and tenant has at most one line. `total`: what there is, by resource name. `claims`: by queue
        path. `used`: by queue path, of all levels, and by "queue/tenant". `may_start`: False for a head that cannot
        start now, and so does not count: it would hold up its queue."""
        self._may_start = may_start
        root: _Node[G] = _Node("", None, total, _EQUAL, {})
        nodes: dict[str, _Node[G]] = {"": root}
        for line in lines:
            if not line.gangs:
                continue
            parent = root
            for path in lineage(line.queue):
                if path not in nodes:
                    nodes[path] = _Node(path, parent, total, claims.get(path, _EQUAL), used.get(path, {}))
                parent = nodes[path]
            name = f"{line.queue}/{line.tenant}"
            nodes[name] = _Node(line.tenant, parent, total, _EQUAL, used.get(name, {}))
            nodes[name].set_gangs(line.gangs, may_start)
        for node in reversed(nodes.values()):  # children come before their parents
            node.settle()
        self._leaf: _Node[G] = root.leaf
        if len(nodes) == 1:  # there is no line: see `_end_line`
            del root.leaf

    def next(self) -> G | None:
        """Return the gang that is next, the same one until it is placed or passed; None when all lines have ended."""
        return self._leaf.gang

    def placed(self, charge: Mapping[str, int]) -> None:
        """Add `charge` to what its queues and tenant use; the next gang of its line becomes the head."""
        node = leaf = self._leaf
        as_tried: bool | None = None
        while (parent := node.parent) is not None:
            if parent.others:  # a node without siblings never gets any, and needs no level
                if as_tried is None:
                    as_tried = tuple(charge.items()) == leaf.charge  # nearly always
                if as_tried:
                    node.use_tried(leaf.charge)
                else:
                    node.use(charge)
            node = parent
        self._step(used=True)

    def passed(self) -> None:
        """Skip the gang, which cannot start; the next gang of its line becomes the head."""
        self._step(used=False)

    def _step(self, *, used: bool) -> None:
        leaf = self._leaf
        leaf.gang = gang = next(leaf.gangs, None)
        if gang is None:
            self._end_line()
            return
        charge = gang.charge if self._may_start(gang) else ()
        if used or charge != leaf.charge:
            leaf.charge = charge
            self._update_winners(leaf)

    def _end_line(self) -> None:
        """Remove the line, which has ended: the best sibling takes its place, at the first level where there is one.

        The line is cut off, so that once all have ended no node is in a cycle of references, which only the garbage
        collector would free.
        """
        node = ended = self._leaf
        while (parent := node.parent) is not None:
            if parent.others:
                parent.leaf = heapq.heappop(parent.others)[2].leaf
                self._update_winners(parent)
                break
            node = parent
        ended.parent = None
        del ended.leaf

    def _update_winners(self, node: _Node[G]) -> None:
        """Find the winner at each level from `node` up, after a change of its use or its head."""
        leaf = node.leaf
        while (parent := node.parent) is not None:
            others = parent.others
            if others:
                leaf = heapq.heappushpop(others, (node.level(leaf.charge), node.key, node))[2].leaf
            parent.leaf = leaf
            node = parent
        self._leaf = leaf


class _Node(Generic[G]):
    """A queue, a tenant of a queue, or the root, as long as it has gangs."""

    __slots__ = (
        *("cells", "charge", "claim", "floor", "gang", "gangs", "highest", "key", "leaf", "others", "parent"),
        "total",
    )

    def __init__(
        self,
        key: str,
        parent: _Node[G] | None,
        total: Mapping[str, int],
        claim: Claim,
        used: Mapping[str, int],
    ) -> None:
        self.key = key
        self.parent = parent
        #: Its children but the one that the head comes from, as a heap by (level, key).
        self.others: list[tuple[int, str, _Node[G]]] = []
        #: The line of its head.
        self.leaf = self
        self.gang: G | None = None
        self.gangs: Iterator[G] = iter(())
        self.charge: AmountMap = ()
        self.total = total
        self.claim = claim
        #: By resource [used, guaranteed, factor up to the guarantee, factor beyond it, used with the head]. The factors
        #: are scaled reciprocals of what the amounts are divided by.
        self.cells: dict[str, list[int]] = {}
        #: The highest level of what is used, scaled.
        self.floor = _LOWEST
        #: The same with the head that `level` was last asked about.
        self.highest = _LOWEST
        self.use(used)

    def set_gangs(self, gangs: Sequence[G], may_start: Callable[[G], bool]) -> None:
        self.gangs = iter(gangs)
        self.gang = next(self.gangs)
        self.charge = self.gang.charge if may_start(self.gang) else ()

    def settle(self) -> None:
        """Join the siblings; its own children have joined already."""
        if self.others:
            heapq.heapify(self.others)
            self.leaf = heapq.heappop(self.others)[2].leaf
        if self.parent is not None:
            self.parent.others.append((self.level(self.leaf.charge), self.key, self))

    def level(self, charge: AmountMap) -> int:
        """Return the level with a head of this charge."""
        highest, cells = self.floor, self.cells
        try:
            for name, amount in charge:
                cell = cells[name]
                cell[4] = tried = cell[0] + amount
                beyond = tried - cell[1]
                found = beyond * cell[3] if beyond >= 0 else tried * cell[2] + _LOWEST
                if found > highest:
                    highest = found
        except KeyError as unseen:  # measured: a dictionary with __missing__ takes a tenth longer
            self._add_cell(unseen.args[0])
            return self.level(charge)
        self.highest = highest
        return highest >> _SHIFT if highest < _NOTHING else INFINITE

    def use_tried(self, charge: AmountMap) -> None:
        """Do what `use` does, of the charge that `level` was last asked about."""
        cells = self.cells
        for name, _ in charge:
            cell = cells[name]
            cell[0] = cell[4]
        self.floor = self.highest

    def use(self, charge: Mapping[str, int]) -> None:
        """Add the charge to what is used."""
        amounts = tuple([(name, amount) for name, amount in charge.items() if amount])
        self.level(amounts)
        self.use_tried(amounts)

    def _add_cell(self, name: str) -> None:
        total, guaranteed = self.total.get(name, 0) * self.claim.weight, self.claim.guaranteed.get(name, 0)
        below = -((-ONE << _SHIFT) // guaranteed) if guaranteed else 0
        beyond = -((-ONE << _SHIFT) // total) if total else _NOTHING
        if name.startswith(MODEL_PREFIX):  # single GPU models do not count
            guaranteed, below = INFINITE, 0
        self.cells[name] = [0, guaranteed, below, beyond, 0]
