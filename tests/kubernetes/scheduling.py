"""What the tests of gosched-kube share: a control plane with pretended nodes, masters, and the bridge between them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from gosched.cli.local_cluster import LocalCluster
from gosched.client import GoSchedClient
from gosched.core.records.job import Job
from tests.ports import HeldPort
from tools.kubernetes.cluster import Cluster
from tools.kubernetes.pretended import GONE, Api, Refused, condition

LIMIT_S = 60.0  # for what takes seconds
END_S = 10.0
RIGHTS = Path(__file__).parents[2] / "deploy/kubernetes/scheduler-rbac.yaml"
BRIDGE = Path(sys.executable).parent / "gosched-kube"

T = TypeVar("T")


def until(what: str, look: Callable[[], T], limit_s: float = LIMIT_S) -> T:
    """Return the first answer that is not empty."""
    ends = time.monotonic() + limit_s
    while time.monotonic() < ends:
        if found := look():
            return found
        time.sleep(0.1)
    pytest.fail(f"not within {limit_s:g} s: {what}")


class Bridge:
    """One `gosched-kube`, which may be killed and started anew: always at its own port, so it is the same holder."""

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        self._kubeconfig = kubeconfig
        self._log = log
        self._port = HeldPort()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, masters: LocalCluster) -> None:
        words = [str(BRIDGE), "--master", masters.endpoints, "--kubeconfig", str(self._kubeconfig)]
        words += ["--grpc-addr", self._port.address, "--log-format", "json"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(words, stderr=log, env=os.environ)

    def ended(self) -> int:
        """Return the exit code, once it ends."""
        assert self._process is not None
        code = self._process.wait(END_S)
        self._process = None
        return code

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(END_S)
            self._process = None

    def said(self, words: str) -> bool:
        return any(words in line["event"] for line in self.lines)

    @property
    def text(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines() if line.startswith("{")]


class Way:
    """A way to the API server that can be cut: what is on it breaks off, and nobody gets on."""

    def __init__(self, control: Cluster) -> None:
        host, _, port = control.api.removeprefix("https://").rpartition(":")
        self.host = host
        self._end = (host, int(port))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[socket.socket] = []
        self._is_cut = False
        self.address = f"https://127.0.0.1:{self._listening.getsockname()[1]}"
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def cut(self) -> None:
        self._is_cut = True
        for one in self._pairs:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._listening.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        for thread in self._threads:
            thread.join(END_S)
        for one in (self._listening, *self._pairs):
            one.close()

    def _start(self, work: Callable[..., None], *ends: socket.socket) -> None:
        self._threads.append(threading.Thread(target=work, args=ends, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                near, _ = self._listening.accept()
                if self._is_cut:
                    near.close()
                    continue
                far = socket.create_connection(self._end, timeout=END_S)
                far.settimeout(None)
                self._pairs += [near, far]
                self._start(self._copy, near, far)
                self._start(self._copy, far, near)

    def _copy(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)


def limited_kubeconfig(control: Cluster, file: Path, way: Way | None = None) -> Path:
    """Write a kubeconfig of the account that may do what docs/operations/kubernetes-scheduler.md says, and no more."""
    control.kubectl("apply", "-f", str(RIGHTS))
    token = control.kubectl("create", "token", "gosched-kube", "-n", "kube-system").strip()
    cluster = {"server": control.api, "certificate-authority": str(control.pki / "ca.crt")}
    if way is not None:
        cluster |= {"server": way.address, "tls-server-name": way.host}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    file.write_text(yaml.safe_dump(config))
    return file


class Pods:
    """The pods of one namespace, by name."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self.namespace = namespace
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, *pods: dict[str, Any]) -> None:
        for each in pods:
            self._api("POST", self.path, each)

    def get(self, name: str) -> dict[str, Any] | None:
        try:
            return self._api("GET", f"{self.path}/{name}")
        except Refused as error:
            if error.status in GONE:
                return None
            raise

    def all(self) -> dict[str, dict[str, Any]]:
        return {each["metadata"]["name"]: each for each in self._api("GET", self.path)["items"]}

    def delete(self, name: str) -> None:
        self._api("DELETE", f"{self.path}/{name}", {"gracePeriodSeconds": 0})

    def node_of(self, name: str) -> str:
        found = self.get(name)
        return str(found["spec"].get("nodeName") or "") if found else ""

    def bound(self, prefix: str = "") -> dict[str, str]:
        """Return the nodes of the pods that have one, by name."""
        pods = [(name, each["spec"].get("nodeName")) for name, each in self.all().items() if name.startswith(prefix)]
        return {name: node for name, node in pods if node}


def serve_pod_groups(api: Api, version: str) -> None:
    """Have the API server know the PodGroups of an API, GROUP/VERSION."""
    group, _, name = version.partition("/")
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"}
    versions = [{"name": name, "served": True, "storage": True, "schema": schema}]
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    definition = {"metadata": {"name": f"podgroups.{group}"}, "spec": spec}
    try:
        api("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    except Refused as error:
        if error.status not in GONE:  # 409: another test has made it
            raise
    until("PodGroups are served", lambda: _is_there(api, f"/apis/{version}/podgroups"))


def _is_there(api: Api, path: str) -> bool:
    try:
        return bool(api("GET", path))
    except Refused as error:
        if error.status not in (*GONE, 429):  # its storage is not ready yet
            raise
        return False


@contextmanager
def fresh_nodes(api: Api, nodes: list[dict[str, Any]]) -> Iterator[None]:
    """Have these nodes and no others, for as long as the caller needs them."""
    for each in nodes:
        api("POST", "/api/v1/nodes", each)
    try:
        yield
    finally:
        for each in api("GET", "/api/v1/nodes")["items"]:
            api("DELETE", f"/api/v1/nodes/{each['metadata']['name']}")


def jobs_of(client: GoSchedClient, pods: Pods) -> list[Job]:
    return [job for job in client.list_jobs() if job.spec.tenant == pods.namespace]


def job_state(client: GoSchedClient, pods: Pods) -> list[str]:
    return sorted(job.state.name for job in jobs_of(client, pods))


def is_made(api: Api, path: str, found: dict[str, Any]) -> bool:
    try:
        return bool(api("POST", path, found))
    except Refused as error:
        if error.status not in GONE:
            raise
        return False


def task_states(client: GoSchedClient, pods: Pods) -> list[str]:
    return [task.state.name for job in jobs_of(client, pods) for task in client.get_job(job.id).tasks]


def why(pods: Pods, name: str, reason: str, words: str) -> bool:
    found = condition(pods.get(name) or {"status": {}})
    print(name, found)  # shown where the test fails
    return found.get("status") == "False" and found["reason"] == reason and words.lower() in found["message"].lower()
