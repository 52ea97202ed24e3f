"""The nodes and pods of the API server, as its watches tell of them.

Invariant: a pod that gosched bound is counted once: as the task of its allocation, or as one of the others' pods, whose
requests are not offered to the masters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import structlog

from gosched.core.resources import Resources
from gosched.integrations.kube_objects.nodes import KubeNode, read_node
from gosched.integrations.kube_objects.pod_rules import Term
from gosched.integrations.kube_objects.pods import Pod, read_pod
from gosched.integrations.kube_objects.quantities import total

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"

Json = dict[str, Any]
_Key = TypeVar("_Key")

log = structlog.get_logger()


class World:
    """`pod_changed` and `node_changed` are told of each change: what it was, and what it is; None: it was not, or is
    not any more."""

    def __init__(self, scheduler: str) -> None:
        self._scheduler = scheduler
        self.nodes: dict[str, KubeNode] = {}
        self.pods: dict[str, Pod] = {}
        self.bound: dict[str, dict[str, Pod]] = {}  # node -> pods on it that have not ended
        self.waiting: dict[str, Pod] = {}  # for this scheduler
        self.groups: dict[str, dict[str, Pod]] = {}  # key of the group -> its pods
        self.live: dict[str, dict[str, Pod]] = {}  # namespace -> its pods that have not ended
        self.keepers: dict[Term, dict[str, Pod]] = {}  # required anti-affinity -> the pods that have it, of all live
        self.has_nodes = False
        self.has_pods = False
        self.pod_changed: Callable[[Pod | None, Pod | None], None] = lambda before, after: None
        self.node_changed: Callable[[KubeNode | None, KubeNode | None], None] = lambda before, after: None

    def replace_nodes(self, items: Iterable[Json]) -> None:
        found = {}
        for item in items:
            if (node := self._read_node(item)) is not None:
                found[node.name] = node
        for name in [name for name in self.nodes if name not in found]:
            self._put_node(name, None)
        for name, node in found.items():
            self._put_node(name, node)
        self.has_nodes = True

    def change_node(self, kind: str, item: Json) -> None:
        if (node := self._read_node(item)) is not None:
            self._put_node(node.name, None if kind == "DELETED" else node)

    def replace_pods(self, items: Iterable[Json]) -> None:
        found = {}
        for item in items:
            if (pod := self._read_pod(item)) is not None:
                found[pod.uid] = pod
        for uid in [uid for uid in self.pods if uid not in found]:
            self._put_pod(uid, None)
        for uid, pod in found.items():
            self._put_pod(uid, pod)
        self.has_pods = True

    def change_pod(self, kind: str, item: Json) -> None:
        if (pod := self._read_pod(item)) is not None:
            self._put_pod(pod.uid, None if kind == "DELETED" else pod)

    def foreign(self, node: str, ours: Callable[[Pod], bool]) -> Resources:
        """Return what the pods on a node hold that are not `ours`."""
        return total([pod.requests for pod in self.bound.get(node, {}).values() if not ours(pod)])

    def members(self, key: str) -> list[Pod]:
        """Return the pods of the gang with this key, the oldest first."""
        return sorted(self.groups.get(key, {}).values(), key=lambda pod: (pod.created, pod.name))

    def _put_node(self, name: str, node: KubeNode | None) -> None:
        before = self.nodes.get(name)
        if node == before:
            return
        if node is None:
            del self.nodes[name]
        else:
            self.nodes[name] = node
        self.node_changed(before, node)

    def _put_pod(self, uid: str, pod: Pod | None) -> None:
        before = self.pods.get(uid)
        if pod == before:
            return
        if before is not None:
            self._drop(before)
        if pod is not None:
            self._add(pod)
        self.pod_changed(before, pod)

    def _add(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        if pod.node and not pod.has_ended:
            self.bound.setdefault(pod.node, {})[pod.uid] = pod
        if pod.waits and pod.scheduler == self._scheduler:
            self.waiting[pod.uid] = pod
        if pod.group is not None:
            self.groups.setdefault(pod.group.key, {})[pod.uid] = pod
        if not pod.has_ended:
            self.live.setdefault(pod.namespace, {})[pod.uid] = pod
            for term in pod.keeps_apart:
                self.keepers.setdefault(term, {})[pod.uid] = pod

    def _drop(self, pod: Pod) -> None:
        del self.pods[pod.uid]
        self.waiting.pop(pod.uid, None)
        _remove(self.bound, pod.node, pod.uid)
        if pod.group is not None:
            _remove(self.groups, pod.group.key, pod.uid)
        _remove(self.live, pod.namespace, pod.uid)
        for term in pod.keeps_apart:
            _remove(self.keepers, term, pod.uid)

    def _read_node(self, item: Json) -> KubeNode | None:
        try:
            return read_node(item)
        except ValueError as error:
            log.error("a node is left out", why=str(error))
            return None

    def _read_pod(self, item: Json) -> Pod | None:
        try:
            return read_pod(item, self._scheduler)
        except ValueError as error:
            log.error("a pod is left out", why=str(error))
            return None


def _remove(index: dict[_Key, dict[str, Pod]], key: _Key, uid: str) -> None:
    below = index.get(key)
    if below is not None and below.pop(uid, None) is not None and not below:
        del index[key]
