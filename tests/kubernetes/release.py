"""A release of the chart on the tests' cluster: Helm's words, its pods, and clients of it from outside."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gosched.api.status import Status
from gosched.client import GoSchedClient, GoSchedError, TlsFiles
from tests.integration.support import PATIENCE_S, until
from tools.kubernetes.cluster import Cluster
from tools.kubernetes.machine import ADDRESS, ClusterError

REPO = Path(__file__).parents[2]
CHART = REPO / "deploy" / "helm" / "gosched"
GOSCHEDCTL = Path(sys.executable).with_name("goschedctl")


class Release:
    """One name in one namespace. `endpoint`: where clients outside reach it, if it has a port of the node."""

    def __init__(self, kube: Cluster, name: str = "gosched", namespace: str = "default", *, node_port: int = 0) -> None:
        self.kube = kube
        self.name = name
        #: What the names of its objects begin with.
        self.fullname = name if "gosched" in name else f"{name}-gosched"
        self.namespace = namespace
        self.endpoint = f"{ADDRESS}:{node_port}"
        self._files = kube.folder / f"client-{namespace}-{name}"

    def helm(self, verb: str, *words: str, major: int = 3) -> str:
        return self.kube.helm(verb, self.name, *words, "--namespace", self.namespace, major=major)

    def install(self, *words: str, major: int = 3) -> str:
        return self.helm("install", str(CHART), *words, major=major)

    def upgrade(self, *words: str, major: int = 3) -> str:
        """Change values, and keep all others; return when all masters are ready."""
        said = self.helm("upgrade", str(CHART), "--reuse-values", *words, major=major)
        self.await_ready()
        return said

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        return self.kube.kubectl("--namespace", self.namespace, *words, stdin=stdin)

    def await_ready(self, limit_s: int = 300) -> None:
        """Wait until all masters run what was asked for last, and are ready."""
        self.kubectl("rollout", "status", f"statefulset/{self.fullname}", f"--timeout={limit_s}s")

    def object(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def masters(self) -> list[dict[str, Any]]:
        """Return the masters' pods."""
        chosen = f"app.kubernetes.io/instance={self.name},app.kubernetes.io/component=master"
        return list(self.object("pods", "-l", chosen)["items"])

    def tls(self) -> TlsFiles:
        """Write the client's certificate of the release into files."""
        secret = self.object("secret", f"{self.fullname}-client-tls")["data"]
        self._files.mkdir(exist_ok=True)
        for name in ("ca.crt", "tls.crt", "tls.key"):
            (self._files / name).touch(mode=0o600)
            (self._files / name).write_bytes(base64.b64decode(secret[name]))
        return TlsFiles(
            cert=str(self._files / "tls.crt"), key=str(self._files / "tls.key"), ca=str(self._files / "ca.crt")
        )

    def client(self, endpoint: str = "") -> GoSchedClient:
        return GoSchedClient(endpoint or self.endpoint, tls=self.tls(), timeout_s=PATIENCE_S)

    def goschedctl(self, endpoint: str, *words: str) -> str:
        """Run goschedctl on this host, with the client's certificate."""
        tls = self.tls()
        done = subprocess.run(
            [str(GOSCHEDCTL), *words],
            env={
                **os.environ,
                "GOSCHED_ENDPOINTS": endpoint,
                "GOSCHED_TLS_CERT": tls.cert,
                "GOSCHED_TLS_KEY": tls.key,
                "GOSCHED_TLS_CA": tls.ca,
                "NO_COLOR": "1",
            },
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_S,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    @contextmanager
    def port_forward(self, port: int = 9090) -> Iterator[str]:
        """Reach a port of the masters' service as people do from their machine; yields the endpoint."""
        command = [f"{self.kube.programs}/kubectl", "--namespace", self.namespace, "port-forward"]
        with subprocess.Popen(
            [*command, f"service/{self.fullname}", f":{port}"], env=self.kube.env, stdout=subprocess.PIPE, text=True
        ) as forward:
            try:
                assert forward.stdout is not None
                line = forward.stdout.readline()
                assert line.startswith("Forwarding from 127.0.0.1:"), line
                yield line.split()[2]
            finally:
                forward.kill()

    def status(self, client: GoSchedClient) -> Status:
        """Return the status once all masters are healthy and a node is ready."""
        found: list[Status] = []

        def whole() -> bool:
            try:
                found.append(client.get_status())
            except GoSchedError:
                return False
            masters = found[-1].masters
            return found[-1].nodes_ready > 0 and all(each.healthy for each in masters)

        until(whole, f"{self.name} has healthy masters and a node")
        return found[-1]

    def log(self, pod: str) -> str:
        """Return what a pod has written, now and before its last restart; empty while it has not begun."""
        said = ""
        for more in ((), ("--previous",)):
            with suppress(ClusterError):
                said += self.kubectl("logs", pod, *more)
        return said

    def await_event(self, text: str) -> None:
        """Wait until Kubernetes says so in an event of the namespace."""
        until(lambda: text in self.kubectl("get", "events"), f"an event says {text!r}")

    def uninstall(self) -> None:
        """Take the release away, and wait until its pods have gone."""
        self.helm("uninstall", "--wait")
        chosen = f"app.kubernetes.io/instance={self.name},app.kubernetes.io/component in (master,agent)"
        until(lambda: not self.object("pods", "-l", chosen)["items"], "the pods have gone")


def refusal(kube: Cluster, words: Sequence[str]) -> str:
    """Return what Helm says that refuses."""
    try:
        said = kube.helm(*words)
    except ClusterError as error:
        return str(error)
    raise AssertionError(f"helm did not refuse: {said}")
