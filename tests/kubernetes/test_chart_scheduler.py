"""The chart with `kubeScheduler`: pods of a real Kubernetes are placed by gosched, over TLS, and run by its kubelet."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from gosched.core.records.job import JobState
from tests.integration.support import until
from tests.kubernetes.release import Release
from tools.kubernetes.cluster import Cluster


@pytest.fixture
def release(kube: Cluster) -> Iterator[Release]:
    kube.kubectl("create", "namespace", "pods")
    release = Release(kube, namespace="pods")
    yield release
    release.uninstall()
    kube.kubectl("delete", "namespace", "pods")


def test_a_pod_that_names_gosched_is_bound_and_runs(release: Release) -> None:
    release.install("--set", "kubeScheduler.enabled=true,agent.enabled=false", "--set", _ONE_MASTER)
    release.await_ready()
    release.kubectl("rollout", "status", "deployment/gosched-kube-scheduler", "--timeout=120s")
    release.kubectl("apply", "-f", "-", stdin=_pod("small", "10m") + "---\n" + _pod("large", "9000"))

    def said(name: str) -> str:
        conditions = release.object("pod", name)["status"].get("conditions", [])
        return " ".join(found.get("message", "") for found in conditions)

    until(lambda: release.object("pod", "small")["status"]["phase"] == "Succeeded", "the pod has run")
    assert "gosched-kube" in release.kubectl("logs", "small")
    until(lambda: "asks for 9000 CPUs on one node" in said("large"), "the other one waits, and says why")
    with release.port_forward() as endpoint, release.client(endpoint) as client:

        def states() -> dict[str, JobState]:
            return {dict(job.spec.labels)["gosched.io/pod"]: job.state for job in client.list_jobs()}

        until(lambda: states().get("pods/small") is JobState.SUCCEEDED, "its job has ended")
        assert states() == {"pods/small": JobState.SUCCEEDED, "pods/large": JobState.PENDING}
        assert [node.node.name for node in client.list_nodes()] == ["node-1"]
    release.kubectl("delete", "pod", "small", "large")


_ONE_MASTER = "master.replicaCount=1,master.persistence.enabled=false"


def _pod(name: str, cpu: str) -> str:
    container = {
        "name": "main",
        "image": "gosched-kube:dev",
        "args": ["--version"],
        "resources": {"requests": {"cpu": cpu}},
    }
    spec = {"schedulerName": "gosched", "restartPolicy": "Never", "containers": [container]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}) + "\n"
