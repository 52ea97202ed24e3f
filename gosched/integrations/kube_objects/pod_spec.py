"""A task group as a pod's spec."""

from __future__ import annotations

import re
from typing import Any

from gosched.config.node_labels import RUNTIME_LABEL
from gosched.config.written import cpus, memory
from gosched.core.resources import MILLI
from gosched.core.spec.isolation import Network, Pull
from gosched.core.spec.placement_rules import Affinity, LabelOp, Toleration, TolerationOp
from gosched.core.spec.task_group import TaskGroup
from gosched.integrations.kube_objects.quantities import GPU
from gosched.integrations.kube_objects.translate import EFFECTS, MAX_WEIGHT, OPERATORS
from gosched.integrations.notes import Note

CONTAINER = "main"
_PULLS = {Pull.ALWAYS: "Always", Pull.NEVER: "Never"}
_EFFECT_NAMES = {effect: name for name, effect in EFFECTS.items()}
_OPERATOR_NAMES = {op: name for name, op in OPERATORS.items()}


def pod_spec(group: TaskGroup, notes: list[Note]) -> dict[str, Any]:
    """Return what of a pod's spec follows from its task group."""
    isolation = group.isolation
    volumes = {f"volume-{place}": volume for place, volume in enumerate(isolation.volumes)}
    mounts = [
        {"name": name, "mountPath": volume.to, **({"readOnly": True} if volume.read_only else {})}
        for name, volume in volumes.items()
    ]
    container = {
        "name": CONTAINER,
        "image": group.image,
        "imagePullPolicy": _PULLS.get(isolation.pull, "IfNotPresent"),
        "command": [_escaped(word) for word in group.command],
        "env": [{"name": name, "value": _escaped(value)} for name, value in group.env],
        "workingDir": group.working_dir,
        "resources": _resources(group, notes),
        "volumeMounts": mounts,
        "securityContext": {"readOnlyRootFilesystem": True} if isolation.read_only else {},
    }
    if isolation.network is Network.NONE:
        notes.append(Note(name="network", value="none", advice="left out: a NetworkPolicy closes a pod's network"))
    spec = {
        "containers": [{key: value for key, value in container.items() if value}],
        "volumes": [{"name": name, "hostPath": {"path": volume.host}} for name, volume in volumes.items()],
        "hostNetwork": isolation.network is Network.HOST,
        "nodeSelector": dict(group.node_selector),
        "affinity": _affinity(group, notes),
        "tolerations": [_toleration(each) for each in group.tolerations],
    }
    return {key: value for key, value in spec.items() if value}


def _escaped(text: str) -> str:
    """Return text that a kubelet, which replaces $(NAME), hands on as it was."""
    return re.sub(r"\$(?=[$(])", "$$", text)


def _resources(group: TaskGroup, notes: list[Note]) -> dict[str, Any]:
    asked = group.resources
    requests: dict[str, Any] = {}
    if asked.cpu_millis:
        requests["cpu"] = str(cpus(asked.cpu_millis))
    for name, amount in (("memory", asked.memory_bytes), ("ephemeral-storage", asked.storage_bytes)):
        if amount:
            requests[name] = memory(amount).removesuffix("B")
    if asked.gpu_millis:
        requests[GPU] = str(asked.gpu_millis // MILLI)
    for name, amount in asked.custom:
        domain, _, rest = name.partition("_")
        if "." in domain and rest:
            requests[f"{domain}/{rest}"] = str(amount)
        elif name.startswith("hugepages-"):
            requests[name] = str(amount)
        else:
            advice = "left out: resources of pods are named DOMAIN/NAME, here DOMAIN_NAME"
            notes.append(Note(name=f"resources.{name}", value=str(amount), advice=advice))
    for key, value in (("gpu.model", group.gpu_model), ("gpu.memory", group.gpu_memory_bytes)):
        if value:
            advice = "left out: add a nodeSelector, such as nvidia.com/gpu.product"
            notes.append(Note(name=f"resources.{key}", value=str(value), advice=advice))
    limits = {name: amount for name, amount in requests.items() if name != "cpu" or not group.isolation.cpu_soft}
    return {key: value for key, value in (("requests", requests), ("limits", limits)) if value}


def _affinity(group: TaskGroup, notes: list[Note]) -> dict[str, Any]:
    required, preferred = [], []
    for term in group.affinity:
        if term.label.startswith(RUNTIME_LABEL) and term.op is LabelOp.EXISTS and not term.weight:
            continue  # every node of Kubernetes runs images
        if not term.weight:
            required.append(_expression(term))
        elif term.weight < 0:
            advice = "left out: a preference of Kubernetes has no negative weight"
            notes.append(Note(name=f"placement.affinity {term.label}", value=str(term.weight), advice=advice))
        else:
            if term.weight > MAX_WEIGHT:
                advice = f"as {MAX_WEIGHT}, the largest of Kubernetes"
                notes.append(Note(name=f"placement.affinity {term.label}", value=str(term.weight), advice=advice))
            wish = {"matchExpressions": [_expression(term)]}
            preferred.append({"weight": min(MAX_WEIGHT, term.weight), "preference": wish})
    rules: dict[str, Any] = {}
    if required:
        terms = [{"matchExpressions": required}]
        rules["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if preferred:
        rules["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {"nodeAffinity": rules} if rules else {}


def _expression(term: Affinity) -> dict[str, Any]:
    values = {"values": list(term.values)} if term.values else {}
    return {"key": term.label, "operator": _OPERATOR_NAMES[term.op], **values}


def _toleration(rule: Toleration) -> dict[str, Any]:
    exists = rule.op is TolerationOp.EXISTS
    found = {
        "key": rule.key,
        "operator": "Exists" if exists else "Equal",
        "value": "" if exists else rule.value,
        "effect": _EFFECT_NAMES[rule.effect],
    }
    return {key: value for key, value in found.items() if value}
