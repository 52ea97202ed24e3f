"""Rules of pods about other pods, read whole or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from gosched.integrations.kube_objects.pod_rules import ALWAYS, NO_RULES, Refused, Selector, keeps_apart, read_rules

SELECTOR = {"matchLabels": {"app": "web"}}
TERM = {"topologyKey": "zone", "labelSelector": SELECTOR}
SPREAD = {**TERM, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


def apart(**more: Any) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {ALWAYS: [{**TERM, **more}]}}}


def near(**more: Any) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {ALWAYS: [{**TERM, **more}]}}}


def spread(**more: Any) -> dict[str, Any]:
    return {"topologySpreadConstraints": [{**SPREAD, **more}]}


def test_rules_are_read() -> None:
    rules = read_rules({**apart(namespaces=["b", "a"]), **spread(maxSkew=2, nodeTaintsPolicy="Honor")}, "own")
    (term,), (even,) = rules.apart, rules.spread
    assert (term.key, term.namespaces) == ("zone", ("a", "b"))
    assert (even.pods.namespaces, even.max_skew, even.honors_taints) == (("own",), 2, True)
    assert term.selects("a", {"app": "web"})
    assert not term.selects("own", {"app": "web"})
    assert not term.selects("a", {"app": "other"})
    together = read_rules(near(), "own").together
    assert together is not None
    assert together.namespaces == ("own",)
    everywhere = read_rules(near(namespaceSelector={}), "own").together
    assert everywhere is not None
    assert everywhere.selects("any", {"app": "web"})


@pytest.mark.parametrize(
    ("labels", "condition", "selects"),
    [
        ({"a": "1"}, {"key": "a", "operator": "In", "values": ["2", "1"]}, True),
        ({}, {"key": "a", "operator": "In", "values": ["1"]}, False),
        ({}, {"key": "a", "operator": "NotIn", "values": ["1"]}, True),
        ({"a": "1"}, {"key": "a", "operator": "NotIn", "values": ["1"]}, False),
        ({"a": ""}, {"key": "a", "operator": "Exists"}, True),
        ({"a": ""}, {"key": "a", "operator": "DoesNotExist"}, False),
    ],
)
def test_selectors_select_as_kubernetes_does(labels: dict[str, str], condition: dict[str, Any], selects: bool) -> None:
    (term,) = read_rules(apart(labelSelector={"matchExpressions": [condition]}), "own").apart
    assert term.selects("own", labels) is selects


def test_an_empty_selector_selects_all_and_none_selects_no_pod() -> None:
    assert Selector(()).selects({})
    (nothing,) = read_rules(apart(labelSelector=None), "own").apart
    assert not nothing.selects("own", {"app": "web"})


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (apart(namespaceSelector={"matchLabels": {"a": "b"}}), "podAntiAffinity over zone with namespaceSelector"),
        (apart(matchLabelKeys=["a"]), "matchLabelKeys"),
        (near(mismatchLabelKeys=["a"]), "podAffinity over zone .*mismatchLabelKeys"),
        (apart(labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}), "'Gt'"),
        (apart(newField=True), "newField"),
        ({"affinity": {"podAffinity": {ALWAYS: [TERM, {**TERM, "topologyKey": "rack"}]}}}, "podAffinity of 2 terms"),
        (spread(minDomains="x"), "topologySpreadConstraints over zone .*minDomains x"),
        (spread(matchLabelKeys=["a"]), "matchLabelKeys"),
        (spread(nodeAffinityPolicy="Other"), "nodeAffinityPolicy 'Other'"),
        (spread(nodeTaintsPolicy="Other"), "nodeTaintsPolicy 'Other'"),
        (spread(maxSkew=0), "maxSkew 0"),
        (spread(newField=1), "newField"),
    ],
)
def test_what_would_not_be_kept_exactly_is_refused_by_name(spec: dict[str, Any], named: str) -> None:
    with pytest.raises(Refused, match=named):
        read_rules(spec, "own")


def test_wishes_are_no_rules() -> None:
    wish = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": TERM}]}}
    soft = spread(whenUnsatisfiable="ScheduleAnyway", minDomains=7)
    assert read_rules({"affinity": wish, **soft}, "own") == NO_RULES


def test_what_another_pods_rule_leaves_open_counts_as_if_it_held() -> None:
    open_rules = apart(
        namespaceSelector={"matchLabels": {"a": "b"}},
        labelSelector={"matchExpressions": [{"key": "a", "operator": "New"}]},
    )
    (term,) = keeps_apart(open_rules, "own")
    assert term.selects("any", {})
