"""Pods and Jobs as job files, job files as pods, and the way there and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gosched.cli.main import run_cli
from gosched.config.errors import ConfigError
from gosched.config.jobs.jobfile import parse_job_file
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import PreemptionPolicy, RetryCause
from gosched.integrations.kube_objects.job_export import Exported, export_job, export_jobs
from gosched.integrations.kube_objects.job_import import ImportedJobs, read_jobs
from gosched.integrations.kube_objects.pods import read_pod
from gosched.integrations.kube_objects.reading import read_objects
from gosched.integrations.kube_objects.translate import priority, priority_value

Json = dict[str, Any]
EVERYTHING = """
name: train
queue: research.llm
tenant: nlp
priority: high
labels: {team: nlp, "example.com/owner": ""}
image: debian:12
run: "echo $$ $$$ $(date) $(X; exit 3"
count: 3
gang: {min: 2}
env: {A: "b$(c)$$(d)", N: "1"}
working_dir: /data
resources: {cpu: 1500m, memory: 1.5Gi, storage: 1k, gpu: 2, example.com_fpga: 1}
placement:
  node_selector: {zone: a}
  affinity: [{label: disk, op: in, values: [ssd]}, {label: a, op: not_exists},
             {label: age, op: gt, values: ["5"], weight: 7}]
  tolerations: [{key: gpu, op: exists}, {key: x, value: "y", effect: no_execute}]
volumes: ["/data:/data:ro", "/scratch:/tmp"]
network: host
read_only: true
pull: always
limits: {cpu: soft}
preemption: {policy: never}
timeout: 1h
stop_grace: 42s
"""
TWO_GROUPS = """
name: ps
priority: 1000
tasks:
  server: {image: debian:12, run: [serve, --port, "1"], resources: {memory: 1Gi}}
  worker: {image: debian:12, run: [work], count: 2, limits: {cpu: soft}, resources: {cpu: 0}}
"""


def exported(text: str) -> Exported:
    (spec,) = parse_job_file(text, "job")
    return export_job(spec)


def imported(*objects: Json) -> ImportedJobs:
    return read_jobs(read_objects(yaml.safe_dump_all(objects).encode(), "x"), "x")


def again(text: str) -> tuple[JobSpec, JobSpec]:
    (spec,) = parse_job_file(text, "job")
    (back,) = imported(*export_job(spec).objects).jobs
    return spec, back


def pod(name: str = "p", container: Json | None = None, **spec: Any) -> Json:
    own = {"name": "c", "image": "debian:12", "command": ["true"], **(container or {})}
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [own], "restartPolicy": "Never", **spec}}


def job(template: Json | None = None, labels: Json | None = None, **spec: Any) -> Json:
    inner = {"metadata": {"labels": labels or {}}, "spec": (template or pod())["spec"]}
    return {"kind": "Job", "metadata": {"name": "j", "namespace": "team"}, "spec": {"template": inner, **spec}}


def names(found: ImportedJobs | Exported) -> list[str]:
    return [note.name for note in found.notes]


@pytest.mark.parametrize("text", [EVERYTHING, "name: small\nimage: debian:12\nrun: 'true'\n"])
def test_a_job_goes_there_and_back(text: str) -> None:
    spec, back = again(text)
    assert back == spec
    assert not exported(text).notes


def test_task_groups_go_there_and_back() -> None:
    spec, back = again(TWO_GROUPS)
    assert [note.name for note in exported(TWO_GROUPS).notes] == ["priority"]  # beyond any PriorityClass
    assert back.groups == spec.groups
    assert (back.gang, back.priority) == (spec.gang, priority(10**9))


def test_every_priority_that_a_class_may_have_goes_there_and_back() -> None:
    for ours in range(priority(10**9) + 1):
        assert priority(priority_value(ours)) == ours
    assert priority_value(100) == 0


def test_exported_pods_are_what_the_bridge_reads() -> None:
    *_, last = exported(EVERYTHING).objects
    found = read_pod({**last, "metadata": {**last["metadata"], "uid": "u"}}, "gosched")
    assert found.group is not None
    assert (found.group.name, found.namespace, found.name) == ("train", "nlp", "train-2")
    assert (found.requests.cpu_millis, found.requests.gpu_millis) == (1500, 2000)


def test_what_pods_cannot_say_is_named() -> None:
    found = exported(
        """
name: Odd_Name
image: debian:12
run: "true"
count: 2
labels: {a: not a value}
retry: {max: 7}
user: me
resources: {fpga: 1, gpu: "h100:1"}
limits: {pids: 5}
secrets: [{name: token}]
network: none
placement:
  anti_affinity: [{job: other}]
  affinity: [{label: x, op: exists, weight: -3}, {label: y, op: exists, weight: 500}]
distributed: {framework: torch}
gang: {wait: 5m}
timeout: 1500ms
"""
    )
    assert sorted(names(found)) == sorted(
        [
            "retry of job Odd_Name",
            "user of job Odd_Name",
            "limits.pids of job Odd_Name",
            "secrets of job Odd_Name",
            "placement.anti_affinity of job Odd_Name",
            "distributed of job Odd_Name",
            "gang.wait of job Odd_Name",
            "name",
            "label a",
            "network",
            "resources.fpga",
            "resources.gpu.model",
            "placement.affinity x",
            "placement.affinity y",
            "timeout",
        ]
    )
    assert found.objects[-1]["metadata"]["name"] == "odd-name-1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: x\nrun: ls", "pods in images: add image"),
        ("name: x\nrun: ls\nimage: a\narray: {range: 0-3}", "an array or a schedule is no pod"),
        ("name: x\nrun: ls\nimage: a\ncount: 1001", "at most 1000 pods"),
        ("name: x\nrun: ls\nimage: a\nresources: {gpu: 0.5}", "a share of a GPU"),
        ("name: x\nrun: ls\nimage: a\ntenant: A_B", "no name of one"),
        ("name: ___\nrun: ls\nimage: a", "its name is none of a pod"),
    ],
)
def test_jobs_that_are_no_pods_are_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        exported(text)
    assert words in str(caught.value)


def test_no_two_pods_get_one_name() -> None:
    specs = parse_job_file("name: a.B\nrun: ls\nimage: x\n---\nname: a.b\nrun: ls\nimage: x\n", "job")
    with pytest.raises(ConfigError, match=r"two of Pod default/a\.b: rename"):
        export_jobs(specs)


def test_a_pod_group_says_how_many_start_together() -> None:
    group = {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMember": 2}}
    pods = [pod(f"p-{i}") for i in range(3)]
    for each in pods:
        each["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
    (some,) = imported(group, *pods).jobs
    assert (some.name, some.task_count, some.gang.min_tasks) == ("g", 3, 2)
    (every,) = imported(*pods).jobs
    assert every.gang.min_tasks == 3
    assert names(imported(*pods)) == ["PodGroup"]
    assert names(imported(group, pods[0])) == ["minMember of PodGroup default/g"]


def test_a_pod_as_the_api_server_shows_it_needs_few_notes() -> None:
    shown = pod(
        container={
            "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "volumeMounts": [{"name": "kube-api", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
            "resources": {},
        },
        dnsPolicy="ClusterFirst",
        enableServiceLinks=True,
        nodeName="n1",
        preemptionPolicy="PreemptLowerPriority",
        priority=400,
        schedulerName="gosched",
        securityContext={},
        serviceAccount="default",
        serviceAccountName="default",
        terminationGracePeriodSeconds=30,
        volumes=[{"name": "kube-api", "projected": {}}],
    )
    found = imported(shown)
    assert names(found) == ["nodeName of Pod p"]
    assert found.jobs[0].priority == 500
    assert found.jobs[0].groups[0].isolation.cpu_soft
    assert found.jobs[0].groups[0].resources.cpu_millis == 0


def test_what_job_files_cannot_say_is_named() -> None:
    secret = {"name": "T", "valueFrom": {"secretKeyRef": {"name": "db", "key": "token"}}}
    field = {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}
    container = {
        "command": ["echo", "$(T)"],
        "env": [secret, field],
        "livenessProbe": {"exec": {}},
        "later": 1,
        "ports": [{"containerPort": 1}],
        "resources": {"requests": {"memory": "1Gi", "cpu": "1"}, "limits": {"memory": "2Gi", "cpu": "2"}},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "e", "mountPath": "/e"}],
        "securityContext": {"runAsUser": 5, "privileged": True},
    }
    found = imported(
        pod(
            container=container,
            restartPolicy="Always",
            initContainers=[{"name": "i"}],
            priorityClassName="lost",
            affinity={"podAntiAffinity": {"required": []}},
            volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "e", "emptyDir": {}}],
            hostPID=True,
            later={"a": 1},
        ),
        {"kind": "Service", "metadata": {"name": "s"}},
    )
    assert sorted(names(found)) == sorted(
        [
            "Service",
            "restartPolicy of Pod p",
            "initContainers of Pod p",
            "hostPID of Pod p",
            "later of Pod p",
            "livenessProbe of Pod p",
            "later of Pod p",
            "ports of Pod p",
            "securityContext.runAsUser of Pod p",
            "securityContext.privileged of Pod p",
            "podAntiAffinity of Pod p",
            "limits.memory of Pod p",
            "limits.cpu of Pod p",
            "env T of Pod p",
            "env F of Pod p",
            "command of Pod p",
            "volume v of Pod p",
            "volume e of Pod p",
            "priorityClassName of Pod p",
        ]
    )
    (group,) = found.jobs[0].groups
    assert [(use.name, use.file) for use in group.secrets] == [("db.token", "db.token")]


def test_a_job_is_an_array_or_a_gang() -> None:
    found = imported(job(parallelism=4, completions=10, backoffLimit=2, activeDeadlineSeconds=60, suspend=True))
    (array,) = found.jobs
    assert (array.array.size, array.array.parallelism, array.tenant, array.hold) == (10, 4, "team", True)
    assert (array.retry.max_restarts, array.timeout_ms, array.stop_grace_ms) == (2, 60_000, 30_000)
    assert RetryCause.FAILED in array.retry.when
    assert names(found) == ["backoffLimit of Job team/j", "activeDeadlineSeconds of Job team/j"]
    gang_label = {"scheduling.x-k8s.io/pod-group": "g", "gosched.io/queue": "research"}
    (gang,) = imported(job(labels=gang_label, parallelism=4, completions=4)).jobs
    assert (gang.array.size, gang.task_count, gang.gang.min_tasks, gang.queue) == (0, 4, 4, "research")
    (single,) = imported(job()).jobs
    assert (single.task_count, single.retry.max_restarts) == (1, 6)


def test_limits_stand_for_requests_that_are_not_given() -> None:
    limits = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 1}
    found = imported(pod(container={"resources": {"limits": limits}}))
    (group,) = found.jobs[0].groups
    assert (group.resources.cpu_millis, group.resources.gpu_millis, group.isolation.cpu_soft) == (2000, 1000, False)
    assert not found.notes


def test_classes_of_the_file_and_of_the_system_are_known() -> None:
    never = {"kind": "PriorityClass", "metadata": {"name": "c"}, "value": 300, "preemptionPolicy": "Never"}
    found = imported(pod("a", priorityClassName="c"), pod("b", priorityClassName="system-node-critical"), never)
    one, other = found.jobs
    assert (one.priority, one.preemption.policy) == (400, PreemptionPolicy.NEVER)
    assert other.priority == 1000
    assert not found.notes


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (pod(container={"command": None}), "x: Pod p: it has no command"),
        (pod(container={"command": None, "args": ["x"]}), "args and no command"),
        (pod(container={"command": "ls"}), "command is no list of texts"),
        (pod(container={"image": None}), "no image"),
        (pod(container={"image": 3}), "image is no text"),
        (pod(container={"env": {}}), "env is no list of objects"),
        (pod(container={"imagePullPolicy": "Soon"}), "imagePullPolicy 'Soon' is none of"),
        (pod(container={"resources": {"requests": {"cpu": "-1"}}}), "negative"),
        (pod(container={"resources": {"requests": {"cpu": "x"}}}), "no quantity"),
        (pod(containers=None), "containers: there is none"),
        (pod(containers=[None]), "containers is no list of objects"),
        (pod(tolerations=[{"operator": "Near"}]), "a toleration with operator 'Near'"),
        (pod(priority="1"), "priority is no whole number"),
        (pod(terminationGracePeriodSeconds="1"), "terminationGracePeriodSeconds is no whole number"),
        (job(parallelism=1.5), "parallelism is no whole number"),
        ({"kind": "Job", "metadata": {"name": "j"}}, "Job j: spec.containers: there is none"),
        ({"kind": "CronJob", "metadata": {"name": "j"}}, "x: no Pod and no Job in it"),
        (pod(activeDeadlineSeconds=10**9), "timeout"),
    ],
)
def test_pods_that_are_no_jobs_are_refused(found: Json, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        imported(found)
    assert words in str(caught.value)


@pytest.mark.parametrize("wrong", [3, "x", [3], {"a": 3}, True, None])
@pytest.mark.parametrize(
    "key",
    ["affinity", "nodeSelector", "tolerations", "volumes", "securityContext", "priorityClassName", "schedulingGroup"],
)
def test_wrong_types_in_a_spec_end_in_one_line_or_a_job(key: str, wrong: Any) -> None:
    said = "x: Pod p: "
    try:
        imported(pod(**{key: wrong}))
    except ConfigError as error:
        said = str(error)
    assert said.startswith("x: Pod p: ")
    assert "\n" not in said


def test_a_thousand_pods_are_one_gang() -> None:
    objects = exported("name: big\nimage: debian:12\nrun: ls\ncount: 1000\n").objects
    text = json.dumps({"kind": "List", "items": [*objects]}).encode()
    (spec,) = read_jobs(read_objects(text, "x"), "x").jobs
    assert (spec.task_count, spec.gang.min_tasks) == (1000, 1000)


def test_the_commands_print_what_the_other_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job_file, pods = tmp_path / "job.yaml", tmp_path / "pods.yaml"
    job_file.write_text(EVERYTHING + "---\n" + EVERYTHING.replace("name: train", "name: other"))
    assert run_cli(["export", "pod", str(job_file)]) == 0
    out, err = capsys.readouterr()
    assert err == "2 jobs, 6 pods, 0 notes\n"
    assert out.count("kind: PriorityClass") == 1
    pods.write_text(out)
    assert run_cli(["import", "pod", str(pods)]) == 0
    out, err = capsys.readouterr()
    assert parse_job_file(out, "out") == parse_job_file(job_file.read_text(), "job")
    assert err == "2 jobs, 0 notes\n"
    assert run_cli(["export", "pod", str(job_file), "-o", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["items"]) == 9
    assert run_cli(["import", "pod", str(pods), "-o", "json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["jobs"]] == ["train", "other"]
    assert run_cli(["import", "pod", "/nowhere"]) == 2
    assert "cannot read the objects of Kubernetes" in capsys.readouterr().err
