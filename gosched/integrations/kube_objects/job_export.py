"""A job as pods of Kubernetes for gosched-kube: one for each task, and a PodGroup where there are several.

Invariant: a key of the job file that the pods do not carry is a note, or an error where they would be of no use.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gosched.config.errors import ConfigError
from gosched.config.jobs.jobfile import FLAT_GROUP
from gosched.config.jobs.writer import job_keys
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import PreemptionPolicy
from gosched.core.spec.task_group import Runtime, TaskGroup
from gosched.integrations.kube_objects.gang_rules import NOTHING, carried, without, written
from gosched.integrations.kube_objects.pod_spec import pod_spec
from gosched.integrations.kube_objects.pods import COSCHEDULING_LABEL, QUEUE, TASK_GROUP
from gosched.integrations.kube_objects.translate import priority_value
from gosched.integrations.notes import Note

MAX_PODS = 1000
_MAX_CLASS = 1_000_000_000  # of PriorityClasses that people make
_SAFE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")  # the value of a label
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

_READ = (
    *("name", "queue", "tenant", "priority", "labels", "timeout", "stop_grace", "gang.min", "preemption.policy"),
    *("count", "runtime", "image", "run", "env", "working_dir", "volumes", "network", "read_only", "pull"),
    *("limits.cpu", "resources", "placement.node_selector", "placement.affinity", "placement.tolerations"),
)
_CONTROLLERS = "left out: pods by themselves are not started again; a Job of Kubernetes does that"
_SPREAD = "left out: of rules about tasks pods say what is required of a gang's own, over labels of nodes"
_ADVICE = {
    "retry": _CONTROLLERS,
    "gang": "left out: what a failure means for the other pods is their controller's to say",
    "after": "left out: create the pods when it has ended",
    "hold": "left out: create the pods when they may start",
    "secrets": "left out: mount a Secret of Kubernetes",
    "distributed": "left out: pods get no GOSCHED_ variables, nor those of a framework",
    "registry": "left out: add imagePullSecrets",
    "user": "left out: add securityContext.runAsUser, a number",
    "placement.topology": _SPREAD,
    "placement.spread": _SPREAD,
    "placement.anti_affinity": _SPREAD,
}
_UNKNOWN = "left out: pods have no equivalent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Objects in the order in which they are to be created, and what they do not carry."""

    objects: tuple[dict[str, Any], ...]
    notes: tuple[Note, ...]


def export_jobs(specs: Sequence[JobSpec]) -> Exported:
    """Return the pods of jobs; what they share is there once. Raises ConfigError."""
    exported = [export_job(spec) for spec in specs]
    made: dict[tuple[str, str, str], dict[str, Any]] = {}
    for each in [each for of_job in exported for each in of_job.objects]:
        metadata = each["metadata"]
        key = (each["kind"], metadata.get("namespace", ""), metadata["name"])
        if key in made and each["kind"] != "PriorityClass":
            raise ConfigError(f"there would be two of {key[0]} {key[1]}/{key[2]}: rename a job or a task group")
        made[key] = each
    return Exported(
        objects=tuple(made.values()), notes=tuple(dict.fromkeys([note for of_job in exported for note in of_job.notes]))
    )


def export_job(spec: JobSpec) -> Exported:
    """Return the pods of a job. Raises ConfigError."""
    _refuse(spec)
    rules = carried(spec, [group.name for group in spec.groups if _SAFE.fullmatch(group.name)])
    rest = [without(each, rules.get(each.name, NOTHING)) for each in spec.groups]
    notes = [*_left_out(replace(spec, groups=tuple(rest)))]
    name = _name(spec, notes)
    group = {"namespace": spec.tenant, "name": name}
    objects: list[dict[str, Any]] = []
    priority_class = _priority_class(spec, notes)
    if priority_class:
        objects.append(priority_class)
    if spec.task_count > 1:
        objects.append(
            {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": group,
                "spec": {"minMember": spec.gang.min_tasks},
            }
        )
    for each in spec.groups:
        metadata = _metadata(spec, each, name, notes)
        body = pod_spec(each, notes) | _of_job(spec, priority_class, notes)
        of_gang = {COSCHEDULING_LABEL: name}
        about = written(rules.get(each.name, NOTHING), of_gang, of_gang | _of_kind(metadata))
        if "affinity" in about:
            about["affinity"] = body.get("affinity", {}) | about["affinity"]
        body |= about
        names = [_pod_name(spec, each, name, index) for index in range(each.count)]
        objects += [
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": own, **metadata}, "spec": body} for own in names
        ]
    return Exported(objects=tuple(objects), notes=tuple(dict.fromkeys(notes)))


def _refuse(spec: JobSpec) -> None:
    job = f"job {spec.name}"
    if spec.is_parent:
        raise ConfigError(f"{job}: an array or a schedule is no pod: export the job of one element, or one run")
    if spec.task_count > MAX_PODS:
        raise ConfigError(f"{job}: {spec.task_count} tasks; at most {MAX_PODS} pods are written")
    for group in spec.groups:
        if group.runtime is not Runtime.DOCKER:
            raise ConfigError(
                f"{job}: its tasks run in runtime {group.runtime.name.lower()}, pods in images: add image: NAME"
            )
        if group.resources.gpu_millis % 1000:
            raise ConfigError(f"{job}: a share of a GPU cannot be asked for in a pod: ask for whole ones")
    if not _NAMESPACE.fullmatch(spec.tenant):
        raise ConfigError(f"{job}: tenant {spec.tenant} is the pods' namespace, and no name of one: use a-z, 0-9 and -")


def _left_out(spec: JobSpec) -> Iterator[Note]:
    """Yield a note for each key of the job file that is not read here."""
    keys = job_keys(spec)
    groups = {f"tasks.{name}.": of_group for name, of_group in keys.pop("tasks", {}).items()}
    for prefix, found in {"": keys, **groups}.items():
        for key, value in _dotted(found):
            if key not in _READ:
                advice = _ADVICE.get(key) or _ADVICE.get(key.partition(".")[0], _UNKNOWN)
                shown = str(value) if isinstance(value, str | int) else ""
                yield Note(name=f"{prefix}{key} of job {spec.name}", value=shown[:60], advice=advice)


def _dotted(keys: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield keys, those of a mapping one by one where some of these are read."""
    for key, value in keys.items():
        if isinstance(value, dict) and any(read.startswith(f"{key}.") for read in _READ):
            for inner, its in value.items():
                yield f"{key}.{inner}", its
        else:
            yield key, value


def _name(spec: JobSpec, notes: list[Note]) -> str:
    """Return the job's name as that of objects."""
    name = re.sub(r"[^a-z0-9.-]", "-", spec.name.lower()).strip(".-")
    name = re.sub(r"\.[.-]+|-+\.[.-]*", ".", name)
    if not _NAME.fullmatch(name) or (spec.task_count > 1 and not _SAFE.fullmatch(name)):
        raise ConfigError(f"job {spec.name}: its name is none of a pod or PodGroup: use up to 63 of a-z, 0-9, - and .")
    if name != spec.name:
        notes.append(Note(name="name", value=spec.name, advice=f"the pods are named {name}"))
    return name


def _pod_name(spec: JobSpec, group: TaskGroup, name: str, index: int) -> str:
    if spec.task_count == 1:
        return name
    part = "" if group.name == FLAT_GROUP else re.sub(r"[^a-z0-9]", "-", group.name.lower()).strip("-") + "-"
    return f"{name}-{part}{index}"


def _metadata(spec: JobSpec, group: TaskGroup, name: str, notes: list[Note]) -> dict[str, Any]:
    labels = {}
    for key, value in spec.labels:
        if _KEY.fullmatch(key) and (not value or _SAFE.fullmatch(value)):
            labels[key] = value
        else:
            notes.append(Note(name=f"label {key}", value=value[:60], advice="left out: pods cannot have such a label"))
    annotations: dict[str, str] = {}
    if spec.queue != "default":
        (labels if _SAFE.fullmatch(spec.queue) else annotations)[QUEUE] = spec.queue
    if group.name != FLAT_GROUP and _SAFE.fullmatch(group.name):
        labels[TASK_GROUP] = group.name
    elif group.name != FLAT_GROUP:
        notes.append(Note(name="tasks", value=group.name[:60], advice="the way back gives this group another name"))
    if spec.task_count > 1:
        labels[COSCHEDULING_LABEL] = name
    found = {"namespace": spec.tenant, "labels": labels, "annotations": annotations}
    return {key: value for key, value in found.items() if value}


def _of_kind(metadata: Mapping[str, Any]) -> dict[str, str]:
    labels = metadata.get("labels", {})
    return {TASK_GROUP: labels[TASK_GROUP]} if TASK_GROUP in labels else {}


def _of_job(spec: JobSpec, priority_class: Mapping[str, Any], notes: list[Note]) -> dict[str, Any]:
    """Return what of a pod's spec follows from the job."""
    grace_s, timeout_s = math.ceil(spec.stop_grace_ms / 1000), math.ceil(spec.timeout_ms / 1000)
    for name, seconds, written_ms in (
        ("stop_grace", grace_s, spec.stop_grace_ms),
        ("timeout", timeout_s, spec.timeout_ms),
    ):
        if seconds * 1000 != written_ms:
            notes.append(Note(name=name, value=f"{written_ms}ms", advice=f"{seconds}s: whole seconds only"))
    found = {
        "schedulerName": "gosched",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace_s,
        "activeDeadlineSeconds": timeout_s or None,
        "priorityClassName": priority_class["metadata"]["name"] if priority_class else None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _priority_class(spec: JobSpec, notes: list[Note]) -> dict[str, Any]:
    """Return the PriorityClass that gosched-kube takes for the job's priority; empty: that of pods without one."""
    value, never = priority_value(spec.priority), spec.preemption.policy is PreemptionPolicy.NEVER
    if value > _MAX_CLASS:
        advice = f"as {_MAX_CLASS}, the highest that a PriorityClass may have"
        notes.append(Note(name="priority", value=str(spec.priority), advice=advice))
        value = _MAX_CLASS
    if not value and not never:
        return {}
    found = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"gosched-{spec.priority}{'-never' if never else ''}"},
        "value": value,
        "description": f"priority {spec.priority} of gosched",
    }
    return found | ({"preemptionPolicy": "Never"} if never else {})
