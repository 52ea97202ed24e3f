"""What one pod may do to the others, while the masters and the API server answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from gosched.integrations.kube_objects.pods import Pod, read_pod
from gosched.integrations.kubernetes import answers
from gosched.integrations.kubernetes.api import KubeError
from gosched.integrations.kubernetes.submitting import Submitting
from gosched.integrations.kubernetes.volumes import Volumes


class RefusingApi:
    async def get(self, path: str) -> dict[str, Any]:
        raise KubeError(403, f"GET {path}: forbidden")


class Said:
    def __init__(self) -> None:
        self.words: list[str] = []

    def say(self, pod: Pod, reason: str, message: str) -> None:
        self.words.append(message)


def test_a_pod_whose_claim_cannot_be_read_holds_up_no_other() -> None:
    said: Any = Said()
    nothing: Any = None
    api: Any = RefusingApi()
    submitting = Submitting(
        nothing,
        nothing,
        nothing,
        nothing,
        Volumes(api),
        said,
        cluster="kubernetes",
        queue="default",
        holds=lambda: True,
    )
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "a/b"}}]
    spec = {"schedulerName": "gosched", "containers": [], "volumes": volumes}
    pod = read_pod({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec}, "gosched")
    assert asyncio.run(submitting._want(pod)) is None
    assert ["forbidden" in words for words in said.words] == [True]


def test_a_claim_that_is_made_anew_is_looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    zone = "a"

    class Api:
        async def get(self, path: str) -> dict[str, Any]:
            if "persistentvolumeclaims" in path:
                return {"spec": {"volumeName": f"v-{zone}"}, "status": {"phase": "Bound"}}
            terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [path[-1]]}]}]
            return {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}

    now = 100.0
    monkeypatch.setattr(answers, "time", SimpleNamespace(monotonic=lambda: now))
    volumes = Volumes(Api())  # type: ignore[arg-type]
    claim = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    pod = read_pod(
        {
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"schedulerName": "gosched", "containers": [], "volumes": claim},
        },
        "gosched",
    )

    def zones() -> list[str]:
        (found,) = asyncio.run(volumes.required(pod))
        return [*found.values]

    assert zones() == ["a"]
    zone = "b"
    assert zones() == ["a"]
    now += answers.KNOWN_S
    assert zones() == ["b"]
