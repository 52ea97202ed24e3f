"""Where the pods are that the rules of pods speak of, and whether a placement breaks one.

Invariant: a rule counts both ways: what a pod requires of the others, and what they require of it, whoever placed them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from gosched.config.node_labels import NODE_LABEL
from gosched.core.matching import blocking_taint, meets
from gosched.core.resources import ZERO
from gosched.core.spec.task_group import TaskGroup
from gosched.integrations.kube_objects.nodes import KubeNode
from gosched.integrations.kube_objects.pod_rules import Refused, Rules, Spread, Term, read_rules
from gosched.integrations.kube_objects.pods import Pod
from gosched.integrations.kube_objects.translate import POD_COMMAND, placed
from gosched.integrations.kubernetes.world import World

_BARE = TaskGroup(name="pods", count=1, resources=ZERO, command=(POD_COMMAND,))


class Neighbours:
    """The pods and nodes as they are now; made anew for each look, as it keeps what it has counted. `node_of` returns
    the node that a pod is on or is being bound to; empty: it has none."""

    def __init__(self, world: World, node_of: Callable[[Pod], str]) -> None:
        self._world = world
        self.node_of = node_of
        self._labels: dict[str, Mapping[str, str]] = {}
        self._selected: dict[Term, list[Pod]] = {}
        self._counts: dict[tuple[Term, bool], Counter[str]] = {}
        self._domains: dict[tuple[Spread, TaskGroup], dict[str, int]] = {}

    def domain(self, node: str, key: str) -> str:
        """Return the value of a node's label; empty: it is in no domain."""
        if node not in self._labels:
            known = self._world.nodes.get(node)
            self._labels[node] = dict(known.labels) if known else {}
        return self._labels[node].get(key, "")

    def selected(self, term: Term) -> list[Pod]:
        """Return the live pods that a term selects."""
        if term not in self._selected:
            namespaces = [ns for ns in self._world.live if not term.namespaces or ns in term.namespaces]
            self._selected[term] = [
                pod for ns in namespaces for pod in self._world.live[ns].values() if term.selector.selects(pod.labels)
            ]
        return self._selected[term]

    def keepers(self, term: Term) -> Iterable[Pod]:
        """Return the live pods whose required anti-affinity has this term."""
        return self._world.keepers.get(term, {}).values()

    def towards(self, pod: Pod) -> list[Term]:
        """Return the terms of required anti-affinity, of any pods, that select this one."""
        return [term for term in self._world.keepers if term.selects(pod.namespace, pod.labels)]

    def domains(self, spread: Spread, pod: Pod) -> dict[str, int]:
        """Return how many pods that a spread counts are in each domain, as Kubernetes counts them for this pod."""
        group = placed(pod.raw.get("spec") or {}, _BARE)
        if (spread, group) not in self._domains:
            key = spread.pods.key
            suit = {name for name, node in self._world.nodes.items() if _counts(node, spread, group)}
            found = {value: 0 for name in suit if (value := self.domain(name, key))}
            for each in () if spread.counts_none else self.selected(spread.pods):
                node = self.node_of(each)
                if node in suit and not each.deleting and (value := self.domain(node, key)):
                    found[value] += 1
            self._domains[spread, group] = found
        return self._domains[spread, group]

    def fewest(self, spread: Spread, pod: Pod) -> int:
        """Return how many counted pods the domain with the fewest has; 0 where there are fewer than minDomains."""
        counts = self.domains(spread, pod)
        return min(counts.values()) if len(counts) >= spread.min_domains else 0

    def closed_domain(self, spread: Spread, pod: Pod) -> str:
        """Return a domain that a spread counts although none of its nodes takes the pod now; empty: there is none."""
        group = placed(pod.raw.get("spec") or {}, _BARE)
        open_nodes = [
            name
            for name, node in self._world.nodes.items()
            if not node.unfit and _suits(node, group) and blocking_taint(group.tolerations, node.taints) is None
        ]
        found = {self.domain(name, spread.pods.key) for name in open_nodes}
        return min([value for value in self.domains(spread, pod) if value not in found], default="")

    def broken(self, pod: Pod, node: str) -> str:
        """Return which rule breaks, the pod's own or another's, if a pod that is given to a node is bound there; empty:
        none."""
        try:
            return self._broken(read_rules(pod.raw.get("spec") or {}, pod.namespace), pod, node)
        except Refused as error:
            return str(error)

    def _broken(self, rules: Rules, pod: Pod, node: str) -> str:
        for term in rules.apart:
            if self._others(term, pod, node, keep=False):
                where = self.domain(node, term.key)
                return f"required podAntiAffinity over {term.key}: a pod that it names is in {where}"
        for term in self.towards(pod):
            if self._others(term, pod, node, keep=True):
                where = self.domain(node, term.key)
                return f"the required podAntiAffinity over {term.key} of a pod in {where} names this one"
        if rules.together is not None and not self._is_together(rules.together, pod, node):
            return f"required podAffinity over {rules.together.key}: no pod that it names is in the domain of {node}"
        for spread in rules.spread:
            counts = self.domains(spread, pod)
            value = self.domain(node, spread.pods.key)
            if value not in counts or counts[value] - self.fewest(spread, pod) > spread.max_skew:
                return f"topologySpreadConstraints over {spread.pods.key}: {value or node} would have too many"
        return ""

    def _is_together(self, term: Term, pod: Pod, node: str) -> bool:
        where = self.domain(node, term.key)
        if not where:
            return False
        if pod.group is None and self._others(term, pod, node, keep=False):
            return True
        bound: set[str] = set()
        starting: set[str] = set()
        for each in self.selected(term):
            if each.uid != pod.uid and (value := self.domain(self.node_of(each), term.key)):
                # Members that are being bound with this one vouch for each other only where no other pod is named.
                (starting if each.group == pod.group and pod.group and not each.node else bound).add(value)
        if bound or starting:
            return where in (bound or starting)
        return term.selects(pod.namespace, pod.labels)

    def _others(self, term: Term, pod: Pod, node: str, *, keep: bool) -> int:
        """Return how many other pods of the node's domain a term selects; with `keep`, how many have the term."""
        value = self.domain(node, term.key)
        if not value:
            return 0
        if (term, keep) not in self._counts:
            pods = self.keepers(term) if keep else self.selected(term)
            self._counts[term, keep] = Counter([self.domain(self.node_of(each), term.key) for each in pods])
        is_one = term in pod.keeps_apart if keep else term.selects(pod.namespace, pod.labels)
        own = is_one and self.domain(self.node_of(pod), term.key) == value
        return self._counts[term, keep][value] - own


def _counts(node: KubeNode, spread: Spread, group: TaskGroup) -> bool:
    """Return whether the domain of a node counts, however full it is."""
    labels = dict(node.labels)
    if not all(key in labels for key in spread.keys) or not (spread.ignores_affinity or _suits(node, group)):
        return False
    return not spread.honors_taints or blocking_taint(group.tolerations, node.taints_of_kubernetes) is None


def _suits(node: KubeNode, group: TaskGroup) -> bool:
    labels: Mapping[str, str] = {**dict(node.labels), NODE_LABEL: node.name}
    if any(labels.get(key) != value for key, value in group.node_selector):
        return False
    return all(meets(term, labels) for term in group.affinity if not term.weight)
