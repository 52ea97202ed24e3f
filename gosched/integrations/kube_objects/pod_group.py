"""A pod's spec as a task group: what it runs, what it asks for, where it may run.

Invariant: a field that the group does not carry is a note, or an error where the group would be another without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gosched.config.jobs.jobfile import FLAT_GROUP
from gosched.config.node_labels import RUNTIME_LABEL
from gosched.core.spec.isolation import Isolation, Network, Pull, Volume
from gosched.core.spec.placement_rules import Affinity, LabelOp
from gosched.core.spec.secret_use import SecretUse
from gosched.core.spec.task_group import Runtime, TaskGroup
from gosched.integrations.kube_objects.pod_notes import (
    AFFINITY,
    OF_CONTAINER,
    OF_POD,
    OF_SECURITY,
    SIDECAR,
    VOLUME,
    notes,
)
from gosched.integrations.kube_objects.quantities import PODS, amounts, resources
from gosched.integrations.kube_objects.reading import part, parts, text_of
from gosched.integrations.kube_objects.translate import placed
from gosched.integrations.notes import Note

_POD = (
    *("containers", "volumes", "affinity", "nodeSelector", "tolerations", "priorityClassName", "hostNetwork"),
    *("terminationGracePeriodSeconds", "activeDeadlineSeconds", "securityContext"),
)
_CONTAINER = (
    *("image", "command", "args", "workingDir", "env", "resources", "volumeMounts", "imagePullPolicy"),
    "securityContext",
)
_OF_EVERY_POD, _OF_EVERY_POD_S = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"), 300
_ESCAPED = re.compile(r"\$\$")
_REFERENCE = re.compile(r"\$\([^)]*\)")
_PULLS = {"Always": Pull.ALWAYS, "Never": Pull.NEVER, "IfNotPresent": Pull.UNSPECIFIED, "": Pull.UNSPECIFIED}


def read_group(spec: Mapping[str, Any], where: str) -> tuple[TaskGroup, list[Note]]:
    """Return the group of one task that a pod's spec is, and what it does not carry. Raises ValueError."""
    containers = parts(spec, "containers")
    if not containers:
        raise ValueError("spec.containers: there is none")
    container, *others = containers
    said = [*notes(spec, _POD, OF_POD, where), *notes(container, _CONTAINER, OF_CONTAINER, where)]
    more = [f"container {text_of(other, 'name')} of {where}" for other in others]
    said += [Note(name=name, value="", advice=SIDECAR) for name in more]
    for owner in (spec, container):
        security = part(owner, "securityContext")
        said += notes(security, ("readOnlyRootFilesystem",), OF_SECURITY, where, "securityContext.")
    for key in ("podAffinity", "podAntiAffinity"):
        if part(part(spec, "affinity"), key):
            said.append(Note(name=f"{key} of {where}", value="", advice=AFFINITY))
    wanted, is_soft = _resources(container, said, where)
    env, secrets = _variables(container, said, where)
    label = f"{RUNTIME_LABEL}docker"
    group = TaskGroup(
        name=FLAT_GROUP,
        count=1,
        resources=wanted,
        runtime=Runtime.DOCKER,
        image=_image(container),
        command=tuple([_literal(word) for word in _command(container)]),
        env=tuple(sorted(env.items())),
        secrets=tuple(secrets),
        working_dir=text_of(container, "workingDir"),
        isolation=Isolation(
            volumes=tuple(_volumes(spec, container, said, where)),
            network=Network.HOST if spec.get("hostNetwork") is True else Network.UNSPECIFIED,
            read_only=part(container, "securityContext").get("readOnlyRootFilesystem") is True,
            pull=_pull(container),
            cpu_soft=is_soft,
        ),
    )
    try:
        group = placed({**spec, "tolerations": [*_tolerations(spec, said, where)]}, group)
    except (AttributeError, TypeError) as error:
        raise ValueError(f"its rules about nodes cannot be read: {error}") from error
    return replace(group, affinity=(*group.affinity, Affinity(label=label, op=LabelOp.EXISTS))), said


def _tolerations(spec: Mapping[str, Any], said: list[Note], where: str) -> Iterator[Mapping[str, Any]]:
    """Yield the tolerations but those that the API server gives every pod."""
    for each in parts(spec, "tolerations"):
        seconds = each.get("tolerationSeconds")
        if each.get("key") in _OF_EVERY_POD and seconds == _OF_EVERY_POD_S:
            continue
        if seconds is not None:
            advice = "left out: it tolerates the taint for good"
            said.append(Note(name=f"tolerationSeconds of {where}", value=str(seconds)[:60], advice=advice))
        yield each


def _image(container: Mapping[str, Any]) -> str:
    if not (image := text_of(container, "image")):
        raise ValueError("its container has no image")
    return image


def _command(container: Mapping[str, Any]) -> tuple[str, ...]:
    words: list[str] = []
    for key in ("command", "args"):
        found = container.get(key) or []
        if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
            raise ValueError(f"{key} is no list of texts")
        if key == "args" and found and not words:
            raise ValueError("it has args and no command: write the image's entrypoint as command")
        words += found
    if not words:
        raise ValueError("it has no command: write that of its image (docker image inspect) as command")
    return tuple(words)


def _pull(container: Mapping[str, Any]) -> Pull:
    policy = text_of(container, "imagePullPolicy")
    if policy not in _PULLS:
        raise ValueError(f"imagePullPolicy {policy[:40]!a} is none of {', '.join(filter(None, _PULLS))}")
    return _PULLS[policy]


def _resources(container: Mapping[str, Any], said: list[Note], where: str) -> tuple[Any, bool]:
    """Return what is asked for, and whether idle CPUs may be used, too."""
    written = part(container, "resources")
    requests, limits = amounts(written.get("requests")), amounts(written.get("limits"))
    asked = {**limits, **requests}
    if any(amount < 0 for amount in asked.values()):
        raise ValueError("resources has a negative amount")
    for name, most in limits.items():
        if most > asked[name]:
            cpus = "limits: {cpu: soft} lets it use idle CPUs, without that bound"
            advice = cpus if name == "cpu" else "the request is the bound here: raise it where the task needs more"
            said.append(Note(name=f"limits.{name} of {where}", value=str(written["limits"][name]), advice=advice))
    found = resources(asked)
    custom = tuple([(name, amount) for name, amount in found.custom if name != PODS])
    return replace(found, custom=custom), limits.get("cpu", -1) != asked.get("cpu", 0)


def _variables(
    container: Mapping[str, Any], said: list[Note], where: str
) -> tuple[dict[str, str], Sequence[SecretUse]]:
    env: dict[str, str] = {}
    secrets: dict[str, SecretUse] = {}
    for each in parts(container, "env"):
        name, source = text_of(each, "name"), part(each, "valueFrom")
        if secret := part(source, "secretKeyRef"):
            file = f"{text_of(secret, 'name')}.{text_of(secret, 'key')}"
            secrets[file] = SecretUse(name=file, file=file)
            advice = f"a file, $GOSCHED_SECRETS_DIR/{file}: the tenant needs a secret of that name"
            said.append(Note(name=f"env {name} of {where}", value="", advice=advice))
        elif source:
            said.append(
                Note(name=f"env {name} of {where}", value=", ".join(source), advice="left out: write its value")
            )
        else:
            env[name] = text_of(each, "value")
    for what, texts in (("env", env.values()), ("command", _command(container))):
        if any(_REFERENCE.search(_ESCAPED.sub("", text)) for text in texts):
            advice = "$(NAME) is not replaced here: let a shell do it, by $NAME"
            said.append(Note(name=f"{what} of {where}", value="", advice=advice))
    return {name: _literal(value) for name, value in env.items()}, [*secrets.values()]


def _literal(text: str) -> str:
    """Return text as a kubelet would hand it on, but for references to variables."""
    return _ESCAPED.sub("$", text)


def _volumes(spec: Mapping[str, Any], container: Mapping[str, Any], said: list[Note], where: str) -> Iterator[Volume]:
    known = {text_of(volume, "name"): volume for volume in parts(spec, "volumes")}
    for mount in parts(container, "volumeMounts"):
        name = text_of(mount, "name")
        path = text_of(part(known.get(name, {}), "hostPath"), "path")
        to = text_of(mount, "mountPath")
        if path and not mount.get("subPath") and not mount.get("subPathExpr"):
            yield Volume(host=path, to=to, read_only=mount.get("readOnly") is True)
        elif not to.startswith("/var/run/secrets/kubernetes.io/"):
            is_empty = "emptyDir" in known.get(name, {})
            advice = "left out: the working directory is the task's own" if is_empty else VOLUME
            said.append(Note(name=f"volume {name} of {where}", value=to, advice=advice))
