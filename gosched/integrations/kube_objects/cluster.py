"""A Kubernetes cluster's description as ours: quotas of tenants, priorities, and what agents' configs would say.

Namespaces are tenants, as gosched-kube has it, so what is made here holds for its pods and for jobs alike. Kubernetes
shares nothing among namespaces beyond quotas: hence one queue, in which the higher priority goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gosched.config.errors import ConfigError
from gosched.config.queue_writer import amounts_keys
from gosched.config.queues import DEFAULT_QUEUE
from gosched.config.vector import is_taken_for
from gosched.core.limits import MAX_AMOUNT
from gosched.core.records.queue import Queue, QueueOrder
from gosched.core.records.tenant import Quota
from gosched.core.resources import MILLI
from gosched.core.sharing import charge_of
from gosched.integrations.kube_objects.nodes import GPU_MODEL, read_node, without_volumes
from gosched.integrations.kube_objects.quantities import GPU, PODS, amounts, resources
from gosched.integrations.kube_objects.reading import Found, part, text_of, whole
from gosched.integrations.kube_objects.translate import priority
from gosched.integrations.notes import Note

LISTED = "kubectl get nodes,namespaces,resourcequotas,priorityclasses -A -o json"
_SHOWN = 3  # objects that a note names
_STATES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")  # taints that say how a node is
_NAMES = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "storage", GPU: "gpu", PODS: PODS, "count/pods": PODS}

_LIMITS = "left out: what a task asks for is all that it may use, so the quota of requests bounds it"
_VOLUMES = "left out: volumes are not counted"
_OBJECTS = "left out: objects are not counted; max_running_jobs of the quota bounds the jobs that run"
_SCOPED = "left out: a quota is of all jobs of a tenant; a queue of their own, with limit and tenants, bounds some"
_COUNTS_PODS = "counts pods that gosched-kube places; jobs that are no pods hold none: write max_running_jobs for them"
_TOO_MUCH = "left out: more than is ever counted here, and so no limit"
_NEAR = "left out: the name is taken for {near} misspelt: rename the resource"
_NO_QUOTA = "no ResourceQuota that could be read, so their tenants have no quota"
_STATE = "left out: it says how the node is, which agents tell the masters themselves"
_CORDONED = "cordoned: goschedctl node cordon NODE, once its agent runs"
_NOT_READY = "was not ready when it was listed"
_POD_COUNT = "left out: the tasks of an agent are not counted; limits.pids of a job bounds its processes"
_MORE = "left out in part: a node has at most 16 resources of its own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """A PriorityClass."""

    name: str
    value: int
    #: What gosched-kube makes of it.
    priority: int
    #: Its pods evict nobody.
    never: bool
    #: It is that of pods that name none.
    is_default: bool

    @property
    def keys(self) -> dict[str, Any]:
        """Return what a job file says."""
        return {"priority": self.priority, **({"preemption": {"policy": "never"}} if self.never else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeCluster:
    """What a listing holds, in our terms."""

    queues: tuple[Queue, ...]
    quotas: tuple[Quota, ...]
    priorities: tuple[Priority, ...]
    #: Keys of an agent's config, by the node's name.
    agents: Mapping[str, dict[str, Any]]
    notes: tuple[Note, ...]


@dataclass(slots=True, kw_only=True)
class _Import:
    limits: dict[str, dict[str, int]] = field(default_factory=dict)  # by tenant: the least of each resource
    namespaces: dict[str, None] = field(default_factory=dict)
    priorities: list[Priority] = field(default_factory=list)
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    noted: dict[tuple[str, str], list[str]] = field(default_factory=dict)  # setting and advice -> of which objects

    def note(self, setting: str, advice: str, where: str) -> None:
        self.noted.setdefault((setting, advice), []).append(where)


def read_cluster(objects: Iterable[Found], source: str) -> KubeCluster:
    """Return what a listing says, with a note for each setting that has no equivalent. Raises ConfigError."""
    found = _Import()
    known = False
    for each in objects:
        reader = _READERS.get(each.kind)
        if reader is None:
            found.note(each.kind, f"not read: this makes something of {', '.join(_READERS)}", each.path)
            continue
        known = True
        try:
            reader(found, each)
        except ValueError as error:
            raise each.error(str(error)) from error
    if not known:
        raise ConfigError(f"{source}: no {', '.join(_READERS)} in it: write there what `{LISTED}` prints")
    for namespace in found.namespaces:
        if namespace not in found.limits:
            found.note("Namespace", _NO_QUOTA, namespace)
    return KubeCluster(
        queues=(Queue(path=DEFAULT_QUEUE, order=QueueOrder.PRIORITY),),
        quotas=tuple([Quota(tenant=name, limit=tuple(sorted(of.items()))) for name, of in found.limits.items() if of]),
        priorities=tuple(found.priorities),
        agents=found.agents,
        notes=tuple([_note(*key, where) for key, where in found.noted.items()]),
    )


def _note(setting: str, advice: str, where: list[str]) -> Note:
    more = f" and {len(where) - _SHOWN} more" if len(where) > _SHOWN else ""
    return Note(name=setting, value=", ".join(where[:_SHOWN]) + more, advice=advice)


def _namespace(found: _Import, each: Found) -> None:
    found.namespaces[each.name] = None


def _quota(found: _Import, each: Found) -> None:
    spec = part(each.raw, "spec")
    tenant = each.namespace or "default"
    if spec.get("scopes") or spec.get("scopeSelector"):
        found.note("scopes of ResourceQuota", _SCOPED, f"{tenant}/{each.name}")
        return
    limits = found.limits.setdefault(tenant, {})
    for key, written in part(spec, "hard").items():
        asked = str(key).removeprefix("requests.")
        amount = amounts({asked: written})[asked]
        if amount < 0:
            raise ValueError(f"hard.{key} is negative")
        name = "" if key == "requests.storage" else _NAMES.get(asked, "")
        if not name and (asked.startswith("hugepages-") or (asked != key and "/" in asked)):
            name = asked.replace("/", "_")
        advice = _advice(key, name, amount)
        if advice:
            found.note(f"hard.{key} of ResourceQuota", advice, f"{tenant}/{each.name}")
        if name and (not advice or advice == _COUNTS_PODS):
            counted = amount * MILLI if name == "gpu" else amount
            limits[name] = min(limits.get(name, counted), counted)


def _advice(key: str, name: str, amount: int) -> str:
    """Return what to say of a limit; empty: it is carried over as it is."""
    if not name:
        if key.startswith("limits."):
            return _LIMITS
        return _VOLUMES if "storage" in key or key == "persistentvolumeclaims" else _OBJECTS
    if amount >= MAX_AMOUNT:
        return _TOO_MUCH
    if near := is_taken_for(name):
        return _NEAR.format(near=near)
    return _COUNTS_PODS if name == PODS else ""


def _priority_class(found: _Import, each: Found) -> None:
    value, policy = whole(each.raw, "value", 0), text_of(each.raw, "preemptionPolicy")
    found.priorities.append(
        Priority(
            name=each.name,
            value=value,
            priority=priority(value),
            never=policy == "Never",
            is_default=each.raw.get("globalDefault") is True,
        )
    )


def _node(found: _Import, each: Found) -> None:
    metadata = {"uid": each.name, **part(each.raw, "metadata")}
    node = read_node({**each.raw, "metadata": metadata})
    spec, written = part(each.raw, "spec"), amounts(part(part(each.raw, "status"), "allocatable"))
    if len(resources(without_volumes(written)).custom) > len(node.allocatable.custom):
        found.note("allocatable of Node", _MORE, each.name)
    offered = charge_of(node.allocatable)
    for name in [*offered]:
        if name == PODS or is_taken_for(name):
            del offered[name]
            found.note(
                f"{name} of Node", _POD_COUNT if name == PODS else _NEAR.format(near=is_taken_for(name)), each.name
            )
    taints = []
    for taint in node.taints:
        if taint.key.startswith(_STATES):
            found.note(f"taint {taint.key} of Node", _STATE, each.name)
        else:
            value = {"value": taint.value} if taint.value else {}
            taints.append({"key": taint.key, **value, "effect": taint.effect.name.lower()})
    if spec.get("unschedulable"):
        found.note("Node", _CORDONED, each.name)
    elif node.unfit:
        found.note("Node", _NOT_READY, each.name)
    model = dict(node.labels).get(GPU_MODEL, "").lower() if node.allocatable.gpu_millis else ""
    keys = {
        "labels": dict(node.labels),
        "taints": taints,
        "resources": amounts_keys(tuple(sorted(offered.items()))),
        "gpu_model": model,
    }
    found.agents[each.name] = {key: value for key, value in keys.items() if value}


_READERS: Mapping[str, Callable[[_Import, Found], None]] = {
    "Node": _node,
    "Namespace": _namespace,
    "ResourceQuota": _quota,
    "PriorityClass": _priority_class,
}
