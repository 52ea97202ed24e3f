"""What one pod may do to the others, while the masters and the API server answer."""

from __future__ import annotations

import asyncio
from typing import Any

from gosched.integrations.kubernetes.api import KubeError
from gosched.integrations.kubernetes.pods import Pod, read_pod
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
        nothing, nothing, nothing, nothing, Volumes(api), said, cluster="kubernetes", queue="default"
    )
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "a/b"}}]
    spec = {"schedulerName": "gosched", "containers": [], "volumes": volumes}
    pod = read_pod({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec}, "gosched")
    assert asyncio.run(submitting._want(pod)) is None
    assert ["forbidden" in words for words in said.words] == [True]
