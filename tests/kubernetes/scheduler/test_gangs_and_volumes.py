"""Gangs by each kind of PodGroup, and pods whose volumes are on some nodes alone, on a real API server."""

from __future__ import annotations

from typing import Any

from gosched.client import GoSchedClient
from tests.kubernetes.scheduling import Pods, fresh_nodes, is_made, jobs_of, serve_pod_groups, until, why
from tools.kubernetes.cluster import Cluster
from tools.kubernetes.pretended import Api, node, pod

NATIVE = "/apis/scheduling.k8s.io/v1beta1"
COSCHEDULING = "scheduling.x-k8s.io/v1alpha1"
VOLCANO = "scheduling.volcano.sh/v1beta1"


def test_a_gang_waits_whole_and_says_why(api: Api, pods: Pods, client: GoSchedClient, control: Cluster) -> None:
    group = {"metadata": {"name": "train"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    member: dict[str, Any] = {"cpu": "6", "schedulingGroup": {"podGroupName": "train"}}
    with fresh_nodes(api, [node("a"), node("b")]):
        api("POST", f"{NATIVE}/namespaces/{pods.namespace}/podgroups", group)
        pods.create(pod("train-0", **member), pod("train-1", **member))
        until("the first members wait for the third", lambda: why(pods, "train-0", "WaitingForGang", "1 more"))
        assert not jobs_of(client, pods)
        pods.create(pod("train-2", **member))
        until("they say what is missing", lambda: why(pods, "train-2", "Unschedulable", "cpu"))
        shown = control.kubectl("describe", "pod", "train-2", "-n", pods.namespace)
        assert "FailedScheduling" in shown
        assert "gosched" in shown
        assert not pods.bound()
        api("POST", "/api/v1/nodes", node("c"))
        until("all are bound", lambda: len(pods.bound()) == 3)
        assert sorted(pods.bound().values()) == ["a", "b", "c"]
        assert [job.spec.task_count for job in jobs_of(client, pods)] == [3]
        pods.create(pod("train-3", **{**member, "cpu": "1"}))
        until("a late member is placed by itself", lambda: pods.node_of("train-3"))


def test_gangs_of_the_scheduler_plugins_are_gangs(api: Api, pods: Pods, client: GoSchedClient) -> None:
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "duo"},
        "spec": {"minMember": 2},
    }
    with fresh_nodes(api, [node("x", cpu="2"), node("y", cpu="2")]):
        pods.create(pod("duo-0", cpu="2", group="duo"), pod("duo-1", cpu="2", group="duo"))
        until("they say that it is missing", lambda: why(pods, "duo-0", "WaitingForGang", "does not exist"))
        serve_pod_groups(api, COSCHEDULING)
        path = f"/apis/{COSCHEDULING}/namespaces/{pods.namespace}/podgroups"
        until("the API is served", lambda: is_made(api, path, group))
        until("both are bound", lambda: len(pods.bound()) == 2)
        assert [job.spec.task_count for job in jobs_of(client, pods)] == [2]


def test_gangs_of_volcano_are_bound_whole_or_not_at_all(api: Api, pods: Pods, client: GoSchedClient) -> None:
    serve_pod_groups(api, VOLCANO)
    group = {
        "apiVersion": VOLCANO,
        "kind": "PodGroup",
        "metadata": {"name": "trio"},
        "spec": {"minMember": 3, "queue": "default"},
    }
    path = f"/apis/{VOLCANO}/namespaces/{pods.namespace}/podgroups"
    member: dict[str, Any] = {"cpu": "2", "annotations": {"scheduling.k8s.io/group-name": "trio"}}
    with fresh_nodes(api, [node("u", cpu="2"), node("v", cpu="2")]):
        until("the API is served", lambda: is_made(api, path, group))
        pods.create(pod("trio-0", **member), pod("trio-1", **member))
        until("they wait for the third", lambda: why(pods, "trio-0", "WaitingForGang", "1 more"))
        assert not jobs_of(client, pods)
        pods.create(pod("trio-2", **member), pod("trio-3", **member))
        until("the gang has no room", lambda: why(pods, "trio-0", "Unschedulable", "cpu"))
        until("one more waits for the gang", lambda: why(pods, "trio-3", "WaitingForGang", "after these are bound"))
        assert not pods.bound()
        api("POST", "/api/v1/nodes", node("w", cpu="2"))
        until("the gang is bound", lambda: len(pods.bound()) == 3)
        assert sorted(pods.bound().values()) == ["u", "v", "w"]
        assert not pods.node_of("trio-3")
        until("the one more is a job of its own", lambda: len(jobs_of(client, pods)) == 2)
        assert sorted(job.spec.task_count for job in jobs_of(client, pods)) == [1, 3]


def test_pods_go_where_their_volumes_are(api: Api, pods: Pods) -> None:
    claims = f"/api/v1/namespaces/{pods.namespace}/persistentvolumeclaims"

    def volume(name: str, *nodes: str) -> None:
        """Make a volume that is on some nodes, and the claim that has it."""
        size = {"storage": "1Gi"}
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}]}
        spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        at = {"local": {"path": "/none"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
        api("POST", "/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": {**spec, **at, "capacity": size}})
        claim = {**spec, "resources": {"requests": size}, "volumeName": name}
        api("POST", claims, {"metadata": {"name": name}, "spec": claim})

    def using(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]

    with fresh_nodes(api, [node("near", cpu="2"), node("far", cpu="8"), node("farther", cpu="8")]):
        pods.create(pod("reader", volumes=using("data")))
        until("it says that the claim is missing", lambda: why(pods, "reader", "Unschedulable", "no claim data"))
        volume("data", "near")
        assert until("it goes to its volume", lambda: pods.node_of("reader")) == "near"
        volume("more", "far", "near")
        pods.create(pod("both", volumes=using("data", "more")))
        assert until("it goes where both of its volumes are", lambda: pods.node_of("both")) == "near"
        pods.create(pod("waits", volumes=using("data")))
        until("one whose volume's node is full waits", lambda: why(pods, "waits", "Unschedulable", "cpu"))
        assert not pods.node_of("waits")
        volume("apart", "farther")
        pods.create(pod("never", volumes=using("data", "apart")))
        until("one whose volumes are apart waits", lambda: why(pods, "never", "Unschedulable", ""))
        assert not pods.node_of("never")
