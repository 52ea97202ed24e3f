"""`goschedctl import kube`: a listing of kubectl as quotas, priorities and agents' configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gosched.cli.main import run_cli
from gosched.config.errors import ConfigError
from gosched.config.load import load_agent_settings, parse_queue_file, parse_quota_file
from gosched.core.records.queue import QueueOrder
from gosched.integrations.kube_objects.cluster import KubeCluster, read_cluster
from gosched.integrations.kube_objects.reading import MAX_BYTES, read_objects

Json = dict[str, Any]
ALLOCATABLE = {
    "cpu": "7910m",
    "memory": "31Gi",
    "ephemeral-storage": "100Gi",
    "pods": "110",
    "nvidia.com/gpu": "2",
    "example.com/fpga": "1",
    "gpu.intel.com/i915": "1",
    "attachable-volumes-csi": "20",
}


def made(kind: str, name: str, namespace: str = "", **more: Any) -> Json:
    return {"kind": kind, "metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, **more}


def quota(hard: Any, namespace: str = "team", name: str = "q", **spec: Any) -> Json:
    return made("ResourceQuota", name, namespace, spec={"hard": hard, **spec})


def node(name: str = "n1", **spec: Any) -> Json:
    found = made("Node", name, spec=spec, status={"allocatable": ALLOCATABLE})
    found["metadata"]["labels"] = {"topology.kubernetes.io/zone": "a", "nvidia.com/gpu.product": "NVIDIA-H100"}
    return found


def read(*objects: Any) -> KubeCluster:
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": [*objects]})
    return read_cluster(read_objects(text.encode(), "x"), "x")


def limit_of(*quotas: Json) -> dict[str, int]:
    return dict(read(*quotas).quotas[0].limit)


def noted(found: KubeCluster) -> dict[str, str]:
    return {note.name: note.value for note in found.notes}


def test_namespaces_are_tenants_and_their_quotas_quotas() -> None:
    hard = {
        "requests.cpu": "1500m",
        "memory": "1.5Gi",
        "requests.nvidia.com/gpu": "4",
        "requests.ephemeral-storage": "1e3",
        "requests.example.com/fpga": "2",
        "hugepages-2Mi": "4Mi",
        "pods": "0",
    }
    assert limit_of(quota(hard)) == {
        "cpu": 1500,
        "memory": 3 << 29,
        "gpu": 4000,
        "storage": 1000,
        "example.com_fpga": 2,
        "hugepages-2Mi": 4 << 20,
        "pods": 0,
    }


def test_the_least_of_several_quotas_counts() -> None:
    assert limit_of(quota({"cpu": "3", "memory": "2Gi"}), quota({"requests.cpu": "500m"}, name="r")) == {
        "cpu": 500,
        "memory": 2 << 30,
    }


def test_what_has_no_equivalent_is_named() -> None:
    hard = {
        "cpu": "1",
        "limits.cpu": 2,
        "count/jobs.batch": "4",
        "requests.storage": "1Ti",
        "services": "3",
        "memory": "12E",
    }
    found = read(quota(hard), quota({"cpu": 1}, name="scoped", scopes=["BestEffort"]), made("Namespace", "free"))
    assert dict(found.quotas[0].limit) == {"cpu": 1000}
    assert noted(found) == {
        "hard.limits.cpu of ResourceQuota": "team/q",
        "hard.count/jobs.batch of ResourceQuota": "team/q",
        "hard.requests.storage of ResourceQuota": "team/q",
        "hard.services of ResourceQuota": "team/q",
        "hard.memory of ResourceQuota": "team/q",
        "scopes of ResourceQuota": "team/scoped",
        "Namespace": "free",
    }


def test_a_setting_of_many_objects_is_one_note() -> None:
    found = read(*[quota({"cpu": "1", "limits.cpu": "2"}, f"ns-{i}") for i in range(500)], made("Pod", "p"))
    assert len(found.quotas) == 500
    assert noted(found) == {
        "hard.limits.cpu of ResourceQuota": "ns-0/q, ns-1/q, ns-2/q and 497 more",
        "Pod": "p",
    }


def test_priorities_are_those_of_the_bridge() -> None:
    classes = [
        made("PriorityClass", "high", value=1_000_000, preemptionPolicy="Never"),
        made("PriorityClass", "low", value=-10, globalDefault=True),
    ]
    high, low = read(*classes).priorities
    assert (high.keys, low.keys, low.is_default) == (
        {"priority": 800, "preemption": {"policy": "never"}},
        {"priority": 90},
        True,
    )


def test_nodes_are_configs_of_agents(tmp_path: Path) -> None:
    taints = [
        {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
    ]
    found = read(node(taints=taints, unschedulable=True))
    file = tmp_path / "agent.yaml"
    file.write_text(yaml.safe_dump(found.agents["n1"]))
    settings = load_agent_settings(str(file), {})
    assert dict(settings.labels)["topology.kubernetes.io/zone"] == "a"
    assert [(taint.key, taint.value, taint.effect) for taint in settings.taints] == [("gpu", "yes", "no_schedule")]
    assert settings.resources is not None
    assert (settings.resources.cpu_millis, settings.resources.gpu_millis) == (7910, 2000)
    assert dict(settings.resources.custom) == {"example.com_fpga": 1}
    assert settings.gpu_model == "nvidia-h100"
    assert noted(found) == {
        "gpu.intel.com_i915 of Node": "n1",
        "pods of Node": "n1",
        "taint node.kubernetes.io/not-ready of Node": "n1",
        "Node": "n1",
    }


def test_lists_streams_and_single_objects_are_read() -> None:
    first, second = quota({"cpu": 1}), quota({"cpu": 2}, "other")
    del second["kind"]
    listed = {"kind": "ResourceQuotaList", "items": [second]}
    in_json = json.dumps(first) + "\n\n" + json.dumps(listed) + "\n"
    in_yaml = yaml.safe_dump_all([first, None, listed])
    for text in (in_json, in_yaml):
        assert [each.path for each in read_objects(text.encode(), "x")] == ["team/q", "other/q"]


def test_fractions_are_read_in_yaml_and_json() -> None:
    for text in (
        b'{"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"cpu": 0.1}}}',
        b"kind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {cpu: 0.1}}",
    ):
        assert read_cluster(read_objects(text, "x"), "x").quotas[0].limit == (("cpu", 100),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "x: no objects of Kubernetes in it"),
        (b"3", "x: document 1: expected an object of Kubernetes, got 3"),
        (b"[]", "x: document 1: expected an object"),
        (
            b'{"kind": "List", "items": [null]}',
            "x: document 1: items[0]: expected an object of Kubernetes, got nothing",
        ),
        (b'{"kind": "List", "items": {}}', "items of the List is no list"),
        (b'{"kind": "List", "items": null}', "no objects of Kubernetes"),
        (b'{"metadata": {"name": "x"}}', "it has no kind"),
        (b'{"kind": 3}', "it has no kind"),
        (b'{"kind": "Node"}', "this Node has no name"),
        (b'{"kind": "Node", "metadata": {"name": "../x"}}', "this Node has no name but ../x"),
        (b'{"kind": "Node", "metadata": []}', "metadata is no object"),
        (b'{"kind": "Node", ', "x:1: not valid JSON"),
        (b'{"kind": "Node"} {', "x:1: not valid JSON"),
        (b'{"a":' * 100_000, "this JSON cannot be read"),
        (b'{"kind": "\xff"}', "not UTF-8"),
        (b"kind: [", "not valid YAML"),
        (b'{"kind": "Pod", "metadata": {"name": "x"}}', "no Node, Namespace, ResourceQuota, PriorityClass in it"),
    ],
)
def test_what_is_no_listing_is_refused_with_its_place(text: bytes, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_cluster(read_objects(text, "x"), "x")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (quota({"cpu": "a lot"}), "x: ResourceQuota team/q: cpu is 'a lot', which is no quantity"),
        (quota({"cpu": "-1"}), "hard.cpu is negative"),
        (quota({"cpu": None}), "no quantity"),
        (quota({"cpu": True}), "no quantity"),
        (quota([]), "hard is no object"),
        (made("ResourceQuota", "q", spec=3), "spec is no object"),
        (made("PriorityClass", "p", value="1"), "value is no whole number"),
        (made("PriorityClass", "p", value=1, preemptionPolicy=[]), "preemptionPolicy is no text"),
        (made("Node", "n", status={"allocatable": {"cpu": []}}), "no quantity"),
        (made("Node", "n", spec={"taints": ["x"]}), "cannot be read"),
    ],
)
def test_wrong_types_are_refused_by_the_object(found: Json, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(found)
    assert words in str(caught.value)


def test_nulls_and_unknown_fields_are_none() -> None:
    found = read(
        made("ResourceQuota", "q", "team", spec=None),
        made("Node", "n", spec=None, status=None, later={"a": 1}),
        made("PriorityClass", "p", value=None),
    )
    assert (found.quotas, found.agents) == ((), {"n": {}})
    assert found.priorities[0].priority == 100


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(ConfigError, match="list fewer kinds at once"):
        read_objects(b" " * (MAX_BYTES + 1), "x")


def test_the_command_prints_what_quota_apply_and_queue_apply_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "listing.yaml"
    listing = [quota({"cpu": "2"}), node(), made("PriorityClass", "high", value=1000, globalDefault=True)]
    file.write_text(yaml.safe_dump_all(listing))
    agents = tmp_path / "agents"
    assert run_cli(["import", "kube", str(file), "--agents", str(agents)]) == 0
    out, err = capsys.readouterr()
    (queue,), quotas = parse_queue_file(out, "out")
    assert (queue.path, queue.order) == ("default", QueueOrder.PRIORITY)
    assert quotas == parse_quota_file(out, "out")
    assert "PriorityClass high = 1000: priority: 619; pods that name no class have it" in err
    assert err.endswith("1 queue, 1 quota, 1 node, 3 notes\n")
    assert run_cli(["config", "validate", str(agents / "n1.yaml")]) == 0
    capsys.readouterr()
    assert run_cli(["import", "kube", str(file), "--agents", str(agents)]) == 2
    assert "n1.yaml is there already: name a new directory" in capsys.readouterr().err
    assert run_cli(["import", "kube", str(file), "-o", "json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert ([*found], err) == (["queues", "quotas", "priorities", "agents", "notes"], "")
    assert found["priorities"] == [{"name": "high", "value": 1000, "priority": 619}]
