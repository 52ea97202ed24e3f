"""A pod's rules about other pods: required affinity and anti-affinity, and spread that must be kept. Pure.

Invariant: a rule of a pod that gosched is to place is read whole or refused by name. Of other pods' anti-affinity, what
cannot be told from the pod alone counts as if it held: a pod may be kept away from them without need, never beside them
against their rule.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from gosched.core.limits import MAX_TASKS_PER_JOB

HOSTNAME = "kubernetes.io/hostname"
ALWAYS = "requiredDuringSchedulingIgnoredDuringExecution"
_TERM = ("labelSelector", "topologyKey", "namespaces", "namespaceSelector", "matchLabelKeys", "mismatchLabelKeys")
_SPREAD = (
    *("labelSelector", "topologyKey", "maxSkew", "whenUnsatisfiable", "minDomains"),
    *("nodeAffinityPolicy", "nodeTaintsPolicy", "matchLabelKeys"),
)
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")

Json = Mapping[str, Any]


class Refused(ValueError):
    """One line: which rule of the pod gosched cannot keep, and what to do."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Which labels a pod must have."""

    #: Key, operator and values; all must hold.
    conditions: tuple[tuple[str, str, tuple[str, ...]], ...]
    #: It selects no pod, whatever the conditions: none was written.
    is_none: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether it was written and selects all pods."""
        return not self.conditions and not self.is_none

    def selects(self, labels: Mapping[str, str]) -> bool:
        return not self.is_none and all(
            _meets(labels.get(key), operator, values) for key, operator, values in self.conditions
        )


@dataclass(frozen=True, slots=True)
class Term:
    """Pods, and the label of nodes whose equal values make a domain."""

    key: str
    #: Of the pods; empty: all.
    namespaces: tuple[str, ...]
    selector: Selector

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (not self.namespaces or namespace in self.namespaces) and self.selector.selects(labels)


@dataclass(frozen=True, slots=True)
class Spread:
    """A spread that must be kept: no domain has more than `max_skew` of the pods more than the one with the fewest."""

    pods: Term
    max_skew: int
    #: Whether nodes with taints that the pod does not tolerate make no domain.
    honors_taints: bool
    #: The label keys of all spreads of the pod that must be kept: a node that lacks one makes no domain for any.
    keys: tuple[str, ...]
    #: With fewer domains than these the one with the fewest counts as empty.
    min_domains: int = 1
    #: Whether nodes that the pod's selector and affinity leave out make domains, too.
    ignores_affinity: bool = False

    @property
    def counts_none(self) -> bool:
        """Return whether it asks for the label alone: Kubernetes counts no pod by an empty selector, although that
        selects the pod itself."""
        return self.pods.selector.is_empty


@dataclass(frozen=True, slots=True)
class Rules:
    """What a pod requires of where other pods are."""

    #: No pod of these is in its domain.
    apart: tuple[Term, ...] = ()
    #: A pod of these is in its domain; None: it requires none.
    together: Term | None = None
    spread: tuple[Spread, ...] = ()


NO_RULES = Rules()


def read_rules(spec: Json, namespace: str) -> Rules:
    """Return the rules of a pod that is to be placed. Raises Refused."""
    affinity = spec.get("affinity") or {}
    apart, together = (
        tuple(dict.fromkeys([_term(each, namespace, kind) for each in (affinity.get(kind) or {}).get(ALWAYS) or []]))
        for kind in ("podAntiAffinity", "podAffinity")
    )
    if len(together) > 1:
        raise Refused(f"required podAffinity of {len(together)} terms is not supported: write one")
    constraints = spec.get("topologySpreadConstraints") or []
    hard = [each for each in constraints if each.get("whenUnsatisfiable", "DoNotSchedule") != "ScheduleAnyway"]
    keys = tuple(sorted({str(each.get("topologyKey") or "") for each in hard}))
    spread = tuple([_spread(each, namespace, keys) for each in hard])
    return Rules(apart, together[0] if together else None, spread)


def keeps_apart(spec: Json, namespace: str) -> tuple[Term, ...]:
    """Return the required anti-affinity of any pod, as far as it may concern others."""
    affinity = spec.get("affinity") or {}
    written = (affinity.get("podAntiAffinity") or {}).get(ALWAYS) or []
    return tuple(
        [
            Term(str(each.get("topologyKey")), _namespaces(each, namespace), _selector(each.get("labelSelector")))
            for each in written
        ]
    )


def without_rules(spec: Json) -> dict[str, Any]:
    """Return a pod's spec but for what `read_rules` reads of it."""
    affinity = dict(spec.get("affinity") or {})
    for kind in ("podAntiAffinity", "podAffinity"):
        affinity[kind] = {key: value for key, value in (affinity.get(kind) or {}).items() if key != ALWAYS}
    soft = [
        each
        for each in spec.get("topologySpreadConstraints") or []
        if each.get("whenUnsatisfiable", "DoNotSchedule") == "ScheduleAnyway"
    ]
    return {**spec, "affinity": affinity, "topologySpreadConstraints": soft}


def _term(written: Json, namespace: str, kind: str) -> Term:
    key = str(written.get("topologyKey") or "")
    rule = f"required {kind} over {key[:80]}"
    _refuse_unknown(written, _TERM, rule)
    if written.get("matchLabelKeys") or written.get("mismatchLabelKeys"):
        raise Refused(f"{rule} with matchLabelKeys or mismatchLabelKeys is not supported: write labelSelector alone")
    if written.get("namespaceSelector"):
        raise Refused(f"{rule} with namespaceSelector is not supported: list the namespaces")
    return Term(key, _namespaces(written, namespace), _selector(written.get("labelSelector"), rule))


def _spread(written: Json, namespace: str, keys: tuple[str, ...]) -> Spread:
    key = str(written.get("topologyKey") or "")
    rule = f"topologySpreadConstraints over {key[:80]} with DoNotSchedule"
    _refuse_unknown(written, _SPREAD, rule)
    if written.get("matchLabelKeys"):
        raise Refused(f"{rule} and matchLabelKeys is not supported: write labelSelector alone")
    fewest = written.get("minDomains") or 1
    if not isinstance(fewest, int) or fewest < 1:
        raise Refused(f"{rule} and minDomains {str(fewest)[:40]} is not supported: write 1 or more")
    affinity = _policy(written, "nodeAffinityPolicy", "Honor", rule)
    taints = _policy(written, "nodeTaintsPolicy", "Ignore", rule)
    skew = written.get("maxSkew")
    if not isinstance(skew, int) or not 1 <= skew <= MAX_TASKS_PER_JOB:
        raise Refused(f"{rule} and maxSkew {str(skew)[:40]} is not supported: write 1 to {MAX_TASKS_PER_JOB}")
    pods = Term(key, (namespace,), _selector(written.get("labelSelector"), rule))
    return Spread(pods, skew, taints == "Honor", keys, fewest, affinity == "Ignore")


def _policy(written: Json, field: str, default: str, rule: str) -> str:
    found = written.get(field) or default
    if found not in ("Honor", "Ignore"):
        raise Refused(f"{rule} and {field} {str(found)[:40]!a} is not supported: write Honor or Ignore")
    return str(found)


def _refuse_unknown(written: Json, known: Collection[str], rule: str) -> None:
    unknown = [key for key, value in written.items() if key not in known and value not in (None, [], "")]
    if unknown:
        raise Refused(f"{rule} with {unknown[0][:60]} is not supported: leave that out")


def _namespaces(written: Json, own: str) -> tuple[str, ...]:
    """Return the namespaces of a term; empty: all. Which ones a selector of namespaces selects is not known here."""
    if written.get("namespaceSelector") is not None:
        return ()
    return tuple(sorted([str(each) for each in written.get("namespaces") or []])) or (own,)


def _selector(written: Json | None, rule: str = "") -> Selector:
    """Return a label selector; with a `rule`, what is not understood of it is refused."""
    if written is None:
        return Selector((), is_none=True)
    conditions: list[tuple[str, str, tuple[str, ...]]] = [
        (str(key), "In", (str(value),)) for key, value in (written.get("matchLabels") or {}).items()
    ]
    for each in written.get("matchExpressions") or []:
        operator = str(each.get("operator"))
        if rule and operator not in _OPERATORS:
            raise Refused(f"{rule} with the operator {operator[:40]!a} is not supported")
        values = tuple(sorted([str(value) for value in each.get("values") or []]))
        conditions.append((str(each.get("key")), operator, values))
    return Selector(tuple(sorted(conditions)))


def _meets(value: str | None, operator: str, values: Collection[str]) -> bool:
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return True  # of another pod's rule that is not understood: it counts as if it held
