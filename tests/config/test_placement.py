"""The placement of a job file: text -> records, and text -> one line."""

from __future__ import annotations

import pytest

from gosched.config import ConfigError, parse_job_file
from gosched.core.spec.placement_rules import (
    Affinity,
    AntiAffinity,
    LabelOp,
    Mode,
    SpreadRule,
    Strategy,
    TaintEffect,
    Toleration,
    TolerationOp,
    TopologyRule,
)
from gosched.core.spec.task_group import TaskGroup


def group_of(placement: str) -> TaskGroup:
    (spec,) = parse_job_file(f"name: a\nrun: x\nplacement:\n  {placement}", "f")
    return spec.groups[0]


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("strategy: fragmentation", "strategy", Strategy.FRAGMENTATION),
        ("topology: {level: rack}", "topology", (TopologyRule(level="rack", mode=Mode.REQUIRED),)),
        (
            "topology: [{level: zone, mode: required}, {level: gpu_link, mode: preferred}]",
            "topology",
            (TopologyRule(level="zone", mode=Mode.REQUIRED), TopologyRule(level="gpu_link", mode=Mode.PREFERRED)),
        ),
        ("spread: {level: rack}", "spread", (SpreadRule(level="rack"),)),
        (
            "spread: [{level: zone, max_skew: 2, mode: preferred}]",
            "spread",
            (SpreadRule(level="zone", max_skew=2, mode=Mode.PREFERRED),),
        ),
        (
            "affinity: [{label: disk, op: in, values: [ssd, nvme], weight: 50}]",
            "affinity",
            (Affinity(label="disk", op=LabelOp.IN, values=("ssd", "nvme"), weight=50),),
        ),
        ("affinity: {label: a/b, op: exists}", "affinity", (Affinity(label="a/b", op=LabelOp.EXISTS),)),
        (
            "affinity: [{label: gen, op: gt, values: 4}, {label: gen, op: lt, values: ['-1'], weight: -5}]",
            "affinity",
            (
                Affinity(label="gen", op=LabelOp.GT, values=("4",)),
                Affinity(label="gen", op=LabelOp.LT, values=("-1",), weight=-5),
            ),
        ),
        (
            "affinity: [{label: ssd, op: not_in, values: true}, {label: x, op: not_exists}]",
            "affinity",
            (
                Affinity(label="ssd", op=LabelOp.NOT_IN, values=("true",)),
                Affinity(label="x", op=LabelOp.NOT_EXISTS),
            ),
        ),
        ("anti_affinity: [{job: self, level: node}]", "anti_affinity", (AntiAffinity(job="self", level="node"),)),
        ("anti_affinity: {job: etl, level: rack}", "anti_affinity", (AntiAffinity(job="etl", level="rack"),)),
        (
            "tolerations: [{key: gpu, op: exists, effect: no_schedule}]",
            "tolerations",
            (Toleration(key="gpu", op=TolerationOp.EXISTS, effect=TaintEffect.NO_SCHEDULE),),
        ),
        (
            "tolerations: [{key: team, value: nlp}, {op: exists}]",
            "tolerations",
            (Toleration(key="team", op=TolerationOp.EQUAL, value="nlp"), Toleration(op=TolerationOp.EXISTS)),
        ),
    ],
)
def test_a_rule_reaches_the_record(text, field, expected):
    assert getattr(group_of(text), field) == expected


def test_the_placement_of_the_contract_is_read():
    group = group_of(
        """topology: {level: rack, mode: required}
  strategy: binpack
  node_selector: {zone: us-east-1a}
  affinity: [{label: disk, op: in, values: [ssd], weight: 50}]
  anti_affinity: [{job: self, level: node}]
  tolerations: [{key: gpu, op: exists, effect: no_schedule}]"""
    )
    assert (group.strategy, group.node_selector) == (Strategy.BINPACK, (("zone", "us-east-1a"),))
    assert [len(rules) for rules in (group.topology, group.affinity, group.anti_affinity, group.tolerations)] == [1] * 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topology: rack", "f:4: placement.topology[0]: expected keys and values, got 'rack'"),
        ("topology: {mode: preferred}", 'f:4: placement.topology[0]: needs "level"'),
        ("topology: {level: rack, mode: prefered}", "f:4: placement.topology[0].mode: expected required or preferred"),
        ("topology: {level: ''}", "f:4: placement.topology[0].level: expected a name, got ''"),
        ("spread: {level: rack, max_skew: 0}", "f:4: placement.spread: 0 is not between 1 and 20000"),
        (
            "strategy: pack",
            "f:4: placement.strategy: expected binpack, spread, fragmentation or expected_waste, got 'pack'",
        ),
        ("affinity: [{label: a}]", 'f:4: placement.affinity[0]: needs "op"'),
        ("affinity: [{label: a, op: is}]", "f:4: placement.affinity[0].op: expected in, not_in, exists"),
        ("affinity: [{label: a, op: in}]", "f:4: placement.affinity[0]: in needs at least one value"),
        ("affinity: [{label: a, op: exists, values: b}]", "f:4: placement.affinity[0]: exists takes no values"),
        ("affinity: [{label: a, op: gt, values: [1, 2]}]", "f:4: placement.affinity[0]: gt needs one whole number"),
        ("affinity: [{label: a, op: gt, values: b}]", "f:4: placement.affinity[0]: gt needs one whole number"),
        ("affinity: [{label: a, op: exists, weight: 0}]", "f:4: placement.affinity[0]: a weight of 0 changes nothing"),
        (
            "affinity: [{label: a, op: exists, weight: 1001}]",
            "f:4: placement.affinity[0].weight: 1001 is not between -1000 and 1000",
        ),
        (
            "affinity: [{label: a, op: in, value: b}]",
            'f:4: placement.affinity[0].value: unknown key (did you mean "values"?)',
        ),
        ("affinity: [{label: a, op: in, values: [[b]]}]", "f:4: placement.affinity[0].values[0]: expected text"),
        (
            "anti_affinity: [{job: a b}]",
            "f:4: placement.anti_affinity[0].job: 'a b' may hold only letters, digits, '.', '_' and '-'",
        ),
        ("tolerations: [{value: a}]", "f:4: placement.tolerations[0]: only op exists goes without a key"),
        (
            "tolerations: [{key: a, op: exists, value: b}]",
            "f:4: placement.tolerations[0]: op exists takes no value; use equal",
        ),
        ("tolerations: [{key: a, effect: evict}]", "f:4: placement.tolerations[0].effect: expected no_schedule"),
        (
            f"tolerations: [{', '.join(['{op: exists}'] * 65)}]",
            "f:4: placement.tolerations: 65 are given; at most 64 are allowed",
        ),
    ],
)
def test_mistake_is_one_line_with_its_place(text, message):
    with pytest.raises(ConfigError) as caught:
        group_of(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
