"""A Kubernetes node as a node of gosched. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gosched.config.node_labels import NODE_LABEL
from gosched.core.commands.nodes import RegisterNode
from gosched.core.limits import MAX_CUSTOM_RESOURCES, MAX_RULES
from gosched.core.resources import Resources
from gosched.core.spec.placement_rules import Taint, TaintEffect
from gosched.integrations.kube_objects.quantities import PODS, amounts, at_least, minus, resources
from gosched.integrations.kube_objects.translate import CLUSTER

GPU_MODEL = "nvidia.com/gpu.product"  # label of NVIDIA's feature discovery
_EFFECTS = {
    "NoSchedule": TaintEffect.NO_SCHEDULE,
    "PreferNoSchedule": TaintEffect.PREFER_NO_SCHEDULE,
    "NoExecute": TaintEffect.NO_EXECUTE,
}
#: The taint by which Kubernetes says what `unfit` says here, and which every node may get while its pods stay.
_CORDONED = Taint(key="node.kubernetes.io/unschedulable")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeNode:
    """What the bridge reads of a node."""

    uid: str
    name: str
    #: What pods may take of it.
    allocatable: Resources
    labels: tuple[tuple[str, str], ...]
    taints: tuple[Taint, ...]
    #: Why it takes no new pods, in one line; empty: it does.
    unfit: str
    #: It is cordoned, which `taints` does not say.
    cordoned: bool

    @property
    def taints_of_kubernetes(self) -> tuple[Taint, ...]:
        """Return its taints as Kubernetes sees them: a cordoned node has one more."""
        return (*self.taints, _CORDONED) if self.cordoned else self.taints


def read_node(found: Mapping[str, Any]) -> KubeNode:
    """Return the node. Raises ValueError in one line."""
    try:
        metadata, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
        name = metadata["name"]
        labels = {str(key): str(value) for key, value in (metadata.get("labels") or {}).items()}
        ready: Mapping[str, Any] = next(
            (each for each in status.get("conditions") or [] if each.get("type") == "Ready"), {}
        )
        unfit = "" if ready.get("status") == "True" else "the Kubernetes node is not ready"
        return KubeNode(
            uid=metadata["uid"],
            name=name,
            allocatable=_bounded(resources(without_volumes(amounts(status.get("allocatable"))))),
            labels=tuple(sorted(labels.items())),
            taints=_taints(spec.get("taints") or []),
            unfit="the Kubernetes node is cordoned" if spec.get("unschedulable") else unfit,
            cordoned=bool(spec.get("unschedulable")),
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"a node of the API server cannot be read: {type(error).__name__}: {error}") from error


def offer(
    node: KubeNode, *, cluster: str, foreign: Resources, own: Resources, address: str, incarnation: str
) -> RegisterNode:
    """Return what the node offers: what others' pods leave of it, but never less than what our tasks hold there, which
    the masters would refuse."""
    labels = {**dict(node.labels), CLUSTER: cluster, NODE_LABEL: node.name}
    return RegisterNode(
        node_id=node.uid,
        name=node.name,
        address=address,
        incarnation=incarnation,
        numbered=True,
        capacity=at_least(minus(node.allocatable, foreign), own),
        gpu_model=labels.get(GPU_MODEL, "").lower() if node.allocatable.gpu_millis else "",
        labels=tuple(sorted(labels.items())),
        taints=(Taint(key=CLUSTER, value=cluster), *node.taints),
    )


def without_volumes(found: dict[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in found.items() if not name.startswith("attachable-volumes-")}


def _bounded(found: Resources) -> Resources:
    """Return so many of the node's own resources as a node may have; the number of pods is one that each pod takes."""
    custom = sorted(found.custom, key=lambda each: each[0] != PODS)[:MAX_CUSTOM_RESOURCES]
    return Resources(
        cpu_millis=found.cpu_millis,
        memory_bytes=found.memory_bytes,
        storage_bytes=found.storage_bytes,
        gpu_millis=found.gpu_millis,
        custom=tuple(sorted(custom)),
    )


def _taints(written: list[Mapping[str, Any]]) -> tuple[Taint, ...]:
    """Return the taints, each key and effect once."""
    found: dict[tuple[str, TaintEffect], Taint] = {}
    for each in written:
        effect = _EFFECTS.get(str(each.get("effect")))
        if effect is not None and each["key"] != _CORDONED.key:
            key = str(each["key"])
            found[key, effect] = Taint(key=key, value=str(each.get("value") or ""), effect=effect)
    return tuple(list(found.values())[: MAX_RULES - 1])
