"""The rules of a gang about its own pods: those of Kubernetes as a task group's, and back. Pure.

Invariant: a rule of pods is a rule of their job only if both are kept by the same placements of the gang.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.placement_rules import (
    LINK_LEVEL,
    NODE_LEVEL,
    NUMA_LEVEL,
    SELF,
    AntiAffinity,
    Mode,
    SpreadRule,
    TopologyRule,
)
from gosched.core.spec.task_group import TaskGroup
from gosched.integrations.kube_objects.pod_rules import ALWAYS, HOSTNAME, Refused, Rules, Spread, Term


@dataclass(frozen=True, slots=True)
class Member:
    """A pod of a gang."""

    namespace: str
    labels: Mapping[str, str]
    rules: Rules

    def is_of(self, term: Term) -> bool:
        return term.selects(self.namespace, self.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """The rules of a task group about the tasks of its job."""

    anti_affinity: tuple[AntiAffinity, ...] = ()
    topology: tuple[TopologyRule, ...] = ()
    spread: tuple[SpreadRule, ...] = ()

    def add_to(self, group: TaskGroup) -> TaskGroup:
        """Return a group that has no such rules with these."""
        return replace(group, anti_affinity=self.anti_affinity, topology=self.topology, spread=self.spread)


NOTHING = Within()


def within(kind: Sequence[Member], gang: Sequence[Member]) -> Within:
    """Return what the rules of the pods of one task group, which are equal, come to in their gang. Those that select
    none of it are left to the caller. Raises Refused."""
    rules = kind[0].rules
    topology: tuple[TopologyRule, ...] = ()
    if rules.together is not None and _is_about_all(rules.together, gang, "podAffinity"):
        if any(member.rules.together != rules.together for member in gang):
            raise Refused(_mixed("podAffinity", rules.together.key))
        topology = (TopologyRule(level=rules.together.key),)
    apart = [AntiAffinity(level=term.key) for term in rules.apart if _is_about_all(term, gang, "podAntiAffinity")]
    spread = [_even(each, kind, gang) for each in rules.spread]
    return Within(anti_affinity=tuple(dict.fromkeys(apart)), topology=topology, spread=tuple(spread))


def carried(spec: JobSpec, labelled: Collection[str]) -> dict[str, Within]:
    """Return the rules of a job's task groups, by name, that its pods can have. `labelled`: names of the groups whose
    pods have a label of their own."""
    if spec.task_count == 1:
        return {}
    common = {_single_domain(group) for group in spec.groups}
    (topology,) = common if len(common) == 1 else ((),)
    return {
        group.name: Within(
            anti_affinity=tuple(
                [rule for rule in group.anti_affinity if rule.job == SELF and _is_of_nodes(rule.level)]
            ),
            topology=topology,
            spread=tuple([rule for rule in group.spread if rule.mode is Mode.REQUIRED and _is_of_nodes(rule.level)])
            if len(spec.groups) == 1 or group.name in labelled
            else (),
        )
        for group in spec.groups
    }


def without(group: TaskGroup, rules: Within) -> TaskGroup:
    """Return the group with its rules about tasks but these."""
    return replace(
        group,
        anti_affinity=tuple([rule for rule in group.anti_affinity if rule not in rules.anti_affinity]),
        topology=tuple([rule for rule in group.topology if rule not in rules.topology]),
        spread=tuple([rule for rule in group.spread if rule not in rules.spread]),
    )


def written(rules: Within, gang: Mapping[str, str], kind: Mapping[str, str]) -> dict[str, Any]:
    """Return the rules as fields of a pod's spec. `gang` and `kind`: labels of all of its pods, and of the group's."""

    def term(level: str, labels: Mapping[str, str]) -> dict[str, Any]:
        key = HOSTNAME if level == NODE_LEVEL else level
        return {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": key}

    affinity = {
        name: {ALWAYS: [term(rule.level, gang) for rule in found]}
        for name, found in (("podAntiAffinity", rules.anti_affinity), ("podAffinity", rules.topology))
        if found
    }
    spread = [
        {
            **term(rule.level, kind),
            "maxSkew": rule.max_skew,
            "whenUnsatisfiable": "DoNotSchedule",
            "nodeTaintsPolicy": "Honor",
        }
        for rule in rules.spread
    ]
    return {key: value for key, value in (("affinity", affinity), ("topologySpreadConstraints", spread)) if value}


def by_node(rules: Within) -> Within:
    """Return rules with the level that job files name for a node."""

    def level(found: str) -> str:
        return NODE_LEVEL if found == HOSTNAME else found

    return Within(
        anti_affinity=tuple([replace(rule, level=level(rule.level)) for rule in rules.anti_affinity]),
        topology=tuple([replace(rule, level=level(rule.level)) for rule in rules.topology]),
        spread=tuple([replace(rule, level=level(rule.level)) for rule in rules.spread]),
    )


def _is_about_all(term: Term, gang: Sequence[Member], kind: str) -> bool:
    """Return whether a term selects all pods of a gang, and not none. Raises Refused if it selects some."""
    inside = sum(1 for member in gang if member.is_of(term))
    if 0 < inside < len(gang):
        raise Refused(_mixed(kind, term.key))
    return inside > 0


def _mixed(kind: str, key: str) -> str:
    return (
        f"required {kind} over {key} names some pods of its gang and not others, which is not supported: have its "
        "labelSelector select all of them, or none"
    )


def _even(rule: Spread, kind: Sequence[Member], gang: Sequence[Member]) -> SpreadRule:
    name = f"topologySpreadConstraints over {rule.pods.key} with DoNotSchedule"
    if rule.min_domains > 1 or rule.ignores_affinity:
        raise Refused(f"{name} of a gang with minDomains or nodeAffinityPolicy: Ignore is not supported: leave it out")
    if not all(member.is_of(rule.pods) for member in kind):
        raise Refused(f"{name}: its labelSelector does not select the pod itself; have it select its gang")
    if sum(1 for member in gang if member.is_of(rule.pods)) > len(kind):
        raise Refused(f"{name} counts pods of its gang that ask for other than it does: select one kind alone")
    return SpreadRule(level=rule.pods.key, max_skew=rule.max_skew)


def _single_domain(group: TaskGroup) -> tuple[TopologyRule, ...]:
    """Return the rule that pods can have of those about one domain: they have one."""
    found = [rule for rule in group.topology if rule.mode is Mode.REQUIRED and _is_of_nodes(rule.level)]
    return tuple(found[:1])


def _is_of_nodes(level: str) -> bool:
    return level not in (NUMA_LEVEL, LINK_LEVEL)
