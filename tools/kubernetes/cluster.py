"""One cluster from its start to its end: etcd, the API server, the controllers, the scheduler, and a node.

Invariant: a cluster that was ended has left nothing: no process, no mount, no interface, no cgroup, no file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.kubernetes import certificates
from tools.kubernetes.build import tool
from tools.kubernetes.machine import ADDRESS, OTHER_ADDRESS, ClusterError, Machine, check, run
from tools.kubernetes.node import NAME, Node

SERVICES = "10.96.0.0/24"
_ETCD = "http://127.0.0.1:2379"
_LINKS = (
    "etcd", "kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"
)  # fmt: skip

_CLASS = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
"""
# Local volumes, since fsGroup is not applied to hostPath ones.
_VOLUME = """
---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: volume-{number}}}
spec:
  capacity: {{storage: 20Gi}}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  persistentVolumeReclaimPolicy: Retain
  local: {{path: {path}}}
  nodeAffinity:
    required:
      nodeSelectorTerms: [{{matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{node}]}}]}}]
"""


class Cluster:
    """A running cluster of one node, or of none, and the programs that talk to it."""

    def __init__(self, folder: Path, *, node: bool = True, scheduler: Sequence[str] = ()) -> None:
        """`node` False: there are only the Node objects that tests make, and no controller judges these by silence.
        `scheduler`: further flags of kube-scheduler."""
        self._scheduler = scheduler
        self.folder = folder
        self._has_node = node
        self._address = ADDRESS if node else OTHER_ADDRESS
        #: Where the API server is.
        self.api = f"https://{self._address}:6443"
        self.programs = folder / "bin"
        self.pki = folder / "pki"
        self.kubeconfig = self.pki / "admin.kubeconfig"
        self._volumes = 0
        binary = tool("kubeall")
        self._coredns = tool("coredns")
        self.programs.mkdir(parents=True)
        for name in _LINKS:
            (self.programs / name).symlink_to(binary)
        self._machine = Machine(folder, self._address)
        self._node = Node(self._machine, folder, self.pki, self.programs)

    def start(self) -> None:
        addresses = [self._address, "127.0.0.1", "10.96.0.1"]
        certificates.make(self.pki, node=NAME, addresses=addresses, server=self.api)
        self._control_plane()
        if self._has_node:
            self._node.start(self._coredns)
        # Default accounts are made by a controller; a pod that comes before them is refused.
        self._machine.wait("accounts are made", lambda: self.try_kubectl("get", "serviceaccount", "default"))
        if self._has_node:
            self._machine.wait("the node is ready", self._node_is_ready)

    def _control_plane(self) -> None:
        pki, machine, programs = self.pki, self._machine, self.programs
        # The state is for minutes: it needs no disk that holds.
        machine.start(
            "etcd",
            [
                f"{programs}/etcd", f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync", "--log-level=warn",
                f"--listen-client-urls={_ETCD}", f"--advertise-client-urls={_ETCD}",
                "--listen-peer-urls=http://127.0.0.1:2380",
            ],
        )  # fmt: skip
        self._start_api_server()
        for name in ("kube-controller-manager", "kube-scheduler"):
            own = f"{pki}/{name}.kubeconfig"
            words = [
                f"{programs}/{name}", f"--kubeconfig={own}", f"--authentication-kubeconfig={own}",
                f"--authorization-kubeconfig={own}", "--bind-address=127.0.0.1", "--leader-elect=false",
            ]  # fmt: skip
            if name == "kube-controller-manager":
                words += [
                    "--use-service-account-credentials", f"--root-ca-file={pki}/ca.crt",
                    f"--service-account-private-key-file={pki}/sa.key",
                ]  # fmt: skip
                if not self._has_node:
                    words.append("--controllers=*,-node-lifecycle-controller")
            else:
                words += self._scheduler
            machine.start(name, words)

    def _start_api_server(self) -> None:
        pki, programs = self.pki, self.programs
        # What a new node is tainted by, and then by that controller freed of.
        without = [] if self._has_node else ["--disable-admission-plugins=TaintNodesByCondition"]
        self._machine.start(
            "kube-apiserver",
            [
                f"{programs}/kube-apiserver", f"--etcd-servers={_ETCD}", f"--bind-address={self._address}",
                f"--advertise-address={self._address}", "--secure-port=6443", f"--service-cluster-ip-range={SERVICES}",
                "--authorization-mode=Node,RBAC", "--allow-privileged=true", f"--client-ca-file={pki}/ca.crt",
                f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
                f"--kubelet-client-certificate={pki}/admin.crt", f"--kubelet-client-key={pki}/admin.key",
                "--kubelet-preferred-address-types=InternalIP",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={pki}/sa.key", f"--service-account-signing-key-file={pki}/sa.key",
                "--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true", *without,
            ],
        )  # fmt: skip
        self._machine.wait("the API server is ready", lambda: self.try_kubectl("get", "--raw", "/readyz"))

    def restart_api_server(self) -> None:
        """Kill the API server, and return once the next one is ready."""
        self._machine.kill("kube-apiserver")
        self._start_api_server()

    def signal(self, program: str, name: str) -> None:
        """Send a signal, such as STOP, to a program of the control plane."""
        self._machine.signal(program, name)

    def _node_is_ready(self) -> bool:
        return "True" in (
            self.try_kubectl("get", "node", NAME, "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}")
            or ""
        )

    @property
    def env(self) -> dict[str, str]:
        """The environment in which kubectl and helm find this cluster."""
        return {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "HELM_CACHE_HOME": str(self.folder / "helm"),
            "HELM_CONFIG_HOME": str(self.folder / "helm"),
            "HELM_DATA_HOME": str(self.folder / "helm"),
        }

    def kubectl(self, *words: str, stdin: str | None = None, limit_s: float = 120) -> str:
        """Return what kubectl prints; raise ClusterError with its words when it fails."""
        return run([f"{self.programs}/kubectl", *words], limit_s, env=self.env, stdin=stdin)

    def helm(self, *words: str, major: int = 3, limit_s: float = 300) -> str:
        """Return what Helm 3 or 4 prints; raise ClusterError with its words when it fails."""
        return run([str(tool(f"helm{major}")), *words], limit_s, env=self.env)

    def try_kubectl(self, *words: str) -> str | None:
        """Return what kubectl prints; None when it fails."""
        try:
            return self.kubectl("--request-timeout=10s", *words, limit_s=20)
        except ClusterError:
            return None

    def load(self, archive: Path) -> None:
        """Load the images of a `docker save` archive into the node."""
        self._node.load(archive)

    def tag(self, image: str, other: str) -> None:
        """Give an image of the node, NAME:TAG, a second name."""
        self._node.tag(f"docker.io/library/{image}", f"docker.io/library/{other}")

    def add_volumes(self, count: int) -> None:
        """Add empty volumes, of the default class; a pod waits until one is free for it."""
        text = _CLASS
        for number in range(self._volumes, self._volumes + count):
            path = self.folder / "volumes" / str(number)
            path.mkdir(parents=True)
            text += _VOLUME.format(number=number, path=path, node=NAME)
        self._volumes += count
        self.kubectl("apply", "-f", "-", stdin=text)

    def end(self) -> None:
        self._machine.end()
        _remove_pod_cgroups()


def _remove_pod_cgroups() -> None:
    for top in (*Path("/sys/fs/cgroup").glob("*/kubepods"), Path("/sys/fs/cgroup/kubepods")):
        for folder, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):  # another cluster's, or a process that is just ending
                Path(folder).rmdir()


@contextmanager
def cluster(*, keep_logs: Path | None = None, node: bool = True, scheduler: Sequence[str] = ()) -> Iterator[Cluster]:
    """Run a cluster; its logs are copied to a folder when it ends, if one is named. `node`, `scheduler`: as in
    Cluster."""
    check()
    folder = Path(tempfile.mkdtemp(prefix="gosched-kube-"))
    folder.chmod(0o755)
    running = None
    try:
        running = Cluster(folder, node=node, scheduler=scheduler)
        running.start()
        yield running
    finally:
        if running is not None:
            running.end()
        if keep_logs is not None:
            keep_logs.mkdir(parents=True, exist_ok=True)
            for log in folder.glob("*.log"):
                shutil.copy(log, keep_logs)
        shutil.rmtree(folder, ignore_errors=True)
