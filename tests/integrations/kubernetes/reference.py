"""Which nodes may take a pod now, as kube-scheduler decides it: by brute force, of plain objects, without our code.

Followed are its plugins NodeUnschedulable, NodeAffinity (nodeSelector alone), TaintToleration, NodeResourcesFit (CPUs
alone), PodTopologySpread and InterPodAffinity (the required terms).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]

ALWAYS = "requiredDuringSchedulingIgnoredDuringExecution"
_CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def legal_nodes(pod: Json, nodes: Mapping[str, Json], pods: Iterable[Json]) -> set[str]:
    """Return the names of the nodes that take the pod. `pods`: all of the cluster."""
    others = [each for each in pods if each is not pod and not _has_ended(each)]
    return {name for name in nodes if _takes(name, pod, nodes, others)}


def cpus(pod: Json) -> int:
    return sum(int(each["resources"]["requests"]["cpu"]) for each in pod["spec"]["containers"])


def _takes(name: str, pod: Json, nodes: Mapping[str, Json], others: list[Json]) -> bool:
    node = nodes[name]
    held = sum(cpus(each) for each in others if each["spec"].get("nodeName") == name)
    return (
        _selects(pod, node)
        and not _untolerated(pod, node)
        and held + cpus(pod) <= int(node["status"]["allocatable"]["cpu"])
        and all(_is_even(pod, node, each, nodes, others) for each in _spreads(pod))
        and _keeps_apart(pod, node, nodes, others)
        and _is_near(pod, node, nodes, others)
    )


def _is_even(pod: Json, node: Json, rule: Json, nodes: Mapping[str, Json], others: list[Json]) -> bool:
    key = rule["topologyKey"]
    if key not in labels(node):
        return False
    # A node counts for a constraint if it has the keys of all of the pod's constraints, and its policies let it.
    eligible = [
        each
        for each in nodes.values()
        if all(other["topologyKey"] in labels(each) for other in _spreads(pod))
        and (rule.get("nodeAffinityPolicy") == "Ignore" or _selects(pod, each))
        and not (rule.get("nodeTaintsPolicy") == "Honor" and _untolerated(pod, each))
    ]
    counts = {labels(each)[key]: 0 for each in eligible}
    for each in eligible:
        for other in others:
            here = other["spec"].get("nodeName") == each["metadata"]["name"]
            leaves = bool(other["metadata"].get("deletionTimestamp"))
            # An empty selector counts none, although it selects the pod itself.
            is_counted = bool(rule.get("labelSelector")) and selects(rule, other) and _same_namespace(other, pod)
            if here and is_counted and not leaves:
                counts[labels(each)[key]] += 1
    own = counts.get(labels(node)[key], 0) + selects(rule, pod)
    fewest = min(counts.values(), default=0) if len(counts) >= rule.get("minDomains", 1) else 0
    return bool(own - fewest <= rule["maxSkew"])


def _keeps_apart(pod: Json, node: Json, nodes: Mapping[str, Json], others: list[Json]) -> bool:
    for other in others:
        where = nodes.get(other["spec"].get("nodeName") or "")
        if where is None:
            continue
        if not _same_namespace(other, pod):
            continue  # no term of the trials names other namespaces
        mine = [term for term in _terms(pod, "podAntiAffinity") if selects(term, other)]
        theirs = [term for term in _terms(other, "podAntiAffinity") if selects(term, pod)]
        if any(_same_domain(term["topologyKey"], node, where) for term in (*mine, *theirs)):
            return False
    return True


def _is_near(pod: Json, node: Json, nodes: Mapping[str, Json], others: list[Json]) -> bool:
    for term in _terms(pod, "podAffinity"):
        if term["topologyKey"] not in labels(node):
            return False
        named = [each for each in others if _same_namespace(each, pod) and selects(term, each)]
        where = [nodes[on] for each in named if (on := each["spec"].get("nodeName")) in nodes]
        there = [each for each in where if term["topologyKey"] in labels(each)]
        is_first = not there and selects(term, pod)
        if not is_first and not any(_same_domain(term["topologyKey"], node, each) for each in there):
            return False
    return True


def _same_namespace(one: Json, other: Json) -> bool:
    return bool(one["metadata"]["namespace"] == other["metadata"]["namespace"])


def labels(found: Json) -> Mapping[str, str]:
    return found["metadata"].get("labels") or {}


def selects(rule: Json, pod: Json) -> bool:
    selector = rule.get("labelSelector")
    if selector is None:
        return False
    return all(labels(pod).get(key) == value for key, value in (selector.get("matchLabels") or {}).items())


def _selects(pod: Json, node: Json) -> bool:
    return all(labels(node).get(key) == value for key, value in (pod["spec"].get("nodeSelector") or {}).items())


def _untolerated(pod: Json, node: Json) -> bool:
    taints = [*(node["spec"].get("taints") or []), *([_CORDONED] if node["spec"].get("unschedulable") else [])]
    tolerated = {each["key"] for each in pod["spec"].get("tolerations") or []}  # all with Exists
    return any(taint["key"] not in tolerated for taint in taints)


def _spreads(pod: Json) -> list[Json]:
    return pod["spec"].get("topologySpreadConstraints") or []


def _terms(pod: Json, kind: str) -> list[Json]:
    return ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(ALWAYS) or []


def _same_domain(key: str, one: Json, other: Json) -> bool:
    return key in labels(one) and labels(one).get(key) == labels(other).get(key)


def _has_ended(pod: Json) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")
