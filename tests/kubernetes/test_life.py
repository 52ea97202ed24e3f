"""One release, from its install to its end: each test takes it as the one before has left it."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gosched.client import Denied, GoSchedClient, TlsFiles
from gosched.core.records.job import JobState
from tests.integration.support import PATIENCE_S, until
from tests.kubernetes.release import CHART, Release
from tests.kubernetes.stream import Stream
from tools.kubernetes.cluster import Cluster
from tools.kubernetes.machine import ADDRESS, ClusterError

Figure = Callable[[str], None]

PORT = 30990
INSIDE = "/ledger"
_gaps_s: list[float] = []  # the longest of each change
GANG = "name: {name}\ncount: 3\ngang: {{min: all}}\nresources: {{cpu: 10m, memory: 1Mi}}\nrun: echo hello from {name}\n"


@pytest.fixture(scope="module")
def release(kube: Cluster, figure: Figure) -> Iterator[Release]:
    release = Release(kube, node_port=PORT)
    yield release
    if _gaps_s:
        middle, worst = statistics.median(_gaps_s), max(_gaps_s)
        figure(f"longest gap between submissions: median {middle:.2f} s, worst {worst:.2f} s, n={len(_gaps_s)} changes")
    release.uninstall()


@pytest.fixture(scope="module")
def ledger(kube: Cluster) -> Path:
    """A file that tasks know as INSIDE: each tenant has a /tmp of its own, so it cannot be there."""
    folder = kube.folder / "ledger"
    folder.mkdir()
    folder.chmod(0o777)
    return folder / "starts"


@pytest.fixture
def stream(release: Release, ledger: Path, request: pytest.FixtureRequest) -> Stream:
    tag = request.node.name.removeprefix("test_")[:40].replace("_", "-")
    return Stream(release.client, ledger, f"{INSIDE}/{ledger.name}", tag)


def test_the_line_of_the_readme_installs_a_cluster_that_runs_jobs(release: Release, figure: Figure) -> None:
    began = time.monotonic()
    release.kube.helm(
        "install", "gosched", str(CHART), "--set", "master.config.algorithm=spread", "--set", "master.replicaCount=3"
    )
    release.kubectl("wait", "--for=create", "pod/gosched-0", "--timeout=60s")
    release.kubectl("wait", "--for=condition=Ready", "pod/gosched-0", "--timeout=120s")
    led = time.monotonic()
    with release.port_forward() as endpoint, release.client(endpoint) as client:
        job = client.submit("name: first\nresources: {cpu: 10m, memory: 1Mi}\nrun: 'true'\n").job_id
        assert client.wait(job, timeout=PATIENCE_S).state is JobState.SUCCEEDED
        ran = time.monotonic()
        status = release.status(client)
    release.await_ready()
    figure(
        f"helm install to a ready master {led - began:.1f} s, from there to the end of the first job {ran - led:.1f} s"
    )
    assert sorted(master.id for master in status.masters) == ["gosched-0", "gosched-1", "gosched-2"]
    assert status.nodes_ready == 1


def test_a_gang_is_submitted_from_outside(release: Release, tmp_path: Path) -> None:
    (tmp_path / "gang.yaml").write_text(GANG.format(name="outside"))
    with release.port_forward() as endpoint:
        release.goschedctl(endpoint, "submit", "--wait", str(tmp_path / "gang.yaml"))
        assert release.goschedctl(endpoint, "logs", "outside").count("hello from outside") == 3


def test_a_user_logs_in_as_the_notes_say_and_may_nothing_that_was_not_given(release: Release, tmp_path: Path) -> None:
    notes = release.kube.helm("get", "notes", release.name, "--namespace", release.namespace)
    binding, token = (
        next(line.strip() for line in notes.splitlines() if words in line)
        for words in ("goschedctl access apply -", "goschedctl token create")
    )
    (tmp_path / "bindings.yaml").write_text(binding.removeprefix("echo '").partition("'")[0])
    with release.port_forward() as endpoint:
        release.goschedctl(endpoint, "access", "apply", str(tmp_path / "bindings.yaml"))
        secret = release.goschedctl(endpoint, *token.split()[1:], "-o", "json")
    ca = TlsFiles(ca=release.tls().ca)
    with release.port_forward(9093) as endpoint:
        with GoSchedClient(endpoint, tls=ca, token=json.loads(secret)["secret"]) as ann:
            job = ann.submit("name: of-ann\nresources: {cpu: 10m, memory: 1Mi}\nrun: 'true'\n").job_id
            assert ann.wait(job, timeout=PATIENCE_S).state is JobState.SUCCEEDED
            assert ann.get_job(job).job.user == "ann"
            with pytest.raises(Denied, match="ann may not grant"):
                ann.list_bindings()
        stranger = GoSchedClient(endpoint, tls=ca, token="gosched_0123456789abcdef_guessed")
        with stranger, pytest.raises(Denied, match="the token is not valid"):
            stranger.get_status()


def test_a_gang_is_submitted_from_a_pod(release: Release) -> None:
    release.kubectl("apply", "-f", "-", stdin=_POD_THAT_SUBMITS)
    until(lambda: release.object("pod", "submits")["status"]["phase"] in ("Succeeded", "Failed"), "the pod has ended")
    assert release.object("pod", "submits")["status"]["phase"] == "Succeeded", release.kubectl("logs", "submits")
    release.kubectl("delete", "pod", "submits")
    release.helm("test")


def test_all_jobs_are_there_when_it_is_installed_again_on_the_kept_volumes(
    release: Release, ledger: Path, tmp_path: Path, figure: Figure
) -> None:
    release.uninstall()
    with pytest.raises(ClusterError, match="not found"):
        release.kubectl("get", "statefulset", "gosched")
    values = tmp_path / "values.yaml"
    values.write_text(_VALUES.format(port=PORT, address=ADDRESS, ledger=ledger.parent, inside=INSIDE))
    began = time.monotonic()
    release.install("--values", str(values), major=4)
    release.await_ready()
    with release.client() as client:
        jobs = {job.spec.name: job.state for job in client.list_jobs()}
        assert {"first", "outside", "inside"} <= jobs.keys()
        assert set(jobs.values()) == {JobState.SUCCEEDED}
        release.status(client)
    figure(f"installed again on the kept volumes, by Helm 4: whole after {time.monotonic() - began:.1f} s")


def test_the_leaders_pod_is_deleted(release: Release, stream: Stream, figure: Figure) -> None:
    with release.client() as client, stream:
        leader = release.status(client).leader
        before = release.object("pod", leader)["status"]["podIP"]
        began = time.monotonic()
        release.kubectl("delete", "pod", leader)
        release.await_ready()
        assert release.status(client).leader
        assert release.object("pod", leader)["status"]["podIP"] != before, "it came back under another address"
    figure(f"the leader's pod deleted: {_outcome(stream, began)}")


def test_values_are_changed_and_the_image_upgraded_and_rolled_back(
    release: Release, stream: Stream, figure: Figure
) -> None:
    release.kube.tag("gosched-master:dev", "gosched-master:next")
    with stream:
        for what, change in (
            ("values changed", lambda: release.upgrade("--set", "master.config.algorithm=binpack")),
            ("image upgraded", lambda: release.upgrade("--set", "master.image.tag=next")),
            ("rolled back", lambda: (release.helm("rollback"), release.await_ready())),
        ):
            began = time.monotonic()
            change()
            stream.await_more(3)
            took = time.monotonic() - began
            figure(f"{what} in {took:.1f} s: {_gap(stream, began)}")
    tags = {pod["spec"]["containers"][0]["image"] for pod in release.masters()}
    assert tags == {"gosched-master:dev"}
    figure(f"values changed, image upgraded and rolled back: {stream.judge()}")


def test_masters_become_five_and_three_again(release: Release, stream: Stream, figure: Figure) -> None:
    with stream:
        for count in (5, 3):
            began = time.monotonic()
            release.upgrade("--set", f"master.replicaCount={count}")
            until(lambda count=count: _voters(release) == [f"gosched-{n}" for n in range(count)], f"{count} vote")
            stream.await_more(3)
            took = time.monotonic() - began
            figure(f"scaled to {count} masters in {took:.1f} s: {_gap(stream, began)}")
    figure(f"scaled from 3 masters to 5 and back: {stream.judge()}")


def test_a_drain_takes_one_master_and_no_more(release: Release, stream: Stream, figure: Figure) -> None:
    """There is one node, so the evicted master waits until the node takes pods again."""
    with stream:
        began = time.monotonic()
        with pytest.raises(ClusterError, match="disruption budget"):
            release.kube.kubectl(
                "drain", "node-1", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=15s"
            )
        assert len([pod for pod in release.masters() if pod["status"]["phase"] == "Running"]) == 2
        stream.await_more(3)
        release.kube.kubectl("uncordon", "node-1")
        release.await_ready()
    figure(f"node drained: {_outcome(stream, began)}")


def _voters(release: Release) -> list[str]:
    members = json.loads(release.goschedctl(release.endpoint, "cluster", "members", "-o", "json"))
    return sorted(member["id"] for member in members if member["role"] != "learner")


def _outcome(stream: Stream, began: float) -> str:
    return f"{_gap(stream, began)}; {stream.judge()}"


def _gap(stream: Stream, began: float) -> str:
    _gaps_s.append(stream.longest_gap_s(began))
    return f"longest gap {_gaps_s[-1]:.2f} s"


_VALUES = """
master:
  replicaCount: 3
  config: {{algorithm: spread}}
  service: {{type: NodePort, grpcNodePort: {port}}}
tls: {{extraNames: ["{address}"]}}
agent:
  extraVolumes: [{{name: ledger, hostPath: {{path: "{ledger}"}}}}]
  extraVolumeMounts: [{{name: ledger, mountPath: {inside}}}]
"""

_POD_THAT_SUBMITS = """
apiVersion: v1
kind: Pod
metadata: {name: submits}
spec:
  restartPolicy: Never
  securityContext: {fsGroup: 10001}
  containers:
    - name: goschedctl
      image: goschedctl:dev
      args: [run, --name, inside, --count, "3", --cpu, 10m, --mem, 1Mi, --, echo, hello]
      env:
        - {name: GOSCHED_ENDPOINTS, value: "gosched:9090"}
        - {name: GOSCHED_TLS_CERT, value: /tls/tls.crt}
        - {name: GOSCHED_TLS_KEY, value: /tls/tls.key}
        - {name: GOSCHED_TLS_CA, value: /tls/ca.crt}
      volumeMounts: [{name: tls, mountPath: /tls}]
  volumes: [{name: tls, secret: {secretName: gosched-client-tls, defaultMode: 0440}}]
"""
