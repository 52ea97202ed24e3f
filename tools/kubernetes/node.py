"""The node of a cluster: containerd with a bridge, kubelet, kube-proxy and CoreDNS, as programs of one machine."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path

from tools.kubernetes.machine import ADDRESS, ClusterError, Machine

NAME = "node-1"
PODS = "10.244.77.0/24"
#: The image of the process that holds a pod's namespaces: busybox, which sleeps. Tests may run it, too.
SANDBOX = "docker.io/local/sandbox:1"

_NETWORK = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "pods",
            "isGateway": True,
            "ipMasq": True,
            "hairpinMode": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]},
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}

# Root may have no CAP_SYS_RESOURCE, and the sandbox's oom_score_adj of -998 would be refused: the least that is allowed
# will do.
_CONTAINERD = """
version = 2
root = "/var/lib/containerd"
state = "/run/containerd/state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{sandbox}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/network"
"""

# Version 1 of cgroups is allowed: a machine may mix both. No image is ever thrown away: no registry has it.
_KUBELET = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: /
containerRuntimeEndpoint: unix://{socket}
address: {address}
readOnlyPort: 0
healthzPort: 0
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: true}}, x509: {{clientCAFile: {pki}/ca.crt}}}}
authorization: {{mode: Webhook}}
tlsCertFile: {pki}/kubelet.crt
tlsPrivateKeyFile: {pki}/kubelet.key
clusterDNS: ["{address}"]
clusterDomain: cluster.local
imageGCHighThresholdPercent: 100
evictionHard: {{memory.available: 100Mi, nodefs.available: "1%", nodefs.inodesFree: "1%", imagefs.available: "1%"}}
"""

# Nothing is cached: a pod that has moved is found under its new address at once.
_COREDNS = """
.:53 {{
  bind {address}
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {pki}/admin.kubeconfig
    ttl 0
  }}
  errors
}}
"""


class Node:
    """What runs pods. `start` returns before the node is ready: the API server says when it is."""

    def __init__(self, machine: Machine, folder: Path, pki: Path, programs: Path) -> None:
        self._machine = machine
        self._folder = folder
        self._pki = pki
        self._programs = programs
        self._socket = "/run/containerd/containerd.sock"
        self._ctr = ["ctr", "-a", self._socket, "-n", "k8s.io"]

    def start(self, coredns: Path) -> None:
        values = {
            "folder": self._folder, "socket": self._socket, "sandbox": SANDBOX, "address": ADDRESS, "pki": self._pki
        }  # fmt: skip
        for name, text in (("containerd.toml", _CONTAINERD), ("kubelet.yaml", _KUBELET), ("Corefile", _COREDNS)):
            (self._folder / name).write_text(text.format(**values))
        (self._folder / "network").mkdir()
        (self._folder / "network" / "pods.conflist").write_text(json.dumps(_NETWORK))
        machine, proxy = self._machine, f"{self._pki}/kube-proxy.kubeconfig"
        machine.start("containerd", ["containerd", "-c", f"{self._folder}/containerd.toml"])
        machine.wait("containerd answers", self._answers)
        self.load(_sandbox_image(self._folder / "sandbox.tar"))
        machine.start(
            "kubelet",
            [
                f"{self._programs}/kubelet", f"--config={self._folder}/kubelet.yaml", f"--node-ip={ADDRESS}",
                f"--kubeconfig={self._pki}/kubelet.kubeconfig", f"--root-dir={self._folder}/kubelet",
                f"--cert-dir={self._folder}/kubelet/pki", f"--hostname-override={NAME}", "--oom-score-adj=0",
            ],
        )  # fmt: skip
        machine.start(
            "kube-proxy",
            [
                f"{self._programs}/kube-proxy", f"--kubeconfig={proxy}", "--proxy-mode=nftables",
                f"--cluster-cidr={PODS}", f"--hostname-override={NAME}", "--conntrack-max-per-core=0",
                f"--bind-address={ADDRESS}", f"--metrics-bind-address={ADDRESS}:10249",
                f"--healthz-bind-address={ADDRESS}:10256", f"--nodeport-addresses={ADDRESS}/32",
            ],
        )  # fmt: skip
        machine.start("coredns", [str(coredns), "-conf", f"{self._folder}/Corefile"])

    def _answers(self) -> bool:
        try:
            self._machine.run([*self._ctr, "version"])
        except ClusterError:
            return False
        return True

    def load(self, archive: Path) -> None:
        """Load the images of a `docker save` archive."""
        self._machine.run([*self._ctr, "images", "import", str(archive)])

    def tag(self, image: str, other: str) -> None:
        """Give an image a second name; both are as docker.io/library/NAME:TAG."""
        self._machine.run([*self._ctr, "images", "tag", "--force", image, other])


def _sandbox_image(path: Path) -> Path:
    """Write an archive of the image SANDBOX: one static program."""
    busybox = shutil.which("busybox")
    assert busybox is not None, "check() has looked for it"
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        member = tarfile.TarInfo("bin/busybox")
        content = Path(busybox).read_bytes()
        member.size, member.mode = len(content), 0o755
        tar.addfile(member, io.BytesIO(content))
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/bin/busybox", "sleep", "1000000000"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [SANDBOX.removeprefix("docker.io/")], "Layers": ["layer.tar"]}]
    files = {"layer.tar": layer.getvalue(), "config.json": json.dumps(config).encode()}
    with tarfile.open(path, "w") as archive:
        for name, content in (*files.items(), ("manifest.json", json.dumps(manifest).encode())):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path
