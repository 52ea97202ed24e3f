"""Whose turn it is: the next gang comes from the queue that is furthest below its fair share, that gang included.

Rule: among siblings the lowest (ratio, path) wins; tenants of one queue are siblings too, in (ratio, name) order.

A queue's ratio is its dominant share (Ghodsi et al., NSDI'11) once its head has started: the highest, over the
resources, of (used + head) / share, in parts of `ONE`. Only the winners' way through the tree changes from turn to
turn, so each inner queue keeps its winner apart from a heap of the others, and only that way is computed anew.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gosched.core.resources import AmountMap
from gosched.core.sharing import MODEL_PREFIX, lineage

ONE = 1 << 20  # the ratio of a queue that has just its share
INFINITE = 1 << 100  # of one that would use what it has no share of

# Divisions are multiplications by ceil(ONE * 2**_SHIFT / share): exact while amounts and shares stay below 2**63.
_SHIFT = 128
_NO_SHARE = INFINITE << _SHIFT


class Gang(Protocol):
    @property
    def charge(self) -> AmountMap:
        """What its smallest start holds."""


G = TypeVar("G", bound=Gang)


@dataclass(frozen=True, slots=True)
class Line(Generic[G]):
    """Gangs of one leaf queue in the order they are looked at; `tenant` is empty unless tenants take turns in it."""

    queue: str
    tenant: str
    gangs: Sequence[G]


class DrfOrder(Generic[G]):
    """Hands out heads. After each `next()` comes `placed` or `passed`, which is about it."""

    def __init__(
        self,
        lines: Iterable[Line[G]],
        shares: Mapping[str, Mapping[str, int]],
        used: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Of each queue and tenant at most one line. `used`: by queue path, of all levels, and by "queue/tenant"."""
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
        """The gang whose turn it is, until it is placed or passed."""
        return self._leaf.gang

    def placed(self, charge: Mapping[str, int]) -> None:
        """It holds `charge` now, and so do its queues; the next in its line has its place."""
        node = leaf = self._leaf
        as_tried = tuple(charge.items()) == leaf.charge  # nearly always
        while (parent := node.parent) is not None:
            if parent.others:  # who has no rival never gets one, and needs no ratio
                if as_tried:
                    node.use_tried(leaf.charge)
                else:
                    node.use(charge)
            node = parent
        self._step(used=True)

    def passed(self) -> None:
        """It cannot start; the next in its line has its place."""
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
        """The line has ended: the best of the others takes its place, at the first level where there are any. It is cut
        off, so that once all have ended no node is in a cycle of references, which only the collector would free."""
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
        """From `node` up, after a change of its use or its head: who wins at each level."""
        leaf = node.leaf
        while (parent := node.parent) is not None:
            others = parent.others
            if others:
                leaf = heapq.heappushpop(others, (node.ratio(leaf.charge), node.key, node))[2].leaf
            parent.leaf = leaf
            node = parent
        self._leaf = leaf


class _Node(Generic[G]):
    """A queue, a tenant of a queue, or the root, while it has gangs. `leaf`: the line of its head.

    `others`: its children but the one that the head comes from, as a heap by (ratio, key). `cells`: by resource, [used,
    factor, used with the head], both times the factor, which is the scaled reciprocal of the share.
    """

    __slots__ = ("cells", "charge", "floor", "gang", "gangs", "highest", "key", "leaf", "others", "parent", "share")

    def __init__(self, key: str, parent: _Node[G] | None, share: Mapping[str, int], used: Mapping[str, int]) -> None:
        self.key = key
        self.parent = parent
        self.others: list[tuple[int, str, _Node[G]]] = []
        self.leaf = self
        self.gang: G | None = None
        self.gangs: Iterator[G] = iter(())
        self.charge: AmountMap = ()
        self.share = share
        self.cells: dict[str, list[int]] = {}
        self.floor = 0  # the highest of what is used, scaled
        self.highest = 0  # the same with the head
        self.use(used)

    def set_gangs(self, gangs: Sequence[G]) -> None:
        self.gangs = iter(gangs)
        self.gang = next(self.gangs)
        self.charge = self.gang.charge

    def settle(self) -> None:
        """With its own children settled, it joins its siblings."""
        if self.others:
            heapq.heapify(self.others)
            self.leaf = heapq.heappop(self.others)[2].leaf
        if self.parent is not None:
            self.parent.others.append((self.ratio(self.leaf.charge), self.key, self))

    def ratio(self, charge: AmountMap) -> int:
        """With a head of this charge."""
        highest, cells = self.floor, self.cells
        try:
            for name, amount in charge:
                cell = cells[name]
                cell[2] = tried = cell[0] + amount * cell[1]
                if tried > highest:
                    highest = tried
        except KeyError as unseen:  # measured: a dictionary with __missing__ costs a tenth of a turn more
            self._add_cell(unseen.args[0])
            return self.ratio(charge)
        self.highest = highest
        return highest >> _SHIFT if highest < _NO_SHARE else INFINITE

    def use_tried(self, charge: AmountMap) -> None:
        """The same as `use` of the charge that `ratio` was last asked about."""
        cells = self.cells
        for name, _ in charge:
            cell = cells[name]
            cell[0] = cell[2]
        self.floor = self.highest

    def use(self, charge: Mapping[str, int]) -> None:
        for name, amount in charge.items():
            cell = self.cells.get(name) or self._add_cell(name)
            cell[0] += amount * cell[1]
            self.floor = max(self.floor, cell[0])

    def _add_cell(self, name: str) -> list[int]:
        share = self.share.get(name, 0)
        factor = -((-ONE << _SHIFT) // share) if share else _NO_SHARE
        self.cells[name] = cell = [0, 0 if name.startswith(MODEL_PREFIX) else factor, 0]
        return cell
