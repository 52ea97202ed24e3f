"""The order of gangs by dominant resource fairness: next is one of the queue that is furthest below its fair share.

Invariant: among siblings the lowest (ratio, path) wins. Tenants of one queue are siblings too, by (ratio, name).

A queue's ratio is its dominant share (Ghodsi et al., NSDI'11) once its head, the gang that is its next, has started:
the highest, over the resources, of (used + head) / share, in parts of `ONE`. From gang to gang only the winner's path
through the tree changes, so each inner queue keeps its winner apart from a heap of the others, and only that path is
computed anew.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gosched.core.resources import AmountMap
from gosched.core.sharing import MODEL_PREFIX, lineage

ONE = 1 << 20  # the ratio of a queue that has just its share
INFINITE = 1 << 100  # the ratio of a queue that would use a resource of which it has no share

# Divisions are multiplications by ceil(ONE * 2**_SHIFT / share): exact while amounts and shares stay below 2**63.
_SHIFT = 128
_NO_SHARE = INFINITE << _SHIFT


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


class DrfOrder(Generic[G]):
    """The order of the gangs of all lines. After each `next` comes `placed` or `passed`, which is about that gang."""

    def __init__(
        self,
        lines: Iterable[Line[G]],
        shares: Mapping[str, Mapping[str, int]],
        used: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Each queue and tenant has at most one line. `used` is by queue path, of all levels, and by "queue/tenant"."""
        root: _Node[G] = _Node("", None, {}, {})
        nodes: dict[str, _Node[G]] = {"": root}
        for line in lines:
            if not line.gangs:
                continue
            parent = root
            for path in lineage(line.queue):
                if path not in nodes:
                    nodes[path] = _Node(path, parent, shares.get(path, {}), used.get(path, {}))
                parent = nodes[path]
            name = f"{line.queue}/{line.tenant}"
            nodes[name] = _Node(line.tenant, parent, shares.get(line.queue, {}), used.get(name, {}))
            nodes[name].set_gangs(line.gangs)
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
            if parent.others:  # a node without siblings never gets any, and needs no ratio
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
        elif used or gang.charge != leaf.charge:
            leaf.charge = gang.charge
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
                leaf = heapq.heappushpop(others, (node.ratio(leaf.charge), node.key, node))[2].leaf
            parent.leaf = leaf
            node = parent
        self._leaf = leaf


class _Node(Generic[G]):
    """A queue, a tenant of a queue, or the root, as long as it has gangs."""

    __slots__ = ("cells", "charge", "floor", "gang", "gangs", "highest", "key", "leaf", "others", "parent", "share")

    def __init__(self, key: str, parent: _Node[G] | None, share: Mapping[str, int], used: Mapping[str, int]) -> None:
        self.key = key
        self.parent = parent
        #: Its children but the one that the head comes from, as a heap by (ratio, key).
        self.others: list[tuple[int, str, _Node[G]]] = []
        #: The line of its head.
        self.leaf = self
        self.gang: G | None = None
        self.gangs: Iterator[G] = iter(())
        self.charge: AmountMap = ()
        self.share = share
        #: By resource [used, factor, used with the head]. The factor is the scaled reciprocal of the share, by which
        #: both amounts are multiplied.
        self.cells: dict[str, list[int]] = {}
        #: The highest of what is used, scaled.
        self.floor = 0
        #: The same with the head that `ratio` was last asked about.
        self.highest = 0
        self.use(used)

    def set_gangs(self, gangs: Sequence[G]) -> None:
        self.gangs = iter(gangs)
        self.gang = next(self.gangs)
        self.charge = self.gang.charge

    def settle(self) -> None:
        """Join the siblings; its own children have joined already."""
        if self.others:
            heapq.heapify(self.others)
            self.leaf = heapq.heappop(self.others)[2].leaf
        if self.parent is not None:
            self.parent.others.append((self.ratio(self.leaf.charge), self.key, self))

    def ratio(self, charge: AmountMap) -> int:
        """Return the ratio with a head of this charge."""
        highest, cells = self.floor, self.cells
        try:
            for name, amount in charge:
                cell = cells[name]
                cell[2] = tried = cell[0] + amount * cell[1]
                if tried > highest:
                    highest = tried
        except KeyError as unseen:  # measured: a dictionary with __missing__ takes a tenth longer
            self._add_cell(unseen.args[0])
            return self.ratio(charge)
        self.highest = highest
        return highest >> _SHIFT if highest < _NO_SHARE else INFINITE

    def use_tried(self, charge: AmountMap) -> None:
        """Do what `use` does, of the charge that `ratio` was last asked about."""
        cells = self.cells
        for name, _ in charge:
            cell = cells[name]
            cell[0] = cell[2]
        self.floor = self.highest

    def use(self, charge: Mapping[str, int]) -> None:
        """Add the charge to what is used."""
        for name, amount in charge.items():
            cell = self.cells.get(name) or self._add_cell(name)
            cell[0] += amount * cell[1]
            self.floor = max(self.floor, cell[0])

    def _add_cell(self, name: str) -> list[int]:
        share = self.share.get(name, 0)
        factor = -((-ONE << _SHIFT) // share) if share else _NO_SHARE
        self.cells[name] = cell = [0, 0 if name.startswith(MODEL_PREFIX) else factor, 0]
        return cell
