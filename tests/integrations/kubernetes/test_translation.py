"""Pods and nodes of Kubernetes as jobs and nodes of gosched: the pure parts of gosched-kube."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from gosched.core.features import FeatureLevel
from gosched.core.resources import Resources
from gosched.core.rules.jobs import check_job
from gosched.core.spec.placement_rules import Affinity, LabelOp, TaintEffect, Toleration, TolerationOp
from gosched.core.spec.policies import PreemptionPolicy
from gosched.integrations.kube_objects.nodes import offer, read_node
from gosched.integrations.kube_objects.pod_rules import Refused
from gosched.integrations.kube_objects.pods import GroupKind, GroupRef, Pod, read_pod
from gosched.integrations.kube_objects.quantities import amounts, pod_requests
from gosched.integrations.kube_objects.translate import Wanted, priority, translate
from gosched.integrations.kubernetes.jobs import Gang, gang_job, kinds, shape, single_job, split
from gosched.integrations.kubernetes.placing import ANYWHERE

ALWAYS = "requiredDuringSchedulingIgnoredDuringExecution"


def written(name: str = "p", **spec: Any) -> dict[str, Any]:
    requests = {"cpu": "500m", "memory": "1Gi"}
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", **spec.pop("metadata", {})}
    container = {"name": "c", "resources": {"requests": requests}}
    return {"metadata": metadata, "spec": {"schedulerName": "gosched", "containers": [container], **spec}}


def read(name: str = "p", **spec: Any) -> Pod:
    return read_pod(written(name, **spec), "gosched")


def wanted(**spec: Any) -> Wanted:
    return translate(read(**spec), cluster="kubernetes", queue="default")


@pytest.mark.parametrize(
    ("text", "amount"),
    [("1", 1), ("1500m", 2), ("4Gi", 4 << 30), ("1e3", 1000), ("1E", 10**18), ("0.5k", 500), ("100n", 1), (3, 3)],
)
def test_quantities_are_read_exactly_and_rounded_up(text: object, amount: int) -> None:
    assert amounts({"memory": text}) == {"memory": min(amount, 1 << 52)}


def test_cpus_are_thousandths() -> None:
    assert amounts({"cpu": "0.1"}) == {"cpu": 100}
    assert amounts({"cpu": "1u"}) == {"cpu": 1}


@pytest.mark.parametrize("text", ["", "1 Gi", "Gi", "1Xi", "--1", None, [], "1e", "1ee5"])
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        amounts({"memory": text})


def test_requests_follow_the_rule_of_init_containers_sidecars_and_overhead() -> None:
    def of(cpu: str, **more: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "initContainers": [of("1"), of("200m", restartPolicy="Always"), of("3")],
        "containers": [of("1"), of("500m")],
        "overhead": {"cpu": "50m"},
    }
    assert pod_requests(spec) == Resources(cpu_millis=3250, custom=(("pods", 1),))
    spec["initContainers"] = [of("1"), of("200m", restartPolicy="Always")]
    assert pod_requests(spec).cpu_millis == 1750
    spec["resources"] = {"requests": {"cpu": "2"}}
    assert pod_requests(spec).cpu_millis == 2050


def test_extended_resources_are_gpus_or_the_clusters_own() -> None:
    requests = {"nvidia.com/gpu": "2", "example.com/fpga": "1", "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"}
    assert pod_requests({"containers": [{"resources": {"requests": requests}}]}) == Resources(
        gpu_millis=2000,
        storage_bytes=1 << 30,
        custom=(("example.com_fpga", 1), ("hugepages-2Mi", 4 << 20), ("pods", 1)),
    )


def test_priorities_keep_their_order() -> None:
    values = [-100, -1, 0, 1, 10, 500, 520, 10_000, 1_000_000, 1_100_000, 1_000_000_000, 2_000_001_000]
    ours = [priority(value) for value in values]
    assert ours == sorted(set(ours))
    assert (ours[0], ours[-1], priority(-(1 << 31))) == (0, 1000, 0)


def test_rules_become_rules() -> None:
    terms = [
        {"key": "zone", "operator": "In", "values": ["a", "b"]},
        {"key": "old", "operator": "DoesNotExist"},
    ]
    field = {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
    affinity = {
        "nodeAffinity": {
            ALWAYS: {"nodeSelectorTerms": [{"matchExpressions": terms, "matchFields": [field]}]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 7, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}}
            ],
        }
    }
    tolerations = [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, {"key": "a", "value": "b"}]
    found = wanted(
        affinity=affinity,
        tolerations=tolerations,
        nodeSelector={"disk": "ssd"},
        priority=1000,
        preemptionPolicy="Never",
        metadata={"labels": {"gosched.io/queue": "research"}},
    )
    assert (found.queue, found.preemption) == ("research", PreemptionPolicy.NEVER)
    assert found.group.node_selector == (("disk", "ssd"), ("gosched.io/kubernetes", "kubernetes"))
    assert found.group.affinity == (
        Affinity(label="zone", op=LabelOp.IN, values=("a", "b")),
        Affinity(label="old", op=LabelOp.NOT_EXISTS),
        Affinity(label="gosched.io/node", op=LabelOp.NOT_IN, values=("n1",)),
        Affinity(label="ssd", op=LabelOp.EXISTS, weight=7),
    )
    assert found.group.tolerations[1:] == (
        Toleration(key="gpu", effect=TaintEffect.NO_EXECUTE),
        Toleration(key="a", op=TolerationOp.EQUAL, value="b"),
    )


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (
            {"affinity": {"podAntiAffinity": {ALWAYS: [{"topologyKey": "zone", "matchLabelKeys": ["a"]}]}}},
            "podAntiAffinity",
        ),
        ({"resourceClaims": [{"name": "gpu"}]}, "resourceClaims"),
        ({"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}, "hostPort"),
        ({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]}, "binds late"),
        (
            {"affinity": {"nodeAffinity": {ALWAYS: {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": key, "operator": "Exists"}]} for key in "ab"]}}}},
            "2 alternative terms",
        ),
        ({"affinity": {"nodeAffinity": {ALWAYS: {"nodeSelectorTerms": [{}]}}}}, "matches no node"),
        ({"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]}, "Gt"),
    ],
)  # fmt: skip
def test_what_gosched_would_not_keep_is_refused_by_name(spec: dict[str, Any], named: str) -> None:
    with pytest.raises(Refused, match=named):
        wanted(**spec)


def test_wishes_that_have_no_counterpart_are_left_out() -> None:
    wish = {"podAffinityTerm": {"topologyKey": "zone"}, "weight": 1}
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    spread = [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]
    assert wanted(affinity=affinity, topologySpreadConstraints=spread) == wanted()


def test_groups_of_three_apis_are_known() -> None:
    native = read(schedulingGroup={"podGroupName": "g"})
    label = read(metadata={"labels": {"scheduling.x-k8s.io/pod-group": "g"}})
    volcano = read(metadata={"annotations": {"scheduling.k8s.io/group-name": "g"}})
    kinds = [pod.group.kind for pod in (native, label, volcano) if pod.group]
    assert kinds == [GroupKind.NATIVE, GroupKind.COSCHEDULING, GroupKind.VOLCANO]
    assert read().group is None
    long = GroupRef(kind=GroupKind.NATIVE, namespace="n" * 63, name="g" * 253)
    assert len(long.key) <= 253


def gang(*, needed: int, pods: int, bound: int = 0, promised: int = 0) -> tuple[int, int, int, int]:
    ref = GroupRef(kind=GroupKind.NATIVE, namespace="team", name="g")
    free = tuple([read(f"p{i}") for i in range(pods)])
    found = split(Gang(ref=ref, needed=needed, bound=bound, free=free, promised=promised))
    return len(found.together), len(found.alone), len(found.waiting), found.missing


def test_a_gang_is_submitted_whole_and_what_comes_later_alone() -> None:
    assert gang(needed=3, pods=2) == (0, 0, 2, 1)
    assert gang(needed=3, pods=3) == (3, 0, 0, 0)
    assert gang(needed=3, pods=5) == (3, 0, 2, 0)
    assert gang(needed=3, pods=3, promised=3) == (0, 0, 0, 0)
    assert gang(needed=3, pods=4, promised=3) == (0, 0, 1, 0)
    assert gang(needed=3, pods=2, promised=1, bound=2) == (0, 0, 1, 0)
    assert gang(needed=3, pods=1, bound=3) == (0, 1, 0, 0)
    assert gang(needed=3, pods=1, bound=1) == (0, 0, 1, 1)
    assert gang(needed=3, pods=2, bound=1) == (2, 0, 0, 0)
    assert gang(needed=1, pods=2) == (0, 2, 0, 0)


def test_jobs_are_ones_that_the_masters_take() -> None:
    pods = [read("a"), read("b"), read("c", nodeSelector={"x": "y"})]
    asked = [(pod, translate(pod, cluster="kubernetes", queue="default")) for pod in pods]
    ref = GroupRef(kind=GroupKind.NATIVE, namespace="team", name="g")
    anywhere = dict.fromkeys(kinds(asked), ANYWHERE)
    spec = gang_job(ref, asked, "kubernetes", anywhere)
    assert [group.count for group in spec.groups] == [2, 1]
    assert {group.name for group in spec.groups} == {shape(each) for _, each in asked}
    assert check_job(spec, max(FeatureLevel)) is None
    assert spec == gang_job(ref, list(reversed(asked[:2])) + asked[2:], "kubernetes", anywhere)
    single = single_job(*asked[0], "kubernetes")
    assert check_job(single, max(FeatureLevel)) is None
    assert single.name.startswith("team.a.")
    assert single.name != single_job(read("a", metadata={"uid": "another"}), asked[0][1], "kubernetes").name


def node(**more: Any) -> dict[str, Any]:
    allocatable = {"cpu": "7500m", "memory": "30Gi", "pods": "110", "attachable-volumes-aws-ebs": "25", **more}
    return {
        "metadata": {"name": "n", "uid": "u", "labels": {"zone": "a"}},
        "spec": {"taints": [{"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoExecute"}]},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def test_a_node_offers_what_others_leave_and_never_less_than_we_hold() -> None:
    found = read_node(node())

    def offered(foreign: int, own: int) -> Resources:
        return offer(
            found,
            cluster="kubernetes",
            foreign=Resources(cpu_millis=foreign, custom=(("pods", 1),)),
            own=Resources(cpu_millis=own),
            address="a:1",
            incarnation="i",
        ).capacity

    assert offered(500, 0) == Resources(cpu_millis=7000, memory_bytes=30 << 30, custom=(("pods", 109),))
    assert offered(7000, 2000).cpu_millis == 2000
    assert offered(9000, 0).cpu_millis == 0
    assert found.unfit == ""
    assert [taint.effect for taint in found.taints] == [TaintEffect.NO_EXECUTE]


def test_a_node_that_is_not_ready_or_cordoned_takes_nothing() -> None:
    broken = node()
    broken["status"]["conditions"] = []
    assert read_node(broken).unfit == "the Kubernetes node is not ready"
    cordoned = node()
    cordoned["spec"]["unschedulable"] = True
    assert read_node(cordoned).unfit == "the Kubernetes node is cordoned"


@pytest.mark.parametrize("key", ["metadata", "spec", "status"])
@pytest.mark.parametrize("value", [None, 7, "text", [], [1], {"labels": 3}, {"uid": 5}, {"conditions": [1]}])
def test_an_object_that_makes_no_sense_is_one_line(key: str, value: object) -> None:
    """Nothing but a ValueError comes out; and what can be read all the same is read."""
    for whole, reader in ((written(), lambda found: read_pod(found, "gosched")), (node(), read_node)):
        with suppress(ValueError):
            reader({**whole, key: value})


def test_of_many_resources_of_a_node_the_number_of_pods_stays() -> None:
    allocatable = {f"a.example/{i:02}": "1" for i in range(40)} | {"pods": "110", "cpu": "2"}
    node = read_node({"metadata": {"name": "n", "uid": "u"}, "status": {"allocatable": allocatable}})
    assert dict(node.allocatable.custom)["pods"] == 110
