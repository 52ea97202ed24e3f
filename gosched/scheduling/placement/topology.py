"""The tree of domains, from the widest level of the config's topology down to the node.

Invariant: a domain is a path: two racks of one name in two zones are two domains. A node without a level's label is in
no domain of that level, but may be in one below it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gosched.core.spec.placement_rules import NODE_LEVEL
from gosched.scheduling.snapshot.view import NO_VALUE, BoolArray, IntArray, NodeColumns

NOWHERE = -1
ANYWHERE = -1  # as a level: the whole cluster


class Topology:
    """The domains of all nodes. `levels` are label keys, widest first; the level `node` follows the last one."""

    def __init__(self, nodes: NodeColumns, levels: Sequence[str]) -> None:
        self.levels = (*levels, NODE_LEVEL)
        #: For each level the domain of each node, numbered in the order of paths; NOWHERE for none.
        self.codes: list[IntArray] = []
        paths = np.zeros(len(nodes), dtype=np.int64)
        for level in levels:
            values = _in_order(nodes, level)
            paths = _within(paths, values)
            self.codes.append(_numbered(paths, values != NOWHERE))
        rows = np.arange(len(nodes))
        self.codes.append(rows)
        #: The place of each node in the tree, depth first.
        self.position = rows
        if levels:
            ranked = [np.where(codes == NOWHERE, len(nodes), codes) for codes in reversed(self.codes[:-1])]
            self.position = np.empty(len(nodes), dtype=np.int64)
            self.position[np.lexsort((rows, *ranked))] = rows
        # Not the nodes themselves, which keep the topology (`NodeColumns.derive`).
        self._ids, self._labels = nodes.ids, nodes.labels
        #: For each level the rows that are in a domain (None: all), their domains, and the number of domains.
        self._members = [_members(codes) for codes in self.codes]
        self._reachable: dict[tuple[int, int], BoolArray] = {}

    def index(self, level: str) -> int | None:
        """Return the index of a level; None if the cluster does not know it."""
        return self.levels.index(level) if level in self.levels else None

    def domains(self, level: int, amounts: IntArray) -> IntArray:
        """Return the sum of a column for each domain of the level."""
        rows, codes, count = self._members[level]
        inside = amounts if rows is None else amounts[rows]
        found: IntArray = np.bincount(codes, weights=inside, minlength=count).astype(np.int64)
        return found

    def reachable(self, own: int, level: int) -> BoolArray:
        """Return the domains of a level with nodes that are in a domain of the level `own`."""
        found = self._reachable.get((own, level))
        if found is None:
            inside = (self.codes[own] != NOWHERE).astype(np.int64)
            found = self._reachable[own, level] = self.domains(level, inside) > 0
        return found

    def rows(self, level: int, domain: int) -> BoolArray:
        """Return a mask of the nodes in the domain."""
        inside: BoolArray = self.codes[level] == domain
        return inside

    def name(self, level: int, domain: int) -> str:
        """Return the value of the level's label, or the node's id."""
        row = int(np.flatnonzero(self.codes[level] == domain)[0])
        if self.levels[level] == NODE_LEVEL:
            return self._ids[row]
        return self._labels.value(int(self._labels.column(self.levels[level], len(self._ids))[row]))


def _members(codes: IntArray) -> tuple[IntArray | None, IntArray, int]:
    count = int(codes.max(initial=-1)) + 1
    rows = np.flatnonzero(codes != NOWHERE)
    return (None, codes, count) if len(rows) == len(codes) else (rows, codes[rows], count)


def _in_order(nodes: NodeColumns, level: str) -> IntArray:
    """Return the level's values as numbers in the order of their texts; label codes are in the order of arrival."""
    column = nodes.label(level)
    known = np.unique(column[column != NO_VALUE])
    texts = {code: text for text, code in nodes.labels.codes.items()}
    ranked = sorted(known.tolist(), key=lambda code: texts[code])
    table = np.full(max(known.tolist(), default=0) + 2, NOWHERE, dtype=np.int64)
    table[ranked] = np.arange(len(ranked))
    numbered: IntArray = table[column]  # NO_VALUE is -1: the last entry
    return numbered


def _within(above: IntArray, values: IntArray) -> IntArray:
    """Return codes of the pairs (path above, value); a missing value counts as a value."""
    width = int(values.max(initial=NOWHERE)) + 2
    paths: IntArray = np.unique(above * width + values + 1, return_inverse=True)[1]
    return paths


def _numbered(paths: IntArray, inside: BoolArray) -> IntArray:
    codes = np.full(len(paths), NOWHERE, dtype=np.int64)
    codes[inside] = np.unique(paths[inside], return_inverse=True)[1]
    return codes
