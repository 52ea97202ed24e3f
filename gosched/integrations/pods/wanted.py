"""The pod that a task asks for."""

from __future__ import annotations

import copy
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from gosched.config.errors import shown
from gosched.config.files import read_file
from gosched.config.tree import read_documents
from gosched.config.written import cpus, memory
from gosched.core.resources import MILLI
from gosched.integrations.pods.errors import PodMisused
from gosched.integrations.pods.reading import ALLOCATION, ATTEMPT, CONTAINER, FOLLOWER, TASK

GPU = "nvidia.com/gpu"
_NAME_CHARS = 63  # of a host's name, which a pod's becomes
#: What of a task's variables is true in its pod as well.
PASSED_ON = (
    "GOSCHED_JOB_ID", "GOSCHED_JOB_NAME", "GOSCHED_TASK_ID", "GOSCHED_TASK_INDEX", "GOSCHED_TASK_COUNT",
    "GOSCHED_GROUP", "GOSCHED_GROUP_INDEX", "GOSCHED_GROUP_COUNT", "GOSCHED_ATTEMPT", "GOSCHED_ARRAY_INDEX",
)  # fmt: skip

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What the container asks for, and may use at most. None: nothing is said of it."""

    cpu_millis: int | None = None
    memory_bytes: int | None = None
    gpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The task that a pod is of. All but `task` are empty outside of one."""

    task: str
    job: str = ""
    attempt: str = ""
    #: The start of the task that asks.
    allocation: str = ""

    @staticmethod
    def of(environment: Mapping[str, str]) -> Owner:
        """Return the task with this environment; one that nobody else is, outside of a task."""
        return Owner(
            task=environment.get("GOSCHED_TASK_ID") or f"run/{secrets.token_hex(6)}",
            job=environment.get("GOSCHED_JOB_ID", ""),
            attempt=environment.get("GOSCHED_ATTEMPT", ""),
            allocation=environment.get("GOSCHED_ALLOCATION_ID") or secrets.token_hex(6),
        )


def read_template(file: str) -> Json:
    """Return the pod of a file, YAML or JSON. Raises PodMisused, ConfigError."""
    documents = read_documents(read_file(file, what="template"), file)
    value = documents[0].value if len(documents) == 1 else None
    if not isinstance(value, dict) or value.get("kind", "Pod") != "Pod":
        raise PodMisused(f"{file}: expected one object of the kind Pod")
    return dict(json.loads(json.dumps(value, default=str)))  # a fraction becomes the text that it was


def wanted(
    owner: Owner,
    *,
    template: Json,
    image: str,
    command: tuple[str, ...],
    environment: Mapping[str, str],
    amounts: Amounts,
    grace_s: int,
) -> Json:
    """Return the pod: the template, and in it what is the task's. Raises PodMisused."""
    pod = copy.deepcopy(template)
    metadata, spec = _object(pod, "metadata"), _object(pod, "spec")
    labels, annotations = _object(metadata, "labels"), _object(metadata, "annotations")
    pod |= {"apiVersion": "v1", "kind": "Pod"}
    metadata["name"] = pod_name(owner.task)
    labels |= {
        "app.kubernetes.io/managed-by": "gosched",
        "gosched.io/task": _label(owner.task),
        **({"gosched.io/job": _label(owner.job), ATTEMPT: _label(owner.attempt)} if owner.job else {}),
    }
    annotations |= {TASK: owner.task, ALLOCATION: owner.allocation, ATTEMPT: owner.attempt}
    annotations[FOLLOWER] = secrets.token_hex(6)
    # The one who starts it again is gosched.
    spec |= {"restartPolicy": "Never", "terminationGracePeriodSeconds": grace_s}
    container = _container(spec)
    if image:
        container["image"] = image
    if not container.get("image"):
        raise PodMisused("no image is named: give --image, or one in the template's container")
    if command:
        container |= {"command": [_as_it_is(word) for word in command], "args": []}
    container["env"] = [
        *[{"name": name, "value": _as_it_is(value)} for name, value in environment.items()],
        *[one for one in container.get("env") or [] if isinstance(one, dict) and one.get("name") not in environment],
    ]
    if found := _resources(amounts):
        resources = _object(container, "resources")
        for kind in ("requests", "limits"):
            resources[kind] = {**_object(resources, kind), **found}
    return pod


def pod_name(task: str) -> str:
    """Return the one name of a task's pod, which is also a host's name."""
    digest = blake2b(task.encode(), digest_size=5).hexdigest()
    return f"gosched-{_words(task)[: _NAME_CHARS - 19].strip('-')}-{digest}"


def _words(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())


def _as_it_is(text: str) -> str:
    """Return a text that Kubernetes puts no variables into, `$(NAME)`."""
    return text.replace("$", "$$")


def _label(text: str) -> str:
    """Return a text as the value of a label."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)[:63].strip("._-")


def _container(spec: Json) -> Json:
    """Return the container that is the task: the one of this name, or the only one."""
    listed = spec.setdefault("containers", [])
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise PodMisused("template: spec.containers: expected a list of containers")
    found: Json | None = next((one for one in listed if one.get("name") == CONTAINER), None)
    if found is None and len(listed) > 1:
        raise PodMisused(f"template: name the container that is the task {CONTAINER!r}: there are {len(listed)}")
    if found is None:
        found = listed[0] if listed else {}
        found["name"] = CONTAINER
        spec["containers"] = [found]
    return found


def _object(found: Json, key: str) -> Json:
    value = found.setdefault(key, {})
    if value is None:
        value = found[key] = {}
    if not isinstance(value, dict):
        raise PodMisused(f"template: {key}: expected keys and values, got {shown(value)}")
    return value


def _resources(amounts: Amounts) -> dict[str, str]:
    found = {}
    if amounts.cpu_millis:
        found["cpu"] = str(cpus(amounts.cpu_millis))
    if amounts.memory_bytes:
        found["memory"] = memory(amounts.memory_bytes).removesuffix("B")
    if amounts.gpus:
        found[GPU] = str(amounts.gpus)
    return found


def whole_gpus(millis: int) -> int:
    """Return thousandths of GPUs as whole ones. Raises PodMisused."""
    if millis % MILLI:
        raise PodMisused("a pod has whole GPUs: name their number with --gpus")
    return millis // MILLI
