"""Checks where the tasks of a group may run: topology, spread, affinity, anti-affinity, tolerations; and the taints of
nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gosched.core.limits import MAX_RULES, MAX_TASKS_PER_JOB, MAX_VALUES
from gosched.core.matching import whole_number
from gosched.core.rules.finding import Finding
from gosched.core.rules.values import check_id, check_job_name, check_key, check_name, check_range
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

_MAX_WEIGHT = 1000

_Rule = TopologyRule | SpreadRule | Affinity | AntiAffinity | Toleration


def check_placement(group: TaskGroup, *, is_strict: bool) -> Finding | None:
    """Return the first thing that is wrong, or None. The finding's path is that of a task group's key."""
    kinds: tuple[tuple[str, Sequence[_Rule]], ...] = (
        ("topology", group.topology),
        ("spread", group.spread),
        ("affinity", group.affinity),
        ("anti_affinity", group.anti_affinity),
        ("tolerations", group.tolerations),
    )
    for name, rules in kinds:
        found = _check_count(f"{name}:", rules, "placement", name)
        if found:
            return found
        for place, rule in enumerate(rules):
            found = _check_rule(name, rule, is_strict=is_strict)
            if found:
                return replace(found, path=("placement", name, place, *found.path))
    return None


def check_taints(taints: tuple[Taint, ...]) -> Finding | None:
    known: dict[tuple[str, TaintEffect], None] = {}
    for taint in taints:
        found = check_key("taint: key", taint.key) or check_id(f"taint {taint.key}", taint.value)
        if found:
            return found
        if taint.effect is TaintEffect.UNSPECIFIED:
            problem = "effect must be no_schedule, prefer_no_schedule or no_execute"
            return Finding(subject=f"taint {taint.key}:", problem=problem)
        if (taint.key, taint.effect) in known:
            return Finding(subject=f"taint {taint.key}", problem="is given twice with one effect")
        known[taint.key, taint.effect] = None
    return _check_count("taint:", taints)


def placement_bytes(group: TaskGroup) -> int:
    """Return the size of the texts in a group's rules."""
    texts = [rule.level for rule in group.topology] + [rule.level for rule in group.spread]
    for anti in group.anti_affinity:
        texts += [anti.job, anti.level]
    for term in group.affinity:
        texts += [term.label, *term.values]
    for toleration in group.tolerations:
        texts += [toleration.key, toleration.value]
    return sum([len(text.encode()) for text in texts])


def _check_count(subject: str, rules: Sequence[object], *path: str | int) -> Finding | None:
    if len(rules) > MAX_RULES:
        problem = f"{len(rules)} are given; at most {MAX_RULES} are allowed"
        return Finding(path=path, subject=subject, problem=problem)
    return None


def _check_rule(name: str, rule: _Rule, *, is_strict: bool) -> Finding | None:
    match rule:
        case TopologyRule():
            return check_key(f"{name}: level", rule.level, "level") or _check_mode(name, rule.mode)
        case SpreadRule():
            return (
                check_range(f"{name}: max_skew", rule.max_skew, 1, MAX_TASKS_PER_JOB, "max_skew")
                or check_key(f"{name}: level", rule.level, "level")
                or _check_mode(name, rule.mode)
            )
        case Affinity():
            return _check_affinity(name, rule)
        case AntiAffinity():
            found = check_key(f"{name}: level", rule.level, "level")
            check = check_job_name if is_strict else check_name
            return found or (None if rule.job == SELF else check(f"{name}: job", rule.job, "job"))
        case Toleration():
            return _check_toleration(name, rule)


def _check_mode(name: str, mode: Mode) -> Finding | None:
    if mode is Mode.UNSPECIFIED:
        return Finding(path=("mode",), subject=f"{name}:", problem="mode must be required or preferred")
    return None


def _check_affinity(name: str, term: Affinity) -> Finding | None:
    found = check_key(f"{name}: label", term.label, "label")
    if found:
        return found
    subject = f"{name} {term.label}"
    found = check_range(f"{subject}: weight", term.weight, -_MAX_WEIGHT, _MAX_WEIGHT, "weight")
    if found:
        return found
    if len(term.values) > MAX_VALUES:
        problem = f"{len(term.values)} values are given; at most {MAX_VALUES} are allowed"
        return Finding(path=("values",), subject=f"{subject}:", problem=problem)
    for place, value in enumerate(term.values):
        found = check_id(subject, value, "values", place)
        if found:
            return found
    problem = _op_problem(term)
    return Finding(subject=f"{subject}:", problem=problem) if problem else None


def _op_problem(term: Affinity) -> str:
    match term.op:
        case LabelOp.UNSPECIFIED:
            return "op must be in, not_in, exists, not_exists, gt or lt"
        case LabelOp.IN | LabelOp.NOT_IN:
            return "" if term.values else f"{term.op.name.lower()} needs at least one value"
        case LabelOp.EXISTS | LabelOp.NOT_EXISTS:
            return f"{term.op.name.lower()} takes no values" if term.values else ""
        case LabelOp.GT | LabelOp.LT:
            one_number = len(term.values) == 1 and whole_number(term.values[0]) is not None
            return "" if one_number else f"{term.op.name.lower()} needs one whole number"


def _check_toleration(name: str, toleration: Toleration) -> Finding | None:
    if toleration.op is TolerationOp.UNSPECIFIED:
        return Finding(path=("op",), subject=f"{name}:", problem="op must be exists or equal")
    if toleration.key:
        found = check_key(f"{name}: key", toleration.key, "key")
        if found:
            return found
    elif toleration.op is not TolerationOp.EXISTS:
        return Finding(subject=f"{name}:", problem="only op exists goes without a key")
    subject = f"{name} {toleration.key}"
    if toleration.op is TolerationOp.EXISTS and toleration.value:
        return Finding(subject=f"{subject}:", problem="op exists takes no value; use equal")
    return check_id(subject, toleration.value, "value")
