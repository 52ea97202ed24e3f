"""gosched as a second scheduler of a real API server: three masters, the bridge, and pretended nodes."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from gosched.cli.local_cluster import LocalCluster
from gosched.cli.main import run_cli
from gosched.client import GoSchedClient
from gosched.config.jobs.jobfile import parse_job_file
from gosched.config.load import load_agent_settings
from gosched.core.records.job import JobState
from gosched.integrations.kubernetes.submitting import LOOK_S
from tests.kubernetes.scheduling import (
    BRIDGE,
    Bridge,
    Pods,
    Way,
    fresh_nodes,
    job_state,
    jobs_of,
    limited_kubeconfig,
    serve_pod_groups,
    task_states,
    until,
    why,
)
from tools.kubernetes.cluster import Cluster
from tools.kubernetes.pretended import Api, Kubelets, node, pod

NATIVE = "/apis/scheduling.k8s.io/v1beta1"


def test_a_pod_is_bound_and_its_end_is_the_jobs(api: Api, pods: Pods, kubelet: Kubelets, client: GoSchedClient) -> None:
    with fresh_nodes(api, [node("small", cpu="1"), node("large", cpu="8")]):
        pods.create(pod("one", cpu="4"), pod("other", scheduler="somebody-else"))
        assert until("the pod is bound", lambda: pods.node_of("one")) == "large"
        until("its job runs", lambda: job_state(client, pods) == ["RUNNING"])
        task = client.get_job(jobs_of(client, pods)[0].id).tasks[0]
        annotations = (pods.get("one") or {})["metadata"]["annotations"]
        assert annotations["gosched.io/allocation"] == task.allocation_id
        assert not pods.node_of("other")
        kubelet.set_phase(pods.namespace, "one", "Failed", exit_code=3)
        until("its job has failed", lambda: job_state(client, pods) == ["FAILED"])
        assert jobs_of(client, pods)[0].exit_code == 3


def test_a_restart_forgets_nothing_and_binds_nothing_twice(
    api: Api, pods: Pods, kubelet: Kubelets, client: GoSchedClient, bridge: Bridge, masters: LocalCluster
) -> None:
    count = 120
    with fresh_nodes(api, [node(f"n{i}", cpu="32") for i in range(5)]):
        pods.create(*[pod(f"p{i}", cpu="1") for i in range(count)])
        until("some are bound", lambda: len(pods.bound()) >= 5)
        bridge.kill()
        halfway = len(pods.bound())
        masters.leader().kill()
        bridge.start(masters)
        until("all are bound", lambda: len(pods.bound()) == count)
        until("all jobs run", lambda: job_state(client, pods) == ["RUNNING"] * count)
        for program in masters.masters.values():
            if not program.is_alive:
                masters.restart(program)
        found = pods.all()
        assert halfway < count
        for job in jobs_of(client, pods):
            task = client.get_job(job.id).tasks[0]
            mine = found[dict(job.spec.labels)["gosched.io/pod"].partition("/")[2]]
            assert mine["metadata"]["annotations"]["gosched.io/allocation"] == task.allocation_id
            assert kubelet.nodes_of[mine["metadata"]["uid"]] == {mine["spec"]["nodeName"]}
            assert task.attempt == 1


def test_one_bridge_alone_serves_a_cluster(
    api: Api,
    pods: Pods,
    client: GoSchedClient,
    control: Cluster,
    bridge: Bridge,
    masters: LocalCluster,
    tmp_path: Path,
) -> None:
    way = Way(control)
    other = Bridge(limited_kubeconfig(control, tmp_path / "other.config", way), tmp_path / "other.log")
    with fresh_nodes(api, [node("shared")]):
        try:
            other.start(masters)
            until("the other one waits", lambda: other.said("another bridge serves this cluster"))
            pods.create(pod("before"))
            until("the first one binds", lambda: pods.node_of("before"))
            bridge.kill()
            until("the other one takes over", lambda: other.said("bridge started"))
            pods.create(pod("after"))
            until("the other one binds", lambda: pods.node_of("after"))
            until("both jobs run", lambda: job_state(client, pods) == ["RUNNING", "RUNNING"])
            assert [client.get_job(job.id).tasks[0].attempt for job in jobs_of(client, pods)] == [1, 1]

            bridge.start(masters)
            until("now the first one waits", lambda: bridge.said("another bridge serves this cluster"))
            way.cut()
            until("the first one has it again", lambda: bridge.said("the lease is held now"))
            pods.create(pod("last"), pod("waits", cpu="100"))
            until("the first one binds again", lambda: pods.node_of("last"))
            jobs = ["PENDING", "RUNNING", "RUNNING", "RUNNING"]
            until("all have jobs", lambda: job_state(client, pods) == jobs)
            time.sleep(4 * LOOK_S)  # one that is cut off does not cancel a job whose pod it does not know
            assert job_state(client, pods) == jobs
            assert {task.attempt for job in jobs_of(client, pods) for task in client.get_job(job.id).tasks} == {1}
            way.mend()
            assert other.ended() == 2
            assert " serves this cluster now (lease kube-system/gosched-kube-gosched)" in other.text.splitlines()[-1]
        finally:
            other.kill()
            way.close()


def test_rules_of_pods_are_kept(api: Api, pods: Pods, client: GoSchedClient) -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    nodes = [
        node("plain", cpu="4"),
        node("gpus", taints=[taint], labels={"disk": "ssd"}, amounts={"nvidia.com/gpu": "2"}),
        node("old", labels={"disk": "hdd", "age": "9"}),
        node("fpga", cpu="4", amounts={"example.com/fpga": "1"}),
    ]
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    gpu = {"requests": {"cpu": "1", "nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}
    fpga = {"requests": {"cpu": "1", "example.com/fpga": "1"}, "limits": {"example.com/fpga": "1"}}
    term = {"matchExpressions": [{"key": "age", "operator": "Gt", "values": ["5"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    with fresh_nodes(api, nodes):
        pods.create(
            pod("tolerant", tolerations=tolerations, nodeSelector={"disk": "ssd"}),
            pod("intolerant", nodeSelector={"disk": "ssd"}),
            pod("by-affinity", affinity=affinity),
            pod("gpu", tolerations=tolerations, containers=[{"name": "c", "image": "none", "resources": gpu}]),
            pod("fpga", containers=[{"name": "c", "image": "none", "resources": fpga}]),
            pod("gated", schedulingGates=[{"name": "example.com/wait"}], nodeSelector={"disk": "hdd"}),
            pod("foreign", cpu="3", scheduler="somebody-else", nodeName="plain"),
            pod("crowded", cpu="2", nodeSelector={"kubernetes.io/hostname": "plain"}),
        )
        wanted = {"tolerant": "gpus", "by-affinity": "old", "gpu": "gpus", "fpga": "fpga", "foreign": "plain"}
        until("those that fit are bound", lambda: pods.bound() == wanted)
        until("the intolerant one says why", lambda: why(pods, "intolerant", "Unschedulable", "taint"))
        until("the crowded one says why", lambda: why(pods, "crowded", "Unschedulable", "cpu"))
        api("PATCH", f"{pods.path}/gated", {"spec": {"schedulingGates": None}}, patch="merge-patch")
        assert until("a pod without gates is bound", lambda: pods.node_of("gated")) == "old"
        pods.delete("foreign")
        assert until("its place is offered", lambda: pods.node_of("crowded")) == "plain"


def test_rules_about_other_pods_are_kept(api: Api, pods: Pods) -> None:
    def of(app: str, key: str) -> dict[str, Any]:
        return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}

    def spread(app: str) -> list[dict[str, Any]]:
        return [{**of(app, "zone"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]

    def zones(prefix: str) -> list[str]:
        return sorted([node[0] for node in pods.bound(prefix).values()])

    apart = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [of("web", "kubernetes.io/hostname")]}
    }
    names = ["a1", "a2", "a3", "b1"]
    group = {"metadata": {"name": "even"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}}
    member: dict[str, Any] = {"labels": {"app": "even"}, "schedulingGroup": {"podGroupName": "even"}}
    with fresh_nodes(api, [node(name, labels={"zone": name[0]}) for name in names]):
        pods.create(pod("theirs", labels={"app": "web"}, scheduler="somebody-else", nodeName="a1"))
        pods.create(*[pod(f"web-{i}", labels={"app": "web"}, affinity=apart) for i in range(4)])
        until("those that have a node of their own are bound", lambda: len(pods.bound("web-")) == 3)
        assert sorted(pods.bound("web-").values()) == ["a2", "a3", "b1"]
        (last,) = pods.all().keys() - pods.bound().keys()
        until("the last one says why it waits", lambda: why(pods, last, "Unschedulable", "anti-affinity"))
        pods.delete("theirs")
        assert until("the last one takes the node that is left", lambda: pods.node_of(last)) == "a1"
        pods.create(pod("plain", labels={"app": "web"}))
        until("one that their rule names waits, too", lambda: why(pods, "plain", "Unschedulable", "anti-affinity"))

        api("POST", f"{NATIVE}/namespaces/{pods.namespace}/podgroups", group)
        pods.create(*[pod(f"even-{i}", topologySpreadConstraints=spread("even"), **member) for i in range(4)])
        until("the gang is bound", lambda: len(pods.bound("even-")) == 4)
        assert zones("even-") == ["a", "a", "b", "b"]

        single: dict[str, Any] = {"labels": {"app": "single"}, "topologySpreadConstraints": spread("single")}
        pods.create(*[pod(f"single-{i}", **single) for i in range(4)])
        until("all are bound, one after the other", lambda: len(pods.bound("single-")) == 4)
        assert zones("single-") == ["a", "a", "b", "b"]
        pods.create(pod("huge", cpu="100", **single))
        until("one that has no room waits", lambda: why(pods, "huge", "Unschedulable", "cpu"))
        pods.create(pod("small", **single))
        until("it keeps no other one waiting", lambda: pods.node_of("small"))


def test_rules_mean_what_they_mean_to_kube_scheduler(api: Api, pods: Pods) -> None:
    """What the unit tests' reference says of the corners is true of the built-in one."""

    def spread(selector: dict[str, Any], *keys: str) -> list[dict[str, Any]]:
        rule = {"labelSelector": selector, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        return [{**rule, "topologyKey": key} for key in keys]

    near = {"labelSelector": {"matchLabels": {"app": "near"}}, "topologyKey": "zone"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    both_keys = spread({"matchLabels": {"app": "keys"}}, "zone", "rack")
    only_zone, no_label = node("zone", cpu="1", labels={"zone": "b"}), node("bare", cpu="1")
    with fresh_nodes(api, [node("both", labels={"zone": "a", "rack": "r"}), only_zone, no_label]):
        for scheduler in ("gosched", "default-scheduler"):
            pods.create(pod("outside", labels={"app": "near"}, scheduler="somebody-else", nodeName="bare"))
            for name, app, spec in (
                ("first", "keys", {"cpu": "500m", "topologySpreadConstraints": both_keys}),
                ("second", "keys", {"cpu": "500m", "topologySpreadConstraints": both_keys}),
                ("empty", "empty", {"cpu": "2", "topologySpreadConstraints": spread({}, "zone")}),
                ("near", "near", {"cpu": "2", "affinity": affinity}),
            ):
                pods.create(pod(name, labels={"app": app}, scheduler=scheduler, **spec))
                until(f"{name} is bound by {scheduler}", lambda name=name: pods.node_of(name))  # type: ignore[misc]
                assert pods.node_of(name) == "both"
            for name in pods.all():
                pods.delete(name)
            until("they are gone", lambda: not pods.all())


def test_what_is_not_understood_is_refused_by_name(api: Api, pods: Pods, client: GoSchedClient) -> None:
    selector = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
    elsewhere = {**selector, "namespaceSelector": {"matchLabels": {"c": "d"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [elsewhere]}}
    spread = [{**selector, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["app"]}]
    port = {"name": "c", "image": "none", "ports": [{"containerPort": 80, "hostPort": 80}]}
    claim = [{"name": "v", "persistentVolumeClaim": {"claimName": "late"}}]
    api(
        "POST",
        "/apis/storage.k8s.io/v1/storageclasses",
        {"metadata": {"name": "late"}, "provisioner": "none", "volumeBindingMode": "WaitForFirstConsumer"},
    )
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "late"}
    path = f"/api/v1/namespaces/{pods.namespace}/persistentvolumeclaims"
    api("POST", path, {"metadata": {"name": "late"}, "spec": spec})
    with fresh_nodes(api, [node("empty")]):
        pods.create(
            pod("apart", affinity=apart),
            pod("spread", topologySpreadConstraints=spread),
            pod("port", containers=[port]),
            pod("volume", volumes=claim),
            pod("queue", labels={"gosched.io/queue": "no-such"}),
        )
        for name, word in (
            ("apart", "podAntiAffinity"),
            ("spread", "topologySpreadConstraints"),
            ("port", "hostPort"),
            ("volume", "binds late"),
        ):
            until(f"{name} is refused", lambda name=name, word=word: why(pods, name, "NotSupported", word))  # type: ignore[misc]
        until("the queue is refused", lambda: why(pods, "queue", "NotSubmitted", "no-such"))
        assert not pods.bound()
        assert not jobs_of(client, pods)


def test_preemption_evicts_and_budgets_are_kept(api: Api, pods: Pods, kubelet: Kubelets, client: GoSchedClient) -> None:
    for name, value in (("low", 10), ("high", 1000)):
        api("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value})
    budgets = f"/apis/policy/v1/namespaces/{pods.namespace}/poddisruptionbudgets"
    budget = {
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "low"}}},
    }
    with fresh_nodes(api, [node("busy", cpu="4")]):
        api("POST", budgets, budget)
        pods.create(pod("low", cpu="4", priorityClassName="low", labels={"app": "low"}))
        until("the first runs", lambda: job_state(client, pods) == ["RUNNING"])
        until("its budget counts it", lambda: api("GET", f"{budgets}/keep")["status"].get("currentHealthy") == 1)
        pods.create(pod("high", cpu="4", priorityClassName="high"))
        until("the victim is to stop", lambda: "STOPPING" in task_states(client, pods))
        assert pods.node_of("low") == "busy"
        assert not (pods.get("low") or {})["metadata"].get("deletionTimestamp")
        api("DELETE", f"{budgets}/keep")
        assert until("the other takes its place", lambda: pods.node_of("high")) == "busy"
        assert pods.get("low") is None
        until("the victim's job is over", lambda: job_state(client, pods) == ["CANCELLED", "RUNNING"])


def test_an_api_server_that_restarts_is_listed_again(
    api: Api, pods: Pods, client: GoSchedClient, control: Cluster
) -> None:
    with fresh_nodes(api, [node("kept")]):
        pods.create(pod("before"))
        until("the first is bound", lambda: pods.node_of("before"))
        control.restart_api_server()
        pods.create(pod("after"))
        until("the second is bound", lambda: pods.node_of("after"))
        api("POST", "/api/v1/nodes", node("late"))
        until("new nodes are seen", lambda: "late" in [each.node.name for each in client.list_nodes()])
        until("both jobs run", lambda: job_state(client, pods) == ["RUNNING", "RUNNING"])


def test_a_pod_that_another_scheduler_took_has_no_job(api: Api, pods: Pods, client: GoSchedClient) -> None:
    with fresh_nodes(api, [node("free", cpu="2"), node("theirs", cpu="1")]):
        pods.create(pod("taken", cpu="8"), pod("gone", cpu="8"))
        until("both wait", lambda: job_state(client, pods) == ["PENDING", "PENDING"])
        target = {"apiVersion": "v1", "kind": "Node", "name": "theirs"}
        api("POST", f"{pods.path}/taken/binding", {"metadata": {"name": "taken"}, "target": target})
        pods.delete("gone")
        until("their jobs are cancelled", lambda: job_state(client, pods) == ["CANCELLED", "CANCELLED"])
        pods.create(pod("next", cpu="1"))
        assert until("the rest is offered", lambda: pods.node_of("next")) == "free"


def test_a_cancelled_job_is_not_submitted_again(api: Api, pods: Pods, client: GoSchedClient) -> None:
    with fresh_nodes(api, [node("only")]):
        pods.create(pod("runs"), pod("waits", cpu="100"))
        until("one is bound", lambda: pods.node_of("runs"))
        until("the other waits", lambda: job_state(client, pods) == ["PENDING", "RUNNING"])
        for job in jobs_of(client, pods):
            client.cancel(job.id)
        until("the running pod is evicted", lambda: pods.get("runs") is None)
        until("the waiting one says so", lambda: why(pods, "waits", "JobCancelled", "CANCELLED"))
        assert all(job.state is JobState.CANCELLED for job in jobs_of(client, pods))


def test_a_listing_of_the_api_server_becomes_quotas_that_hold(
    api: Api, pods: Pods, control: Cluster, masters: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hard = {"requests.cpu": "3", "requests.memory": "1Gi", "services": "7"}
    path = f"/api/v1/namespaces/{pods.namespace}/resourcequotas"
    api("POST", path, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    with fresh_nodes(api, [node("listed", taints=[{"key": "gpu", "value": "yes", "effect": "PreferNoSchedule"}])]):
        printed = {}
        for form in ("json", "yaml"):
            listing, agents = tmp_path / f"listing.{form}", tmp_path / form
            kinds = "nodes,namespaces,resourcequotas,priorityclasses"
            listing.write_text(control.kubectl("get", kinds, "-A", "-o", form))
            assert run_cli(["import", "kube", str(listing), "--agents", str(agents)]) == 0
            printed[form], said = capsys.readouterr()
            assert "PriorityClass system-node-critical = 2000001000: priority: 1000" in said
            assert f"hard.services of ResourceQuota = {pods.namespace}/q" in said
            settings = load_agent_settings(str(agents / "listed.yaml"), {})
            assert dict(settings.labels)["kubernetes.io/hostname"] == "listed"
            assert [taint.key for taint in settings.taints] == ["gpu"]
        assert printed["json"] == printed["yaml"]
        file = tmp_path / "quotas.yaml"
        file.write_text(printed["json"])
        assert run_cli(["--endpoints", masters.endpoints, "queue", "apply", "--dry-run", str(file)]) == 0
        assert run_cli(["--endpoints", masters.endpoints, "quota", "apply", str(file)]) == 0
        assert pods.namespace in capsys.readouterr().out
        api("DELETE", f"{path}/q")
        pods.create(pod("within", cpu="2"))
        until("the first is bound", lambda: pods.node_of("within"))
        pods.create(pod("beyond", cpu="2"))
        until("the other says why", lambda: why(pods, "beyond", "Unschedulable", "quota"))


def test_an_exported_job_runs_as_pods_and_comes_back(
    api: Api, pods: Pods, client: GoSchedClient, control: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serve_pod_groups(api, "scheduling.x-k8s.io/v1alpha1")
    job, listing = tmp_path / "job.yaml", tmp_path / "pods.yaml"
    text = f"""
name: train
tenant: {pods.namespace}
priority: high
labels: {{team: nlp}}
image: debian:12
run: "echo $$ $(date)"
count: 2
env: {{A: "$(b)"}}
resources: {{cpu: 2, memory: 1Gi}}
placement:
  node_selector: {{disk: ssd}}
  affinity: [{{label: age, op: gt, values: ["5"]}}]
  tolerations: [{{key: gpu, op: exists}}]
volumes: ["/data:/data:ro"]
read_only: true
preemption: {{policy: never}}
timeout: 1h
"""
    job.write_text(text)
    labels = {"disk": "ssd", "age": "9"}
    with fresh_nodes(api, [node("old", cpu="2", labels=labels), node("older", cpu="2", labels=labels), node("bare")]):
        assert run_cli(["export", "pod", str(job)]) == 0
        manifest, said = capsys.readouterr()
        assert said == "1 job, 2 pods, 0 notes\n"
        control.kubectl("apply", "-f", "-", stdin=manifest)
        until("the gang is bound", lambda: sorted(pods.bound().values()) == ["old", "older"])
        (placed,) = jobs_of(client, pods)
        (spec,) = parse_job_file(text, "job")
        assert (placed.spec.task_count, placed.spec.priority, placed.spec.preemption) == (2, 750, spec.preemption)
        kinds = "pods,podgroups.scheduling.x-k8s.io,priorityclasses"
        listing.write_text(control.kubectl("get", kinds, "-n", pods.namespace, "-o", "yaml"))
        assert run_cli(["import", "pod", str(listing)]) == 0
        back, said = capsys.readouterr()
        assert parse_job_file(back, "back") == [spec]
        assert said.splitlines()[-1] == "1 job, 2 notes"
        assert "nodeName of Pod" in said


def test_a_server_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(BRIDGE), "--kubeconfig", str(tmp_path / "none")], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("gosched-kube: cannot use ")
    assert "Traceback" not in done.stderr
