"""Pods bound per second by gosched-kube, and by kube-scheduler on the same API server: 1,000 nodes, 5,000 pods.

What each costs is said, too: processor time by program, and calls to the API server; and how many pods per second the
machine would bind with a scheduler that costs nothing.

The scheduler under test stands still while its pods are created, so that creating them costs neither any time; then the
time counts until the last pod is bound. kube-scheduler places single pods; gosched-kube places gangs of 50. It is
measured with its own limit on calls (50 per second), and with a limit that it does not reach.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any

from benchmarks.cluster import LONG_LEASES
from benchmarks.peers.kube_costs import BUILTIN, OURS, Costs
from benchmarks.report import Report
from gosched.cli.local_cluster import LocalCluster
from tools.kubernetes.cluster import Cluster, cluster
from tools.kubernetes.pretended import Api, create_all, node, pod

GROUPS = "/apis/scheduling.k8s.io/v1beta1"
LIMIT_S = 400.0
FAST = ("--kube-api-qps=5000", "--kube-api-burst=5000")


class Bindings:
    """Counts the pods of a namespace that are bound, by a watch of its own."""

    def __init__(self, api: Api, namespace: str, wanted: int) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._wanted = wanted
        self._done = threading.Event()
        self._looks = threading.Event()
        self._bound: set[str] = set()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.first = self.last = 0.0

    def start(self) -> None:
        """Begin, and return once all pods were listed."""
        self._thread.start()
        if not self._looks.wait(LIMIT_S):
            raise SystemExit(f"the pods were not listed within {LIMIT_S:g} s")

    def wait(self) -> None:
        if not self._done.wait(LIMIT_S):
            raise SystemExit(f"{len(self._bound)} of {self._wanted} pods were bound within {LIMIT_S:g} s")

    def _follow(self) -> None:
        while not self._done.is_set():
            try:
                listed = self._api("GET", self._path)
                for each in listed["items"]:
                    self._see(each)
                self._looks.set()
                for _, found in self._api.watch(self._path, listed["metadata"]["resourceVersion"], self._done):
                    self._see(found)
            except (OSError, HTTPException, KeyError):
                time.sleep(0.1)

    def _see(self, found: dict[str, Any]) -> None:
        if found["spec"].get("nodeName") and found["metadata"]["uid"] not in self._bound:
            self.last = time.monotonic()
            self.first = self.first or self.last
            self._bound.add(found["metadata"]["uid"])
            if len(self._bound) >= self._wanted:
                self._done.set()


def measure(
    api: Api, namespace: str, pods: list[dict[str, Any]], stop: Callable[[], None], go_on: Callable[[], None]
) -> tuple[float, Costs]:
    """Return the pods bound per second, and what that cost."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    stop()
    create_all(api, path, pods)
    bindings = Bindings(api, namespace, len(pods))
    bindings.start()
    before, began = Costs.now(api), time.monotonic()
    go_on()
    bindings.wait()
    rate, costs = len(pods) / (bindings.last - began), Costs.now(api).since(before)
    api("DELETE", path, {"gracePeriodSeconds": 0})
    return rate, costs


def builtin(api: Api, control: Cluster, count: int) -> tuple[float, Costs]:
    pods = [pod(f"builtin-{i}", cpu="100m", scheduler="default-scheduler") for i in range(count)]
    _namespace(api, "builtin")
    return measure(
        api,
        "builtin",
        pods,
        lambda: control.signal("kube-scheduler", "STOP"),
        lambda: control.signal("kube-scheduler", "CONT"),
    )


def ours(api: Api, control: Cluster, count: int, gang: int, nodes: int, log: Path) -> tuple[float, Costs]:
    _namespace(api, "ours")
    groups = [
        {"metadata": {"name": f"gang-{i}"}, "spec": {"schedulingPolicy": {"gang": {"minCount": gang}}}}
        for i in range(count // gang)
    ]
    create_all(api, f"{GROUPS}/namespaces/ours/podgroups", groups)
    pods = [pod(f"ours-{i}", cpu="100m", schedulingGroup={"podGroupName": f"gang-{i // gang}"}) for i in range(count)]
    with LocalCluster(masters=3, agents=0, settings=LONG_LEASES) as masters, masters.client() as client:
        words = [str(Path(sys.executable).parent / "gosched-kube"), "--master", masters.endpoints]
        with log.open("wb") as errors:
            bridge = subprocess.Popen([*words, "--kubeconfig", str(control.kubeconfig)], stderr=errors, env=os.environ)
        try:
            ends = time.monotonic() + LIMIT_S
            while client.get_status().nodes_ready < nodes:
                if time.monotonic() > ends or bridge.poll() is not None:
                    raise SystemExit(f"the nodes did not register: {log.read_text()[-500:]}")
                time.sleep(0.2)
            return measure(
                api,
                "ours",
                pods,
                lambda: bridge.send_signal(signal.SIGSTOP),
                lambda: bridge.send_signal(signal.SIGCONT),
            )
        finally:
            bridge.kill()
            bridge.wait()


def _namespace(api: Api, name: str) -> None:
    api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    ends = time.monotonic() + LIMIT_S
    while not api("GET", f"/api/v1/namespaces/{name}/serviceaccounts")["items"]:
        if time.monotonic() > ends:
            raise SystemExit(f"namespace {name} got no service account within {LIMIT_S:g} s")
        time.sleep(0.1)


def main() -> None:
    report = Report()
    nodes, pods, gang = (50, 200, 10) if report.smoke else (1000, 5000, 50)
    with tempfile.TemporaryDirectory() as folder:
        for name, flags in (("", FAST), ("_own_limit", ())):
            few = pods if flags else pods // 10  # by its own limit it takes a minute for 3,000
            with cluster(node=False, scheduler=flags) as control:
                api = Api(control)
                create_all(api, "/api/v1/nodes", [node(f"node-{i:04}", cpu="64") for i in range(nodes)])
                _add(report, f"kube_scheduler{name}", builtin(api, control, few), few, (BUILTIN,))
                if flags:
                    found = ours(api, control, pods, gang, nodes, Path(folder) / "bridge.log")
                    _add(report, f"gosched_kube_gangs_of_{gang}", found, pods, OURS)
                api.close()


def _add(report: Report, name: str, found: tuple[float, Costs], pods: int, schedulers: tuple[str, ...]) -> None:
    rate, costs = found
    report.add(name, rate, "pods/s", pods)
    report.add(f"{name}_at_most", costs.most_pods(schedulers, pods), "pods/s", pods)
    for of, value, unit in costs.by_pod(pods):
        report.add(f"{name}_{of}", value, unit, pods)


if __name__ == "__main__":
    main()
