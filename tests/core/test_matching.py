"""Labels and taints of a node against what a task asks for."""

import pytest

from gosched.core.matching import blocking_taint, meets, tolerates, whole_number
from gosched.core.spec.placement_rules import Affinity, LabelOp, Taint, TaintEffect, Toleration, TolerationOp

LABELS = {"disk": "ssd", "cores": "64", "below": "-3", "text": "64a"}


@pytest.mark.parametrize(
    ("label", "op", "values", "met"),
    [
        ("disk", LabelOp.IN, ("nvme", "ssd"), True),
        ("disk", LabelOp.IN, ("nvme",), False),
        ("none", LabelOp.IN, ("ssd",), False),
        ("disk", LabelOp.NOT_IN, ("ssd",), False),
        ("disk", LabelOp.NOT_IN, ("nvme",), True),
        ("none", LabelOp.NOT_IN, ("ssd",), True),
        ("disk", LabelOp.EXISTS, (), True),
        ("none", LabelOp.EXISTS, (), False),
        ("disk", LabelOp.NOT_EXISTS, (), False),
        ("none", LabelOp.NOT_EXISTS, (), True),
        ("cores", LabelOp.GT, ("63",), True),
        ("cores", LabelOp.GT, ("64",), False),
        ("cores", LabelOp.LT, ("65",), True),
        ("cores", LabelOp.LT, ("64",), False),
        ("below", LabelOp.LT, ("-2",), True),
        ("text", LabelOp.GT, ("0",), False),
        ("text", LabelOp.LT, ("999",), False),
        ("none", LabelOp.LT, ("999",), False),
    ],
)
def test_a_condition_on_a_label(label, op, values, met):
    assert meets(Affinity(label=label, op=op, values=values), LABELS) is met


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("-07", -7), ("", None), ("1.5", None), (" 1", None), ("1_0", None), ("\u0661", None), ("9" * 19, None)],
)
def test_a_whole_number(text, number):
    assert whole_number(text) == number


TAINT = Taint(key="gpu", value="yes", effect=TaintEffect.NO_SCHEDULE)


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(), True),
        (Toleration(effect=TaintEffect.NO_SCHEDULE), True),
        (Toleration(effect=TaintEffect.NO_EXECUTE), False),
        (Toleration(key="gpu"), True),
        (Toleration(key="cpu"), False),
        (Toleration(key="gpu", op=TolerationOp.EQUAL, value="yes"), True),
        (Toleration(key="gpu", op=TolerationOp.EQUAL, value="no"), False),
        (Toleration(key="gpu", op=TolerationOp.EQUAL, value="yes", effect=TaintEffect.NO_EXECUTE), False),
    ],
)
def test_a_toleration(toleration, tolerated):
    assert tolerates((Toleration(key="other"), toleration), TAINT) is tolerated


def test_the_first_taint_that_blocks_is_named_and_a_preference_never_blocks():
    soft = Taint(key="soft", effect=TaintEffect.PREFER_NO_SCHEDULE)
    hard = Taint(key="hard", effect=TaintEffect.NO_EXECUTE)
    assert blocking_taint((), (soft,)) is None
    assert blocking_taint((), (soft, TAINT, hard)) == TAINT
    assert blocking_taint((Toleration(key="gpu"),), (soft, TAINT, hard)) == hard
    assert blocking_taint((Toleration(),), (TAINT, hard)) is None
