"""What the volumes of a pod require of its node: those that are bound, where they can be reached.

Invariant: a claim that is to bind late is refused by name: its volume would be chosen for a node, and gosched chooses
the node alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from gosched.core.spec.placement_rules import Affinity
from gosched.integrations.kube_objects.pod_rules import Refused
from gosched.integrations.kube_objects.pods import Pod
from gosched.integrations.kube_objects.translate import required_terms
from gosched.integrations.kubernetes.answers import Answers
from gosched.integrations.kubernetes.api import KubeApi, KubeError

NOT_BOUND_S = 2.0  # for so long it is not asked again; each change of a pod asks


class NotBound(Exception):
    """One line: which claim the pod waits for."""


class Volumes:
    """What a claim is bound to is asked for anew after a while: one of its name may be made anew."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._known: Answers[tuple[str, str], tuple[Affinity, ...] | NotBound] = Answers()  # by namespace and claim

    async def required(self, pod: Pod) -> tuple[Affinity, ...]:
        """Return what the claims of a pod require. Raises NotBound, Refused, KubeError."""
        volumes = (pod.raw.get("spec") or {}).get("volumes") or []
        names = [(each.get("persistentVolumeClaim") or {}).get("claimName") for each in volumes]
        found: tuple[Affinity, ...] = ()
        for name in names:
            if name:
                found += await self._of_claim(pod.namespace, str(name))
        return found

    async def _of_claim(self, namespace: str, name: str) -> tuple[Affinity, ...]:
        known = self._known.get((namespace, name))
        if isinstance(known, NotBound):
            raise NotBound(str(known))
        if known is not None:
            return known
        claim = await self._get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{quote(name, safe='')}")
        if claim is None:
            raise self._not_bound(namespace, name, f"there is no claim {name}")
        spec = claim.get("spec") or {}
        if (claim.get("status") or {}).get("phase") != "Bound":
            await self._refuse_late(name, spec)
            raise self._not_bound(namespace, name, f"claim {name} is not bound to a volume yet")
        volume = await self._get(f"/api/v1/persistentvolumes/{spec.get('volumeName')}")
        required: Mapping[str, Any] = (((volume or {}).get("spec") or {}).get("nodeAffinity") or {}).get(
            "required"
        ) or {}
        found = tuple(required_terms(required, f"the volume of claim {name}"))
        self._known.put((namespace, name), found)
        return found

    def _not_bound(self, namespace: str, name: str, why: str) -> NotBound:
        found = NotBound(why)
        self._known.put((namespace, name), found, NOT_BOUND_S)
        return found

    async def _refuse_late(self, name: str, spec: Mapping[str, Any]) -> None:
        named = spec.get("storageClassName")
        found = await self._get(f"/apis/storage.k8s.io/v1/storageclasses/{named}") if named else None
        if (found or {}).get("volumeBindingMode") == "WaitForFirstConsumer":
            raise Refused(
                f"claim {name} binds late (WaitForFirstConsumer), which is not supported: bind it to a volume first, or"
                " use a storage class that binds at once"
            )

    async def _get(self, path: str) -> dict[str, Any] | None:
        try:
            return await self._api.get(path)
        except KubeError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise
