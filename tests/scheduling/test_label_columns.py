"""Copies of the columns share what they can, and each keeps what it had."""

from __future__ import annotations

from gosched.core.spec.placement_rules import Affinity, LabelOp
from gosched.scheduling.snapshot.labels import LabelColumns


def nodes(columns: LabelColumns, label: str, op: LabelOp, *values: str, count: int) -> list[int]:
    found: list[int] = columns.meeting(Affinity(label=label, op=op, values=values), count).nonzero()[0].tolist()
    return found


def test_a_copy_keeps_its_values_while_the_other_gets_new_ones() -> None:
    first = LabelColumns()
    first.assign(2, [0, 1], [{"gosched.io/node": "a"}, {"gosched.io/node": "b"}])
    view = first.copy()
    assert view.codes is first.codes  # a label with a value of its own for each node costs a copy nothing
    first.assign(2, [0], [{"gosched.io/node": "c"}])
    assert nodes(view, "gosched.io/node", LabelOp.IN, "a", "c", count=2) == [0]
    assert nodes(first, "gosched.io/node", LabelOp.IN, "a", "c", count=2) == [0]
    assert "c" not in view.codes
    view.assign(2, [1], [{"gosched.io/node": "d"}])
    assert "d" not in first.codes
    assert nodes(view, "gosched.io/node", LabelOp.IN, "d", count=2) == [1]
    assert nodes(first, "gosched.io/node", LabelOp.IN, "b", count=2) == [1]


def test_numbers_are_those_of_the_label_alone() -> None:
    columns = LabelColumns()
    columns.assign(3, [0, 1, 2], [{"slots": "9", "name": "7"}, {"slots": "x", "name": "12"}, {"name": "1"}])
    assert nodes(columns, "slots", LabelOp.GT, "8", count=3) == [0]
    assert nodes(columns, "slots", LabelOp.LT, "10", count=3) == [0]
    assert nodes(columns, "name", LabelOp.GT, "5", count=3) == [0, 1]
    assert nodes(columns, "none", LabelOp.LT, "5", count=3) == []
