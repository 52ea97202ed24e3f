"""Whether a node suits a task by its labels and taints: what the planner and the state machine agree on.

Rule: pure, and about one node. The planner asks the same of whole columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gosched.core.spec.placement_rules import Affinity, LabelOp, Taint, TaintEffect, Toleration, TolerationOp

_NUMBER = re.compile(r"-?[0-9]{1,18}")


def whole_number(text: str) -> int | None:
    """What GT and LT compare: up to 18 digits, so that it fits into 64 bits."""
    return int(text) if _NUMBER.fullmatch(text) else None


def meets(term: Affinity, labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels meets the condition; its weight plays no part."""
    value = labels.get(term.label)
    match term.op:
        case LabelOp.IN:
            return value in term.values
        case LabelOp.NOT_IN:
            return value not in term.values
        case LabelOp.EXISTS:
            return value is not None
        case LabelOp.NOT_EXISTS:
            return value is None
    number, bound = whole_number(value or ""), whole_number(term.values[0])
    if number is None or bound is None:
        return False
    return number > bound if term.op is LabelOp.GT else number < bound


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(_covers(toleration, taint) for toleration in tolerations)


def blocking_taint(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> Taint | None:
    """The first taint that keeps a task with these tolerations off a node."""
    for taint in taints:
        if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE and not tolerates(tolerations, taint):
            return taint
    return None


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in (TaintEffect.UNSPECIFIED, taint.effect):
        return False
    if not toleration.key:  # only EXISTS goes without a key
        return True
    return toleration.key == taint.key and (toleration.op is TolerationOp.EXISTS or toleration.value == taint.value)
