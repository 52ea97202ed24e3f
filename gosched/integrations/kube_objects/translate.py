"""What a pod asks for, as a task group and a job's policies. Pure.

Invariant: a rule that gosched cannot keep is refused by its name. What is only a wish in Kubernetes, too, and has no
counterpart here, is left out; docs/operations/kubernetes-scheduler.md lists these.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gosched.config.node_labels import NODE_LABEL
from gosched.core.limits import MAX_PRIORITY
from gosched.core.resources import Resources
from gosched.core.spec.placement_rules import Affinity, LabelOp, TaintEffect, Toleration, TolerationOp
from gosched.core.spec.policies import PreemptionPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.integrations.kube_objects.pod_rules import NO_RULES, Refused, Rules, read_rules
from gosched.integrations.kube_objects.pods import QUEUE, Pod

#: Of each node that is one of Kubernetes: a taint, so that jobs that are no pods stay away, and a label with the name
#: of its cluster. A label of the jobs that are pods, too.
CLUSTER = "gosched.io/kubernetes"
POD_COMMAND = "kubernetes-pod"

EFFECTS = {
    "": TaintEffect.UNSPECIFIED,
    "NoSchedule": TaintEffect.NO_SCHEDULE,
    "PreferNoSchedule": TaintEffect.PREFER_NO_SCHEDULE,
    "NoExecute": TaintEffect.NO_EXECUTE,
}
OPERATORS = {
    "In": LabelOp.IN,
    "NotIn": LabelOp.NOT_IN,
    "Exists": LabelOp.EXISTS,
    "DoesNotExist": LabelOp.NOT_EXISTS,
    "Gt": LabelOp.GT,
    "Lt": LabelOp.LT,
}
MAX_WEIGHT = 100

# Kubernetes' priorities go to 2,000,000,000, ours from 0 to 1000. Those from -100 to 500 differ here as they do there;
# beyond, they are apart where they differ by 3 % or more.
_ZERO, _EXACT, _HIGHEST = 100, 500, 2_000_001_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a pod asks of the scheduler."""

    queue: str
    priority: int
    preemption: PreemptionPolicy
    #: Its resources and rules, as a group of one task. Pods with equal ones may take each other's place in a gang.
    group: TaskGroup
    #: About other pods. What they come to depends on where these are, and is said when its job is made.
    rules: Rules = NO_RULES


def translate(pod: Pod, *, cluster: str, queue: str, volumes: tuple[Affinity, ...] = ()) -> Wanted:
    """Return what a waiting pod asks for. `cluster`: of its nodes. `queue`: of pods that name none. `volumes`: what its
    volumes require of a node. Raises Refused."""
    spec = pod.raw.get("spec") or {}
    metadata = pod.raw.get("metadata") or {}
    _refuse_what_is_not_understood(spec)
    return Wanted(
        queue=(metadata.get("labels") or {}).get(QUEUE) or (metadata.get("annotations") or {}).get(QUEUE) or queue,
        priority=priority(spec.get("priority") or 0),
        preemption=PreemptionPolicy.NEVER
        if spec.get("preemptionPolicy") == "Never"
        else PreemptionPolicy.LOWER_PRIORITY,
        group=_group(spec, cluster, pod.requests, volumes),
        rules=read_rules(spec, pod.namespace),
    )


def priority(value: int) -> int:
    """Return a priority of Kubernetes as ours: never the other way round, and equal only where it must be."""
    if value <= _EXACT:
        return max(0, _ZERO + value)
    steps = MAX_PRIORITY - _ZERO - _EXACT
    share = math.log(value / _EXACT) / math.log(_HIGHEST / _EXACT)
    return min(MAX_PRIORITY, _ZERO + _EXACT + math.ceil(steps * share))


def priority_value(ours: int) -> int:
    """Return the least priority of Kubernetes that is this one of ours."""
    if ours <= _ZERO + _EXACT:
        return ours - _ZERO
    return bisect_left(range(_HIGHEST + 1), ours, lo=_EXACT, key=priority)


def _group(spec: Mapping[str, Any], cluster: str, requests: Resources, volumes: tuple[Affinity, ...]) -> TaskGroup:
    group = placed(spec, TaskGroup(name="pods", count=1, resources=requests, command=(POD_COMMAND,)), volumes)
    return replace(
        group,
        node_selector=tuple(sorted({**dict(group.node_selector), CLUSTER: cluster}.items())),
        tolerations=(Toleration(key=CLUSTER), *group.tolerations),
    )


def placed(spec: Mapping[str, Any], group: TaskGroup, volumes: tuple[Affinity, ...] = ()) -> TaskGroup:
    """Return the group with the pod's rules about nodes. Raises Refused."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = required_terms(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}, "the pod")
    preferred = _preferred(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or [])
    return replace(
        group,
        node_selector=tuple(sorted((str(key), str(value)) for key, value in (spec.get("nodeSelector") or {}).items())),
        affinity=(*required, *volumes, *preferred),
        tolerations=tuple([_toleration(each) for each in spec.get("tolerations") or []]),
    )


def required_terms(selector: Mapping[str, Any], whose: str) -> list[Affinity]:
    """Return the conditions of a node selector. Raises Refused."""
    written = selector.get("nodeSelectorTerms") or []
    terms = [term for term in written if _expressions(term)]
    if written and not terms:
        raise Refused(f"required node affinity of {whose} has no condition in any term, and so matches no node")
    if len(terms) > 1:
        raise Refused(
            f"required node affinity of {whose} with {len(terms)} alternative terms is not supported: write one term, "
            "in which a label has one of several values by the operator In"
        )
    return [_affinity(each) for term in terms for each in _expressions(term)]


def _preferred(wishes: list[Mapping[str, Any]]) -> list[Affinity]:
    """Return the wishes of one condition; a wish of several has no counterpart, and is none that must be kept."""
    found = []
    for wish in wishes:
        expressions = _expressions(wish.get("preference") or {})
        if len(expressions) == 1:
            found.append(_affinity(expressions[0], weight=max(1, min(MAX_WEIGHT, int(wish.get("weight") or 1)))))
    return found


def _expressions(term: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    fields = [{**each, "key": NODE_LABEL} for each in term.get("matchFields") or []]
    if any(each.get("key") != "metadata.name" for each in term.get("matchFields") or []):
        raise Refused("node affinity by a field other than metadata.name is not supported")
    return [*(term.get("matchExpressions") or []), *fields]


def _affinity(expression: Mapping[str, Any], weight: int = 0) -> Affinity:
    operator = str(expression.get("operator"))
    if operator not in OPERATORS:
        raise Refused(f"node affinity with the operator {operator[:40]!a} is not supported")
    values = tuple([str(value) for value in expression.get("values") or []])
    return Affinity(label=str(expression.get("key")), op=OPERATORS[operator], values=values, weight=weight)


def _toleration(written: Mapping[str, Any]) -> Toleration:
    effect, operator = str(written.get("effect") or ""), str(written.get("operator") or "Equal")
    if effect not in EFFECTS or operator not in ("Equal", "Exists"):
        raise Refused(f"a toleration with operator {operator[:40]!a} and effect {effect[:40]!a} is not supported")
    exists = operator == "Exists"
    return Toleration(
        key=str(written.get("key") or ""),
        op=TolerationOp.EXISTS if exists else TolerationOp.EQUAL,
        value="" if exists else str(written.get("value") or ""),
        effect=EFFECTS[effect],
    )


def _refuse_what_is_not_understood(spec: Mapping[str, Any]) -> None:
    """Raise Refused for rules that must be kept, and that gosched would not keep."""
    if spec.get("resourceClaims"):
        raise Refused("resourceClaims (dynamic resource allocation) are not supported: ask for extended resources")
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        if any(port.get("hostPort") for port in container.get("ports") or []):
            raise Refused(f"hostPort of container {container.get('name')} is not supported: use a Service")
    for volume in spec.get("volumes") or []:
        if volume.get("ephemeral"):
            raise Refused(
                f"volume {volume.get('name')} is a generic ephemeral one, which binds late: claim one by name"
            )
