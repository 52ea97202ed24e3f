"""What goes wrong with a chart is said where people look: by Helm, by `kubectl get events`, in a master's log."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.support import until
from tests.kubernetes.release import CHART, Release, refusal
from tools.kubernetes.cluster import Cluster

ONE = ("--set", "master.replicaCount=1")
NO_AGENT = ("--set", "agent.enabled=false")
NO_VOLUME = ("--set", "master.persistence.enabled=false")

Install = Callable[..., Release]


@pytest.fixture
def namespace(kube: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name.removeprefix("test_").replace("_", "-")[:40].strip("-")
    kube.kubectl("create", "namespace", name)
    yield name
    kube.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def install(kube: Cluster, namespace: str) -> Iterator[Install]:
    made: list[Release] = []

    def install(name: str, *words: str) -> Release:
        made.append(Release(kube, name, namespace))
        made[-1].install(*words)
        return made[-1]

    yield install
    for release in made:
        release.uninstall()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("master.replicaCount=2", "replicaCount"),
        ("master.replicas=3", "replicas"),
        ("image.tag=", "tag"),
    ],
)
def test_helm_refuses_values_that_cannot_be_meant(kube: Cluster, wrong: str, said: str) -> None:
    assert said in refusal(kube, ["install", "wrong", str(CHART), "--set", wrong])


def test_events_say_that_the_storage_class_is_missing(install: Install) -> None:
    release = install("gosched", *ONE, *NO_AGENT, "--set", "master.persistence.storageClass=nowhere")
    release.await_event('storageclass.storage.k8s.io "nowhere" not found')


def test_events_say_that_an_image_is_missing(install: Install) -> None:
    release = install(
        "gosched", *ONE, *NO_AGENT, *NO_VOLUME, "--set", "image.tag=nowhere", "--set", "image.pullPolicy=Never"
    )
    release.await_event("gosched-master:nowhere")


def test_masters_run_where_privileged_pods_are_forbidden_and_events_say_why_agents_do_not(
    kube: Cluster, namespace: str, install: Install
) -> None:
    kube.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    release = install("gosched", *ONE, *NO_VOLUME)
    release.await_ready()
    release.await_event("violates PodSecurity")


def test_two_releases_share_a_namespace_and_a_volume_of_the_other_cluster_is_refused(
    kube: Cluster, install: Install
) -> None:
    first = install("first", *ONE, *NO_AGENT)
    second = install("second", *ONE, *NO_AGENT)
    first.await_ready()
    second.await_ready()
    mine, theirs = (_volume(kube, release) for release in (second, first))
    second.kubectl("scale", f"statefulset/{second.fullname}", "--replicas=0")
    until(lambda: not second.masters(), "the second has stopped")
    shutil.rmtree(mine)
    shutil.copytree(theirs, mine)
    second.kubectl("scale", f"statefulset/{second.fullname}", "--replicas=1")
    pod = f"{second.fullname}-0"
    until(
        lambda: f"belongs to {first.fullname}-0, this is {pod}: give each its own" in second.log(pod),
        "the master says whose volume it got",
    )
    first.await_ready()


def _volume(kube: Cluster, release: Release) -> Path:
    """Return where the volume of the release's first master is on this host."""
    claim = f"data-{release.fullname}-0"
    volume = release.object("pvc", claim)["spec"]["volumeName"]
    return Path(json.loads(kube.kubectl("get", "pv", volume, "-o", "json"))["spec"]["local"]["path"])
