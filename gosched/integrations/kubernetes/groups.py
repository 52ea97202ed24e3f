"""How many pods a gang needs, by its PodGroup: of the scheduler-plugins, of Volcano, or of Kubernetes itself."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from gosched.core.limits import MAX_TASKS_PER_JOB
from gosched.integrations.kube_objects.pods import GroupKind, GroupRef
from gosched.integrations.kubernetes.answers import Answers
from gosched.integrations.kubernetes.api import KubeApi, KubeError

_PATHS = {
    GroupKind.COSCHEDULING: ("/apis/scheduling.x-k8s.io/v1alpha1",),
    GroupKind.VOLCANO: ("/apis/scheduling.volcano.sh/v1beta1",),
    GroupKind.NATIVE: ("/apis/scheduling.k8s.io/v1beta1", "/apis/scheduling.k8s.io/v1alpha3"),
}


class NoGroup(Exception):
    """One line: why it is not known how many pods a gang needs."""


class Groups:
    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._known: Answers[str, int | str] = Answers()  # by key: the number, or what is wrong

    async def needed(self, group: GroupRef) -> int:
        """Return how many pods must start together; 1: each by itself. Raises NoGroup, KubeError."""
        found = self._known.get(group.key)
        if found is None:
            found = await self._ask(group)
            self._known.put(group.key, found)
        if isinstance(found, str):
            raise NoGroup(found)
        return found

    async def _ask(self, group: GroupRef) -> int | str:
        named = f"PodGroup {group.namespace}/{group.name} of {group.kind.value}"
        for path in _PATHS[group.kind]:
            try:
                answer = await self._api.get(f"{path}/namespaces/{group.namespace}/podgroups/{group.name}")
            except KubeError as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    continue
                if not error.may_pass:
                    return f"{named} cannot be read: {error}"
                raise
            count = _count(group.kind, answer.get("spec"))
            if count is None:
                return f"{named} says no number of pods between 1 and {MAX_TASKS_PER_JOB}"
            return count
        return f"{named} does not exist, or the API server does not serve that API"


def _count(kind: GroupKind, spec: Any) -> int | None:
    if not isinstance(spec, Mapping):
        return None
    found: Any = spec.get("minMember", 1)
    if kind is GroupKind.NATIVE:
        policy = spec.get("schedulingPolicy")
        gang = policy.get("gang") if isinstance(policy, Mapping) else None
        found = gang.get("minCount") if isinstance(gang, Mapping) else 1
    is_number = isinstance(found, int) and not isinstance(found, bool)
    return found if is_number and 1 <= found <= MAX_TASKS_PER_JOB else None
