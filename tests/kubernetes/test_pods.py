"""Tasks of gosched as pods of a real cluster, with a real kubelet: `goschedctl kube run` as the command of jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.client import GoSchedClient
from tests.integration.support import PATIENT, goschedctl, until
from tools.kubernetes.cluster import Cluster
from tools.kubernetes.node import NAME as NODE
from tools.kubernetes.node import SANDBOX as BUSYBOX

RIGHTS = Path(__file__).parents[2] / "deploy/kubernetes/runner-rbac.yaml"
CTL = Path(sys.executable).with_name("goschedctl")
NAMESPACE = "runs"
OOM_TRIES = 4  # containerd may hear of a container's end before it hears why; then Kubernetes knows of signal 9 alone


class Pods:
    """Those of the namespace, as an administrator sees them."""

    def __init__(self, kube: Cluster, kubeconfig: Path) -> None:
        self.kube = kube
        #: Of an account that may do what the guide says, and no more.
        self.kubeconfig = kubeconfig

    def all(self) -> list[dict[str, Any]]:
        return list(json.loads(self.kube.kubectl("-n", NAMESPACE, "get", "pods", "-o", "json"))["items"])

    def running(self, count: int = 1) -> list[dict[str, Any]]:
        def alive() -> list[dict[str, Any]]:
            return [pod for pod in self.all() if pod["status"].get("phase") == "Running"]

        until(lambda: len(alive()) == count, f"{count} pods run")
        return alive()

    def that_runs(self, line: str) -> str:
        """Return the name of the pod that runs this; empty: none does yet."""
        found = [pod for pod in self.all() if pod["spec"]["containers"][0]["command"][-1] == line]
        return next((pod["metadata"]["name"] for pod in found if pod["status"].get("phase") == "Running"), "")

    def words(self, line: str, *flags: str) -> list[str]:
        flags = ("--kubeconfig", str(self.kubeconfig), "--image", BUSYBOX, "--grace", "1s", *flags)
        return [str(CTL), "kube", "run", *flags, "--", "busybox", "sh", "-c", line]

    def job(self, line: str, *flags: str, more: str = "") -> str:
        run = json.dumps(self.words(line, *flags))
        return f"name: pods\nresources: {{cpu: 50m, memory: 32Mi}}\n{more}\nrun: {run}\n"


@pytest.fixture(scope="module")
def pods(bare: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Pods:
    bare.kubectl("create", "namespace", NAMESPACE)
    bare.kubectl("-n", NAMESPACE, "apply", "-f", str(RIGHTS))
    token = bare.kubectl("-n", NAMESPACE, "create", "token", "gosched-runner").strip()
    until(lambda: bare.try_kubectl("-n", NAMESPACE, "get", "serviceaccount", "default"), "pods may be made")
    folder = tmp_path_factory.mktemp("pods")
    (folder / "token").write_text(f"{token}\n")
    config = {
        "clusters": [{"name": "c", "cluster": {"server": bare.api, "certificate-authority": f"{bare.pki}/ca.crt"}}],
        "users": [{"name": "u", "user": {"tokenFile": "token"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}],
        "current-context": "c",
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    return Pods(bare, folder / "kubeconfig")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    offer = AgentShape(resources={"cpu": 100, "memory": "1Ti"})  # more than the machine has: of the pods' cluster
    with LocalCluster(masters=1, agents=[offer], settings=PATIENT) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[GoSchedClient]:
    with cluster.client() as found:
        yield found


def until_said(cluster: LocalCluster, job: str, text: str) -> None:
    until(lambda: text in goschedctl(cluster.endpoints, "logs", job).stderr, f"it says {text!r}")


def followers(task: str) -> list[psutil.Process]:
    """Return the processes that follow the pod of a task."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        words, variables = process.info["cmdline"] or [], process.info["environ"] or {}
        if "kube" in words and variables.get("GOSCHED_TASK_ID") == task:
            found.append(process)
    return found


def task_of(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["annotations"]["gosched.io/task-id"])


def test_a_gang_of_pods_has_its_variables_amounts_output_and_exit_code(
    cluster: LocalCluster, client: GoSchedClient, pods: Pods
) -> None:
    line = "echo rank $GOSCHED_TASK_INDEX of $GOSCHED_TASK_COUNT $OWN; until [ -e /go ]; do sleep 0.1; done; exit 7"
    job = client.submit(pods.job(line, "--env", "OWN=mine", more="count: 2")).id
    found = pods.running(2)
    assert {pod["metadata"]["labels"]["gosched.io/job"] for pod in found} == {job}
    for pod in found:
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "50m", "memory": "32Mi"}
    first = found[0]["metadata"]["name"]
    pods.kube.kubectl("-n", NAMESPACE, "exec", first, "--", "busybox", "touch", "/go")
    detail = client.wait(job)
    said = goschedctl(cluster.endpoints, "logs", job)
    assert (detail.state.name, detail.exit_code) == ("FAILED", 7)
    assert {line.partition(" | ")[2] for line in said.stdout.splitlines()} == {"rank 0 of 2 mine", "rank 1 of 2 mine"}
    assert f"pod {NAMESPACE}/{first}: on {NODE}" in said.stderr
    assert f"pod {NAMESPACE}/{first}: its container has ended with exit code 7" in said.stderr
    until(lambda: not pods.all(), "nothing is left")


def test_a_pod_outlives_its_follower_and_its_agent_and_is_taken_over(
    cluster: LocalCluster, client: GoSchedClient, pods: Pods
) -> None:
    line = "echo begins; until [ -e /go ]; do sleep 0.1; done; echo ends; exit 3"
    job = client.submit(pods.job(line, more="retry: {max: 1, when: [failed]}")).id
    (pod,) = pods.running()
    (follower,) = followers(task_of(pod))
    (agent,) = cluster.agents.values()
    agent.kill()
    cluster.restart(agent)
    assert [each.pid for each in followers(task_of(pod))] == [follower.pid]
    follower.kill()
    until_said(cluster, job, "taken over from an earlier start, of attempt 1")
    (same,) = pods.running()
    assert same["metadata"]["uid"] == pod["metadata"]["uid"]
    pods.kube.kubectl("-n", NAMESPACE, "exec", pod["metadata"]["name"], "--", "busybox", "touch", "/go")
    detail = client.wait(job)
    assert (detail.state.name, detail.exit_code, detail.job.attempt) == ("FAILED", 3, 2)
    assert goschedctl(cluster.endpoints, "logs", job).stdout == "begins\nends\n"
    until(lambda: not pods.all(), "nothing is left")


def test_a_cancel_ends_the_pod_with_grace(cluster: LocalCluster, client: GoSchedClient, pods: Pods) -> None:
    line = "trap 'echo asked to end; exit 5' TERM; echo begins; while :; do sleep 0.1; done"
    job = client.submit(pods.job(line, "--grace", "5s")).id
    pods.running()
    until(lambda: goschedctl(cluster.endpoints, "logs", job).stdout == "begins\n", "it runs")
    client.cancel(job)
    assert client.wait(job).state.name == "CANCELLED"
    said = goschedctl(cluster.endpoints, "logs", job)
    assert said.stdout == "begins\nasked to end\n"
    assert "is deleted, with 5 s for the container to end" in said.stderr
    until(lambda: not pods.all(), "nothing is left")


def test_no_line_is_lost_or_repeated_while_the_api_server_is_away(pods: Pods, figure: Callable[[str], None]) -> None:
    """Both streams, fast enough that each break is in the middle of something."""
    line = "until [ -e /go ]; do i=$((i+1)); echo out $i; echo err $i >&2; usleep 5000; done; exit 9"
    with subprocess.Popen(pods.words(line), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        (pod,) = pods.running()
        began = time.monotonic()
        pods.kube.restart_api_server()
        pods.kube.kubectl("-n", NAMESPACE, "exec", pod["metadata"]["name"], "--", "busybox", "touch", "/go")
        out, err = follower.communicate(timeout=120)
    assert follower.returncode == 9, err
    lines = out.splitlines()
    count = len(lines) // 2
    assert count > 300, "it wrote all the time"
    for stream in ("out", "err"):
        assert [line for line in lines if line.startswith(stream)] == [f"{stream} {n + 1}" for n in range(count)]
    assert len(lines) == 2 * count
    figure(f"{len(lines)} lines of a pod in {time.monotonic() - began:.1f} s, the API server restarted meanwhile")
    assert err.count("asking again") == 1
    assert err.count("the API server answers again") == 1


def test_in_a_pod_its_service_account_is_used(pods: Pods, kube: Cluster) -> None:
    """`kube` has our images."""
    words = ["kube", "run", "--image", BUSYBOX, "--grace", "1s", "--cpu", "50m", "--memory", "32Mi", "--"]
    container = {
        "name": "main",
        "image": "goschedctl:dev",
        "args": [*words, "busybox", "sh", "-c", "echo inside; exit 5"],
    }
    spec = {"serviceAccountName": "gosched-runner", "restartPolicy": "Never", "containers": [container]}
    runner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "runner"}, "spec": spec}
    kube.kubectl("-n", NAMESPACE, "apply", "-f", "-", stdin=json.dumps(runner))

    def phase() -> str:
        return kube.kubectl("-n", NAMESPACE, "get", "pod", "runner", "-o", "jsonpath={.status.phase}")

    until(lambda: phase() in ("Succeeded", "Failed"), "it has ended")
    said = kube.kubectl("-n", NAMESPACE, "logs", "runner")
    code = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}"
    assert kube.kubectl("-n", NAMESPACE, "get", "pod", "runner", "-o", code) == "5", said
    assert "inside" in said.splitlines()
    assert f": on {NODE}" in said
    assert "its container has ended with exit code 5" in said
    assert [pod["metadata"]["name"] for pod in pods.all()] == ["runner"]
    kube.kubectl("-n", NAMESPACE, "delete", "pod", "runner")


def test_what_goes_wrong_with_a_pod_is_said(pods: Pods) -> None:
    def start(line: str, *flags: str) -> subprocess.Popen[str]:
        return subprocess.Popen(pods.words(line, *flags), stderr=subprocess.PIPE, text=True)

    large, missing = start("true", "--cpu", "99"), start("true", "--image", "localhost:1/nothing:1")
    killed, deleted = start("sh -c 'kill -9 $$'; exit $?"), start("sleep 600")
    until(lambda: pods.that_runs("sleep 600"), "it runs")
    pods.kube.kubectl("-n", NAMESPACE, "delete", "pod", pods.that_runs("sleep 600"), "--wait=false")
    assert "is being deleted, and not by this task" in deleted.communicate(timeout=60)[1]
    assert deleted.returncode in (1, 137)  # whether the API server has shown its end before it was gone
    assert "exit code 137, by signal 9" in killed.communicate(timeout=60)[1]
    assert killed.returncode == 137
    said = ""
    for _ in range(OOM_TRIES):
        with start("dd if=/dev/zero of=/dev/null bs=900M", "--memory", "20Mi") as hungry:
            said = hungry.communicate(timeout=60)[1]
        assert hungry.returncode == 137, said
        if "OOMKilled" in said:
            break
    assert "OOMKilled" in said
    for waits, words in ((large, ": Unschedulable: 0/1 nodes are available"), (missing, ": ErrImagePull: ")):
        assert waits.stderr is not None
        assert any(words in line for line in waits.stderr), words
        os.kill(waits.pid, signal.SIGTERM)
        assert "is deleted, with 1 s for the container to end" in waits.communicate(timeout=60)[1]
        assert waits.returncode == 143
    until(lambda: not pods.all(), "nothing is left")
