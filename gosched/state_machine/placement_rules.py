"""Checks where a task group may stand: topology, spread, affinity, anti-affinity, tolerations; and a node's taints.

Each check returns one line for people, or an empty string.
"""

from __future__ import annotations

from collections.abc import Sequence

from gosched.core.limits import MAX_RULES, MAX_TASKS_PER_JOB, MAX_VALUES
from gosched.core.matching import whole_number
from gosched.core.spec.placement_rules import (
    SELF,
    Affinity,
    AntiAffinity,
    LabelOp,
    Mode,
    SpreadRule,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOp,
    TopologyRule,
)
from gosched.core.spec.task_group import TaskGroup
from gosched.state_machine.names import id_problem, key_problem, name_problem

_MAX_WEIGHT = 1000


def rules_problem(what: str, group: TaskGroup) -> str:
    for name, rules in (
        ("topology", group.topology),
        ("spread", group.spread),
        ("affinity", group.affinity),
        ("anti_affinity", group.anti_affinity),
        ("tolerations", group.tolerations),
    ):
        problem = _count_problem(f"{what}: {name}", rules)
        if problem:
            return problem
        for rule in rules:
            problem = _rule_problem(f"{what}: {name}", rule)
            if problem:
                return problem
    return ""


def taints_problem(what: str, taints: tuple[Taint, ...]) -> str:
    known: dict[tuple[str, TaintEffect], None] = {}
    for taint in taints:
        problem = key_problem(f"{what}: key", taint.key) or id_problem(f"{what} {taint.key}", taint.value)
        if problem:
            return problem
        if taint.effect is TaintEffect.UNSPECIFIED:
            return f"{what} {taint.key}: effect must be no_schedule, prefer_no_schedule or no_execute"
        if (taint.key, taint.effect) in known:
            return f"{what} {taint.key} is given twice with one effect"
        known[taint.key, taint.effect] = None
    return _count_problem(what, taints)


def rules_bytes(group: TaskGroup) -> int:
    """Of the texts in a group's rules."""
    texts = [rule.level for rule in group.topology] + [rule.level for rule in group.spread]
    for anti in group.anti_affinity:
        texts += [anti.job, anti.level]
    for term in group.affinity:
        texts += [term.label, *term.values]
    for toleration in group.tolerations:
        texts += [toleration.key, toleration.value]
    return sum([len(text.encode()) for text in texts])


def _count_problem(what: str, rules: Sequence[object]) -> str:
    return f"{what}: {len(rules)} are given; at most {MAX_RULES} are allowed" if len(rules) > MAX_RULES else ""


def _rule_problem(what: str, rule: TopologyRule | SpreadRule | Affinity | AntiAffinity | Toleration) -> str:
    match rule:
        case TopologyRule():
            return key_problem(f"{what}: level", rule.level) or _mode_problem(what, rule.mode)
        case SpreadRule():
            if not 1 <= rule.max_skew <= MAX_TASKS_PER_JOB:
                return f"{what}: max_skew {rule.max_skew} is not between 1 and {MAX_TASKS_PER_JOB}"
            return key_problem(f"{what}: level", rule.level) or _mode_problem(what, rule.mode)
        case Affinity():
            return _affinity_problem(what, rule)
        case AntiAffinity():
            problem = key_problem(f"{what}: level", rule.level)
            return problem or ("" if rule.job == SELF else name_problem(f"{what}: job", rule.job))
        case Toleration():
            return _toleration_problem(what, rule)


def _mode_problem(what: str, mode: Mode) -> str:
    return f"{what}: mode must be required or preferred" if mode is Mode.UNSPECIFIED else ""


def _affinity_problem(what: str, term: Affinity) -> str:
    problem = key_problem(f"{what}: label", term.label)
    if problem:
        return problem
    what = f"{what} {term.label}"
    if not -_MAX_WEIGHT <= term.weight <= _MAX_WEIGHT:
        return f"{what}: weight {term.weight} is not between -{_MAX_WEIGHT} and {_MAX_WEIGHT}"
    if len(term.values) > MAX_VALUES:
        return f"{what}: {len(term.values)} values are given; at most {MAX_VALUES} are allowed"
    for value in term.values:
        problem = id_problem(what, value)
        if problem:
            return problem
    match term.op:
        case LabelOp.UNSPECIFIED:
            return f"{what}: op must be in, not_in, exists, not_exists, gt or lt"
        case LabelOp.IN | LabelOp.NOT_IN:
            return "" if term.values else f"{what}: {term.op.name.lower()} needs at least one value"
        case LabelOp.EXISTS | LabelOp.NOT_EXISTS:
            return f"{what}: {term.op.name.lower()} takes no values" if term.values else ""
        case LabelOp.GT | LabelOp.LT:
            one_number = len(term.values) == 1 and whole_number(term.values[0]) is not None
            return "" if one_number else f"{what}: {term.op.name.lower()} needs one whole number"


def _toleration_problem(what: str, toleration: Toleration) -> str:
    if toleration.op is TolerationOp.UNSPECIFIED:
        return f"{what}: op must be exists or equal"
    if toleration.key:
        problem = key_problem(f"{what}: key", toleration.key)
        if problem:
            return problem
    elif toleration.op is not TolerationOp.EXISTS:
        return f"{what}: only op exists goes without a key"
    if toleration.op is TolerationOp.EXISTS and toleration.value:
        return f"{what} {toleration.key}: op exists takes no value; use equal"
    return id_problem(f"{what} {toleration.key}", toleration.value)
