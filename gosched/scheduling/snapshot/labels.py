"""Node labels as columns of codes, so that a condition on a label is one comparison for all nodes.

Invariant: columns are replaced, never written to, so copies share them. Codes are only added, to a copy of their own
where others look at them: each node has a label with its own name, so there may be as many as nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gosched.core.matching import whole_number
from gosched.core.primitives import StringMap
from gosched.core.spec.placement_rules import Affinity, LabelOp

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

NO_VALUE = -1
_NO_NUMBER = np.iinfo(np.int64).min


@dataclass(slots=True, kw_only=True)
class LabelColumns:
    """The labels of all nodes."""

    #: By label key: a code for each node, NO_VALUE if it has no such label.
    columns: dict[str, IntArray] = field(default_factory=dict)
    #: The code of each value that was seen since the last reset.
    codes: dict[str, int] = field(default_factory=dict)
    #: Whether a copy looks at the same codes.
    shares_codes: bool = False

    def copy(self) -> LabelColumns:
        self.shares_codes = True
        return LabelColumns(columns=self.columns.copy(), codes=self.codes, shares_codes=True)

    def insert(self, positions: Sequence[int]) -> None:
        for key, column in self.columns.items():
            self.columns[key] = np.insert(column, positions, NO_VALUE)

    def delete(self, rows: Sequence[int]) -> None:
        for key, column in self.columns.items():
            self.columns[key] = np.delete(column, rows)

    def assign(self, nodes: int, rows: Sequence[int], labels: Sequence[dict[str, str]]) -> None:
        """Set all labels of the rows; `nodes` is the number of nodes."""
        for key in {**self.columns, **dict.fromkeys(key for entries in labels for key in entries)}:
            column = self.columns.get(key)
            column = np.full(nodes, NO_VALUE, dtype=np.int64) if column is None else column.copy()
            column[rows] = [self._code(entries[key]) if key in entries else NO_VALUE for entries in labels]
            self.columns[key] = column

    def column(self, key: str, nodes: int) -> IntArray:
        found = self.columns.get(key)
        return np.full(nodes, NO_VALUE, dtype=np.int64) if found is None else found

    def having(self, pairs: StringMap, nodes: int) -> BoolArray:
        """Return the nodes that have all of the labels."""
        mask = np.ones(nodes, dtype=np.bool_)
        for key, value in pairs:
            mask &= self.column(key, nodes) == self.codes.get(value, NO_VALUE - 1)
        return mask

    def meeting(self, term: Affinity, nodes: int) -> BoolArray:
        """Return the nodes that meet the condition, as `core.matching.meets` judges it for one node."""
        column = self.column(term.label, nodes)
        found: BoolArray
        match term.op:
            case LabelOp.IN | LabelOp.NOT_IN:
                wanted = [self.codes[value] for value in term.values if value in self.codes]
                found = np.isin(column, wanted, invert=term.op is LabelOp.NOT_IN)
            case LabelOp.EXISTS:
                found = column != NO_VALUE
            case LabelOp.NOT_EXISTS:
                found = column == NO_VALUE
            case LabelOp.GT:
                found = self._numbers(column) > int(term.values[0])
            case LabelOp.LT:
                numbers = self._numbers(column)
                found = (numbers < int(term.values[0])) & (numbers != _NO_NUMBER)
            case LabelOp.UNSPECIFIED:
                raise ValueError("a condition without an operator")
        return found

    def value(self, code: int) -> str:
        """Return the value of a code. It is slow (it walks all codes): for texts only."""
        return next((text for text, known in self.codes.items() if known == code), "")

    def _numbers(self, column: IntArray) -> IntArray:
        texts = list(self.codes)  # by their codes
        table = np.full(len(texts) + 1, _NO_NUMBER, dtype=np.int64)  # NO_VALUE is -1: the last entry
        for code in np.unique(column).tolist():
            number = whole_number(texts[code]) if code != NO_VALUE else None
            table[code] = _NO_NUMBER if number is None else number
        return table[column]

    def _code(self, value: str) -> int:
        if value not in self.codes:
            if self.shares_codes:
                self.codes, self.shares_codes = self.codes.copy(), False
            self.codes[value] = len(self.codes)
        return self.codes[value]
