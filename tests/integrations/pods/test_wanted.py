"""The pod that a task asks for, and `goschedctl kube run` where what it is given makes no sense."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gosched.cli.main import run_cli
from gosched.integrations.pods.errors import PodMisused
from gosched.integrations.pods.wanted import Amounts, Owner, pod_name, read_template, wanted

OWNER = Owner(task="j-1m89tpd295e1v8v1v/worker/3", job="j-1m89tpd295e1v8v1v", attempt="2", allocation="a")


def made(template: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    given = {"image": "i", "command": ("c",), "environment": {}, "amounts": Amounts(), "grace_s": 8, **more}
    return wanted(OWNER, template=template or {}, **given)


@pytest.mark.parametrize("task", [OWNER.task, "J/Ä", "x" * 500, "-/-", "a/b-0"])
def test_names_and_labels_are_what_kubernetes_takes_and_each_task_has_its_own(task: str) -> None:
    name = pod_name(task)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name), name
    assert name == pod_name(task) != pod_name(f"{task}0")
    assert pod_name("a-b/0") != pod_name("a/b-0")
    labels = wanted(
        Owner(task=task, job=task), template={}, image="i", command=(), environment={}, amounts=Amounts(), grace_s=1
    )["metadata"]["labels"]
    assert all(re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?", value) for value in labels.values())


def test_a_template_keeps_what_it_says_and_gets_what_is_the_tasks(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(
        """
apiVersion: v1
kind: Pod
metadata: {name: other, labels: {team: a}}
spec:
  restartPolicy: Always
  serviceAccountName: work
  containers:
    - {name: proxy, image: p}
    - name: task
      image: own
      resources: {limits: {memory: 9Gi, example.org/nic: 1}, requests: {cpu: 0.5}}
      env: [{name: KEY, valueFrom: {secretKeyRef: {name: s, key: k}}}, {name: A, value: theirs}]
"""
    )
    template = read_template(str(tmp_path / "pod.yaml"))
    amounts = Amounts(cpu_millis=1500, memory_bytes=3 << 30, gpus=2)
    pod = made(template, image="", environment={"A": "ours $(HOME)"}, command=("echo", "$$ $(A)"), amounts=amounts)
    assert pod["metadata"]["name"] == pod_name(OWNER.task)
    assert pod["metadata"]["labels"]["team"] == "a"
    assert (pod["spec"]["restartPolicy"], pod["spec"]["serviceAccountName"]) == ("Never", "work")
    proxy, task = pod["spec"]["containers"]
    assert proxy == {"name": "proxy", "image": "p"}
    assert (task["image"], task["command"]) == ("own", ["echo", "$$$$ $$(A)"])
    assert task["env"] == [
        {"name": "A", "value": "ours $$(HOME)"},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    held = {"cpu": "1500m", "memory": "3Gi", "nvidia.com/gpu": "2"}
    assert task["resources"] == {"limits": {**held, "example.org/nic": 1}, "requests": held}
    assert read_template(str(tmp_path / "pod.yaml")) == template, "the template is as it was"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ({}, "no image is named"),
        ({"spec": []}, r"spec: expected keys and values, got \[\]"),
        ({"spec": {"containers": "x"}}, "expected a list of containers"),
        ({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}, "name the container that is the task 'task'"),
    ],
)
def test_a_template_that_makes_no_sense_is_refused(template: dict[str, Any], said: str) -> None:
    with pytest.raises(PodMisused, match=said):
        made(template, image="")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--image", "i", "--env", "=x"), "--env: expected NAME=VALUE, or the name of a variable that is set"),
        (("--image", "i", "--env", "NOT_SET"), "--env: expected NAME=VALUE, or the name of a variable that is set"),
        (("--image", "i", "--memory", "7"), "--memory: needs a unit such as 7Mi or 7Gi"),
        (("--image", "i", "--cpu", "x"), "--cpu: expected a number of CPUs"),
        (("--image", "i", "--grace", "0s"), "--grace: from 1s to 24h"),
        (("--template", "none.yaml"), "none.yaml: cannot read the template"),
        (("--image", "i"), "no API server is named: give --kubeconfig FILE or set KUBECONFIG"),
    ],
)
def test_what_makes_no_sense_is_said_and_nothing_is_asked(
    words: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run_cli(["kube", "run", *words, "--", "true"]) == 2
    assert said in capsys.readouterr().err


def test_a_share_of_a_gpu_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOSCHED_GPU_MILLIS", "500")
    assert run_cli(["kube", "run", "--image", "i"]) == 2
    assert "a pod has whole GPUs: name their number with --gpus" in capsys.readouterr().err
