"""Nodes that are only objects of the API server, and what a kubelet would report of the pods that are bound to them."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from tools.kubernetes.cluster import Cluster

LIMIT_S = 30.0
GONE = (404, 409)
Json = dict[str, Any]


class Refused(Exception):
    """The API server's answer to a request that it did not carry out."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """The API server, asked as its administrator. Each thread has a connection of its own."""

    def __init__(self, cluster: Cluster) -> None:
        pki = cluster.pki
        self._address = urlsplit(cluster.api)
        self._tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))  # noqa: TID251 - to a test cluster
        self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        self._local = threading.local()
        self._opened: list[http.client.HTTPSConnection] = []

    def close(self) -> None:
        """Close the connections of all threads, which must have ended their calls."""
        for connection in self._opened:
            connection.close()

    def __call__(self, method: str, path: str, body: object = None, *, patch: str = "strategic-merge-patch") -> Json:
        """Return the answer. Raises Refused."""
        kind = f"application/{patch}+json" if method == "PATCH" else "application/json"
        for attempt in (1, 2):
            try:
                connection = self._connection()
                connection.request(method, path, body and json.dumps(body), {"Content-Type": kind})
                answer = connection.getresponse()
                text = answer.read()
                break
            except (OSError, http.client.HTTPException):
                self._local.connection.close()
                self._local.connection = None
                if attempt == 2:
                    raise
        found: Json = json.loads(text) if text[:1] == b"{" else {"message": text.decode(errors="replace")}
        if answer.status >= 300:
            raise Refused(answer.status, str(found.get("message")))
        return found

    def watch(self, path: str, version: str, ended: threading.Event) -> Iterator[tuple[str, Json]]:
        connection = self._open()
        query = f"watch=true&resourceVersion={version}&timeoutSeconds=5"  # so that it ends soon
        connection.request("GET", f"{path}?{query}")
        answer = connection.getresponse()
        try:
            while not ended.is_set() and (line := answer.readline()):
                event = json.loads(line)
                yield event["type"], event["object"]
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPSConnection:
        if getattr(self._local, "connection", None) is None:
            self._local.connection = self._open()
        found: http.client.HTTPSConnection = self._local.connection
        return found

    def _open(self) -> http.client.HTTPSConnection:
        host, port = str(self._address.hostname), self._address.port
        connection = http.client.HTTPSConnection(host, port, timeout=LIMIT_S, context=self._tls)
        self._opened.append(connection)
        return connection


def node(name: str, *, cpu: str = "8", memory: str = "32Gi", **more: Any) -> Json:
    """Return a node that is ready. `more`: labels, taints and further amounts."""
    amounts = {"cpu": cpu, "memory": memory, "pods": "110", **more.get("amounts", {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **more.get("labels", {})}},
        "spec": {"taints": more.get("taints", [])},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Pretended"}],
        },
    }


def pod(name: str, *, cpu: str = "1", scheduler: str = "gosched", group: str = "", **spec: Any) -> Json:
    """Return a pod. `group`: of the scheduler-plugins' PodGroups. `spec`: further fields."""
    labels = {"scheduling.x-k8s.io/pod-group": group} if group else {}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {**labels, **spec.pop("labels", {})},
            "annotations": spec.pop("annotations", {}),
        },
        "spec": {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


def create_all(api: Api, path: str, objects: list[Json], *, threads: int = 16) -> None:
    """Create many objects."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda each: api("POST", path, each), objects))


class Kubelets:
    """What the kubelets of all pretended nodes do: bound pods run, and pods that are to go are gone. `holds`: pods
    that, by name, only go when the test says so."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(4)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        #: Uid of a pod -> the nodes that it was seen on.
        self.nodes_of: dict[str, set[str]] = {}
        self.bound_at: dict[str, float] = {}
        self.holds: set[str] = set()

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._pool.shutdown(cancel_futures=True)
        self._thread.join(LIMIT_S)

    def set_phase(self, namespace: str, name: str, phase: str, exit_code: int | None = None) -> None:
        status: Json = {"phase": phase}
        if phase == "Running":
            status["conditions"] = [{"type": "Ready", "status": "True"}]
        if exit_code is not None:
            ended = {"terminated": {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed"}}
            status["containerStatuses"] = [
                {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
            ]
        self._api("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}/status", {"status": status})

    def _follow(self) -> None:
        while not self._ended.is_set():
            with suppress(OSError, ValueError, Refused, http.client.HTTPException):
                listed = self._api("GET", "/api/v1/pods")
                for each in listed["items"]:
                    self._see(each)
                for kind, found in self._api.watch("/api/v1/pods", listed["metadata"]["resourceVersion"], self._ended):
                    if kind == "ERROR":
                        break
                    if kind != "DELETED":
                        self._see(found)
            time.sleep(0.2)

    def _see(self, found: Json) -> None:
        metadata, on = found["metadata"], found["spec"].get("nodeName")
        if on:
            self.nodes_of.setdefault(metadata["uid"], set()).add(on)
            self.bound_at.setdefault(metadata["uid"], time.monotonic())
        path = (metadata["namespace"], metadata["name"])
        if metadata.get("deletionTimestamp") and metadata["name"] not in self.holds:
            self._soon(self.remove, *path)
        elif on and found["status"].get("phase") == "Pending":
            self._soon(self.set_phase, *path, "Running")

    def remove(self, namespace: str, name: str) -> None:
        self._api("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", {"gracePeriodSeconds": 0})

    def _soon(self, work: Callable[..., None], *words: str) -> None:
        def carefully() -> None:
            with suppress(Refused, OSError, http.client.HTTPException):  # the pod went meanwhile, or the server did
                work(*words)

        with suppress(RuntimeError):  # it has ended
            self._pool.submit(carefully)


@contextmanager
def kubelets(api: Api) -> Iterator[Kubelets]:
    found = Kubelets(api)
    found.start()
    try:
        yield found
    finally:
        found.end()


def condition(found: Mapping[str, Any], kind: str = "PodScheduled") -> Mapping[str, Any]:
    """Return a condition of a pod; empty: it has none of this kind."""
    conditions = found["status"].get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})
