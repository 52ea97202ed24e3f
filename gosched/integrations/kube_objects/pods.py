"""A pod as the bridge knows it: read once from what the API server sent. Pure.

Invariant: a field that is missing or of a wrong type makes the pod unreadable by name; it is never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any

from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.resources import Resources
from gosched.integrations.kube_objects.pod_rules import Term, keeps_apart
from gosched.integrations.kube_objects.quantities import pod_requests

ALLOCATION = "gosched.io/allocation"  # annotation, written by the binding itself
QUEUE = "gosched.io/queue"  # label or annotation of a pod
TASK_GROUP = "gosched.io/task-group"  # label of an exported pod: its group of the job
COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
VOLCANO_ANNOTATION = "scheduling.k8s.io/group-name"

ENDED_PHASES = ("Succeeded", "Failed")


class GroupKind(Enum):
    """Which API the PodGroup of a pod is of."""

    COSCHEDULING = "scheduling.x-k8s.io"
    VOLCANO = "scheduling.volcano.sh"
    NATIVE = "scheduling.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRef:
    """The PodGroup that a pod names."""

    kind: GroupKind
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """Return what names it among all groups, short enough for a label."""
        key = f"{self.kind.value}/{self.namespace}/{self.name}"
        if len(key) <= MAX_NAME_LENGTH:
            return key
        return f"{key[: MAX_NAME_LENGTH - 33]}.{blake2b(key.encode(), digest_size=16).hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What the bridge reads of a pod."""

    uid: str
    namespace: str
    name: str
    #: Of the scheduler that is to place it.
    scheduler: str
    #: Where it is bound; empty: nowhere yet.
    node: str
    #: Pending, Running, Succeeded or Failed; Unknown.
    phase: str
    #: It is being deleted.
    deleting: bool
    #: Names of the gates that still hold it back.
    gates: tuple[str, ...]
    #: For which gosched bound it; empty: it did not.
    allocation: str
    created: str
    labels: Mapping[str, str]
    #: Its required anti-affinity: no pod of these is placed beside it, whoever places it.
    keeps_apart: tuple[Term, ...]
    requests: Resources
    #: None: it belongs to no gang.
    group: GroupRef | None
    #: Why it ended, in one line; empty: it has not, or nothing is said.
    ending: str
    exit_code: int | None
    #: Reason and message of its condition PodScheduled, as they are on the API server.
    scheduled_reason: str
    scheduled_message: str
    #: The whole object; empty unless it waits for this scheduler.
    raw: Mapping[str, Any]

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def has_ended(self) -> bool:
        return self.phase in ENDED_PHASES

    @property
    def waits(self) -> bool:
        """Return whether it still needs a node."""
        return not self.node and not self.deleting and not self.has_ended


def read_pod(found: Mapping[str, Any], scheduler: str) -> Pod:
    """Return the pod. Raises ValueError in one line. `scheduler`: this one, whose waiting pods are kept whole."""
    metadata, spec, status = (_object(found, part) for part in ("metadata", "spec", "status"))
    namespace, name = _text(metadata, "namespace"), _text(metadata, "name")
    try:
        node, phase = _text(spec, "nodeName"), _text(status, "phase") or "Pending"
        mine = _text(spec, "schedulerName") == scheduler
        annotations = _object(metadata, "annotations")
        reason, message = _condition(status)
        return Pod(
            uid=_needed(metadata, "uid"),
            namespace=namespace,
            name=_needed(metadata, "name"),
            scheduler=_text(spec, "schedulerName"),
            node=node,
            phase=phase,
            deleting=bool(metadata.get("deletionTimestamp")),
            gates=tuple([_text(gate, "name") for gate in _objects(spec, "schedulingGates")]),
            allocation=_text(annotations, ALLOCATION) if mine else "",
            created=_text(metadata, "creationTimestamp"),
            labels={str(key): str(value) for key, value in _object(metadata, "labels").items()},
            keeps_apart=_keeps_apart(spec, namespace),
            requests=pod_requests(spec),
            group=group_ref(namespace, _object(metadata, "labels"), annotations, spec) if mine else None,
            ending=_ending(status) if phase in ENDED_PHASES else "",
            exit_code=_exit_code(status) if phase in ENDED_PHASES else None,
            scheduled_reason=reason,
            scheduled_message=message,
            raw=found if mine and not node else {},
        )
    except ValueError as error:
        raise ValueError(f"pod {namespace}/{name}: {error}") from error


def group_ref(
    namespace: str, labels: Mapping[str, Any], annotations: Mapping[str, Any], spec: Mapping[str, Any]
) -> GroupRef | None:
    """Return the PodGroup that a pod names. Raises ValueError."""
    native = _text(_object(spec, "schedulingGroup"), "podGroupName")
    if native:
        return GroupRef(kind=GroupKind.NATIVE, namespace=namespace, name=native)
    if name := _text(labels, COSCHEDULING_LABEL):
        return GroupRef(kind=GroupKind.COSCHEDULING, namespace=namespace, name=name)
    if name := _text(annotations, VOLCANO_ANNOTATION):
        return GroupRef(kind=GroupKind.VOLCANO, namespace=namespace, name=name)
    return None


def _keeps_apart(spec: Mapping[str, Any], namespace: str) -> tuple[Term, ...]:
    if spec.get("affinity") is None:
        return ()
    try:
        return keeps_apart(spec, namespace)
    except (AttributeError, TypeError) as error:
        raise ValueError(f"affinity makes no sense: {error}") from error


def _condition(status: Mapping[str, Any]) -> tuple[str, str]:
    for condition in _objects(status, "conditions"):
        if condition.get("type") == "PodScheduled":
            return _text(condition, "reason"), _text(condition, "message")
    return "", ""


def _ending(status: Mapping[str, Any]) -> str:
    said = [_text(status, "reason"), _text(status, "message")]
    return ": ".join(" ".join(part.split()) for part in said if part)


def _exit_code(status: Mapping[str, Any]) -> int | None:
    """Return the first code that is not 0, or 0; None where no container says one."""
    codes = []
    for container in _objects(status, "containerStatuses"):
        code = _object(_object(container, "state"), "terminated").get("exitCode")
        codes += [code] if isinstance(code, int) else []
    return next((code for code in codes if code), codes[0] if codes else None)


def _object(owner: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = owner.get(key)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise ValueError(f"{key} is no object")
    return found


def _objects(owner: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = owner.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise ValueError(f"{key} is no list of objects")
    return found


def _text(owner: Mapping[str, Any], key: str) -> str:
    found = owner.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise ValueError(f"{key} is no text")
    return found


def _needed(owner: Mapping[str, Any], key: str) -> str:
    found = _text(owner, key)
    if not found:
        raise ValueError(f"it has no {key}")
    return found
