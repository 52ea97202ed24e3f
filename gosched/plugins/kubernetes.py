"""What users of Kubernetes expect: spread over domains by app, balanced nodes, and nodes kept for namespaces.

Invariant: a job's labels mean what the fields of a pod mean in Kubernetes; a value that cannot be read is the default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gosched.plugins import MAX_SCORE, BoolArray, IntArray, Nodes, Plugin, Request, with_defaults

APP = "app"
NAMESPACE = "k8s.gosched.io/namespace"
NAMESPACES = "k8s.gosched.io/namespaces"  # of a node
SPREAD_KEY = "k8s.gosched.io/spread-key"
MAX_SKEW = "k8s.gosched.io/max-skew"
WHEN_UNSATISFIABLE = "k8s.gosched.io/when-unsatisfiable"

HOSTNAME = "kubernetes.io/hostname"  # as a spread key: each node by itself
SCHEDULE_ANYWAY = "ScheduleAnyway"
DEFAULT_NAMESPACE = "default"
STEP = 10  # few different scores are cheap to look through
SCALE = 1000
MAX_DIGITS = 9


class Kubernetes(Plugin):
    name = "kubernetes"
    api_version = 1
    job_labels = (APP, NAMESPACE, SPREAD_KEY, MAX_SKEW, WHEN_UNSATISFIABLE)
    tracked_labels = (APP,)

    def __init__(self, options: Mapping[str, str]) -> None:
        balance = with_defaults(options, {"balance": "true"})["balance"]
        if balance not in ("true", "false"):
            raise ValueError(f"balance is {balance!a}, expected true or false")
        self._balances = balance == "true"
        self.reads = ("allowed", "resources") if self._balances else ("allowed",)

    def filter(self, request: Request, nodes: Nodes) -> Sequence[tuple[str, BoolArray]]:
        masks = [("closed to its namespace", _open_to(request.labels.get(NAMESPACE, DEFAULT_NAMESPACE), nodes))]
        spread = _spread(request, nodes)
        if spread is not None and not spread.anyway:
            masks.append(("without its spread key", spread.has_domain))
            masks.append(("beyond its max skew", spread.within(_number(request.labels.get(MAX_SKEW, "")))))
        return masks

    def score(self, request: Request, nodes: Nodes) -> IntArray | None:
        spread = _spread(request, nodes)
        scores = [spread.score()] if spread is not None and spread.anyway else []
        if self._balances:
            scores.append(_balance(request, nodes))
        return sum(scores[1:], scores[0]) // len(scores) // STEP * STEP if scores else None


@dataclass(frozen=True, slots=True)
class _Spread:
    """The spread of an app over domains."""

    has_domain: BoolArray
    #: By node, how many more tasks of the app its domain has than the domain with the fewest.
    above: IntArray
    anyway: bool

    def within(self, max_skew: int) -> BoolArray:
        """Return the nodes where one more task keeps the skew."""
        return self.above + 1 <= max_skew

    def score(self) -> IntArray:
        """Score the domains with the fewest tasks highest; nodes without a domain get 0."""
        most = max(int(self.above[self.has_domain].max(initial=0)), 1)
        return np.where(self.has_domain, MAX_SCORE - np.clip(self.above, 0, most) * MAX_SCORE // most, 0)


def _spread(request: Request, nodes: Nodes) -> _Spread | None:
    """Return the spread over the domains of the nodes that the job may use; tasks elsewhere do not count."""
    key, alike = request.labels.get(SPREAD_KEY), request.alike.get(APP)
    if key is None or alike is None:
        return None
    codes = np.arange(len(nodes)) if key == HOSTNAME else nodes.label(key)[0]
    counted = request.allowed & (codes >= 0)
    tasks = np.zeros(max(len(nodes), 1), dtype=np.int64)  # by domain: there are no more of them than nodes
    np.add.at(tasks, codes[counted], alike[counted])
    least = int(tasks[codes[counted]].min()) if counted.any() else 0
    return _Spread(codes >= 0, tasks[codes] - least, request.labels.get(WHEN_UNSATISFIABLE) == SCHEDULE_ANYWAY)


def _open_to(namespace: str, nodes: Nodes) -> BoolArray:
    """Return the nodes that take jobs of the namespace: a node that names namespaces takes jobs of these only."""
    codes, texts = nodes.label(NAMESPACES)
    named = [text for text in texts if namespace in [part.strip() for part in text.split(",")]]
    return (codes < 0) | nodes.having(NAMESPACES, named)


def _balance(request: Request, nodes: Nodes) -> IntArray:
    """Score as NodeResourcesBalancedAllocation: 100, less half the distance in percent between the used parts of CPU
    and memory, the task included."""
    cpu = _used(nodes, "cpu", request.resources.cpu_millis)
    memory = _used(nodes, "memory", request.resources.memory_bytes)
    score: IntArray = MAX_SCORE - np.abs(cpu - memory) * MAX_SCORE // (2 * SCALE)
    return score


def _used(nodes: Nodes, resource: str, more: int) -> IntArray:
    """Return the used part in thousandths. Amounts are below 2**52, so no product overflows 64 bits."""
    capacity = nodes.capacity(resource)
    used = np.clip(capacity - nodes.free(resource) + more, 0, np.maximum(capacity, 1))
    parts: IntArray = used * SCALE // np.maximum(capacity, 1)
    return parts


def _number(text: str) -> int:
    return max(int(text), 1) if text.isdecimal() and len(text) <= MAX_DIGITS else 1
