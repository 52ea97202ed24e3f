"""Fields of pods and Jobs that make no part of a job file, and what to do instead.

A field whose value asks for what is done here anyway, or is what the API server fills in, needs no note: those values
stand before the advice. Empty values never do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from gosched.integrations.notes import Note

_Advice = tuple[Collection[object], str]

UNKNOWN = "left out: it has no equivalent that this import knows"
_PROBE = "left out: a task runs until it ends; timeout of the job ends it"
_NO_SERVICE = "left out: tasks have no names of their own; GOSCHED_HOSTS has the hosts of a gang"
_ACCOUNT = "left out: tasks get no account of Kubernetes; see secrets"
_DNS = "left out: the task has the resolver of its node"
_VOLUME = "left out: only paths of the node (hostPath) are volumes; make the data reachable there, or fetch it in run"
_SPREAD = "left out: write placement.spread or placement.anti_affinity"
_SIDECAR = "left out: a task runs one command; start it in run, or make it a task group of the job"
_USER = "left out: write user, which agents must allow"
_IN_CONTAINER = "left out: agents start containers without privileges, and set them up alike"

#: What the import itself reads is not named here.
OF_POD: Mapping[str, _Advice] = {
    "schedulerName": (("gosched", "default-scheduler"), "left out: gosched places the job"),
    "restartPolicy": (
        ("Never",),
        "left out: write retry, with when: [failed], to start it again",
    ),
    "initContainers": ((), _SIDECAR),
    "ephemeralContainers": ((), _SIDECAR),
    "serviceAccountName": (("default",), _ACCOUNT),
    "serviceAccount": (("default",), _ACCOUNT),
    "automountServiceAccountToken": ((False,), _ACCOUNT),
    "imagePullSecrets": ((), "left out: write registry, with the name of credentials"),
    "dnsPolicy": (("ClusterFirst", "Default"), _DNS),
    "dnsConfig": ((), _DNS),
    "hostAliases": ((), _DNS),
    "hostname": ((), _NO_SERVICE),
    "subdomain": ((), _NO_SERVICE),
    "hostPID": ((False,), _IN_CONTAINER),
    "hostIPC": ((False,), _IN_CONTAINER),
    "shareProcessNamespace": ((False,), _IN_CONTAINER),
    "topologySpreadConstraints": ((), _SPREAD),
    "schedulingGates": ((), "left out: write hold: true, and release the job when it may start"),
    "schedulingGroup": ((), "read only where all pods of the group are in the file"),
    "resourceClaims": ((), "left out: write what is claimed as resources"),
    "runtimeClassName": ((), "left out: agents choose the runtime of containers (oci_runtime)"),
    "overhead": ((), "left out: add it to resources"),
    "nodeName": ((), "left out: it says where the pod ran; write placement.node_selector to choose a node"),
    "preemptionPolicy": (("PreemptLowerPriority",), ""),
    "enableServiceLinks": ((True, False), ""),
    "priority": ((), ""),
    "os": (({"name": "linux"},), "left out: nodes are Linux"),
}
OF_CONTAINER: Mapping[str, _Advice] = {
    "name": ((), ""),
    "ports": ((), "left out: with network: host, the default, the task's ports are those of its node"),
    "envFrom": ((), "left out: write its variables as env, or as secrets"),
    "livenessProbe": ((), _PROBE),
    "readinessProbe": ((), _PROBE),
    "startupProbe": ((), _PROBE),
    "lifecycle": ((), "left out: do it in run; stop_grace is the time from the signal to the kill"),
    "terminationMessagePath": (("/dev/termination-log",), "left out: logs and the exit code are kept"),
    "terminationMessagePolicy": (("File",), "left out: logs and the exit code are kept"),
    "tty": ((False,), "left out: goschedctl exec -t gives a terminal"),
    "stdin": ((False,), "left out: tasks read nothing"),
    "stdinOnce": ((False,), "left out: tasks read nothing"),
    "volumeDevices": ((), _VOLUME),
    "restartPolicy": ((), UNKNOWN),
}
OF_SECURITY: Mapping[str, _Advice] = {
    "runAsUser": ((), _USER),
    "runAsGroup": ((), _USER),
    "runAsNonRoot": ((False,), _USER),
    "fsGroup": ((), _USER),
    "supplementalGroups": ((), _USER),
    "privileged": ((False,), _IN_CONTAINER),
    "allowPrivilegeEscalation": ((False, True), ""),
    "capabilities": ((), _IN_CONTAINER),
    "seccompProfile": ((), _IN_CONTAINER),
    "appArmorProfile": ((), _IN_CONTAINER),
}
OF_JOB: Mapping[str, _Advice] = {
    "selector": ((), ""),
    "manualSelector": ((False,), ""),
    "completionMode": (("NonIndexed",), "GOSCHED_ARRAY_INDEX is what JOB_COMPLETION_INDEX was"),
    "ttlSecondsAfterFinished": ((), "left out: ended jobs stay for the masters' retention"),
    "podFailurePolicy": ((), "left out: write retry.when"),
    "podReplacementPolicy": (
        ("TerminatingOrFailed",),
        "left out: a task starts again once it has ended",
    ),
    "successPolicy": ((), "left out: write gang.ends_with"),
    "managedBy": (("kubernetes.io/job-controller",), ""),
}
VOLUME = _VOLUME
SIDECAR = _SIDECAR
AFFINITY = _SPREAD


def notes(
    owner: Mapping[str, Any], read: Collection[str], table: Mapping[str, _Advice], where: str, prefix: str = ""
) -> Iterator[Note]:
    """Yield a note for each field that is not `read`."""
    for key, value in owner.items():
        usual, advice = table.get(key, ((), UNKNOWN))
        if key not in read and advice and value not in (None, "", [], {}) and value not in usual:
            shown = str(value) if isinstance(value, str | int) else ""
            yield Note(name=f"{prefix}{key} of {where}", value=shown[:60], advice=advice)
