"""An agent in a container as the chart makes it for a pod: of the node are its process ids, its network and cgroups,
and the data directory, and nothing else."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import AGENT, NAMES, Agent
from tests.vm.conftest import PATIENCE_S, Figure, wait_for
from tests.vm.node import CGROUPS, DISK, Node

PODS = DISK / "pods"


class Pod(Agent):
    """Its container; `name` changes with each."""

    name = ""

    def launch(self) -> None:
        self.name = f"agent-{len(list(PODS.iterdir())) if PODS.exists() else 0}"
        bundle = PODS / self.name
        for folder in ("upper", "work", "rootfs"):
            (bundle / folder).mkdir(parents=True)
        layers = f"lowerdir=/,upperdir={bundle}/upper,workdir={bundle}/work"
        run("mount", "-t", "overlay", "overlay", "-o", layers, str(bundle / "rootfs"))
        words = [str(AGENT), f"--master={self.masters}", f"--data-dir={self.data_dir}", *self.flags]
        (bundle / "config.json").write_text(json.dumps(self.spec(words)))
        self.process = subprocess.Popen(
            ["runc", "run", "--bundle", str(bundle), self.name], stderr=subprocess.PIPE, text=True
        )
        self.reader = threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True)
        self.reader.start()

    def delete(self) -> None:
        """As the kubelet ends a pod: whatever is in its cgroup is killed, and its filesystem removed."""
        run("runc", "delete", "--force", self.name)
        self.exit_code()
        wait_for(self._without_cgroup, why=f"{self.name} has a cgroup")
        bundle = PODS / self.name
        run("umount", str(bundle / "rootfs"))
        shutil.rmtree(bundle / "upper")
        shutil.rmtree(bundle / "work")

    def _without_cgroup(self) -> bool:
        """Remove what runc gave up on: it tries for a fraction of a second only, the kubelet until it is gone."""
        cgroup = CGROUPS / "kubepods" / self.name
        for folder in sorted([cgroup, *cgroup.glob("**/")], reverse=True):
            with contextlib.suppress(OSError):  # busy until its processes have gone, or gone already
                folder.rmdir()
        return not cgroup.exists()

    def spec(self, words: list[str]) -> Any:
        binds = [(path, path) for path in ("/dev", "/sys", "/sys/fs/cgroup", "/disk", "/tmp")]
        return {
            "ociVersion": "1.0.2",
            "root": {"path": "rootfs"},
            "process": {
                "args": words,
                "cwd": str(Path.cwd()),
                "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
                "user": {"uid": 0, "gid": 0},
                "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), _CAPABILITIES),
            },
            "mounts": [
                {"destination": "/proc", "type": "bind", "source": "/proc", "options": ["rbind"]},
                *({"destination": to, "type": "bind", "source": path, "options": ["rbind"]} for path, to in binds),
            ],
            "linux": {
                "cgroupsPath": f"/kubepods/{self.name}",
                "resources": {"devices": [{"allow": True, "access": "rwm"}]},
                "namespaces": [{"type": "mount"}],
            },
        }


# What a privileged container has of a kernel's capabilities, as far as an agent uses them.
_CAPABILITIES = (
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_NET_ADMIN",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_ADMIN",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_MKNOD",
    "CAP_SETFCAP",
)


def run(*words: str) -> None:
    subprocess.run(words, check=True, timeout=PATIENCE_S)


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node("pod-node")
    made.agent = Pod(made.agent.data_dir, made.agent.masters, *made.agent.flags)
    try:
        made.start()
    except AssertionError:
        print(made.agent.exit_code(), made.agent.lines, Path("/proc/mounts").read_text())
        raise
    yield made
    made.close()
    for rootfs in PODS.glob("*/rootfs"):
        if rootfs.is_mount():
            run("umount", str(rootfs))


def test_a_task_outlives_the_pod_of_its_agent_and_the_next_pod_adopts_it(node: Node, figure: Figure) -> None:
    node.run("kept/0.1", "until [ -e /disk/pod-go ]; do sleep 0.5; done; exit 7")
    node.master.await_state("kept/0.1", "RUNNING")
    pod = node.agent
    assert isinstance(pod, Pod)
    before = node.cgroup("kept/0.1").joinpath("cgroup.procs").read_text()
    pod.delete()
    assert node.cgroup("kept/0.1").joinpath("cgroup.procs").read_text().split()[0] == before.split()[0]
    node.start()
    states = {task.allocation_id: NAMES[task.state] for task in node.agent.identity.tasks}
    assert states["kept/0.1"] == "RUNNING"
    (DISK / "pod-go").touch()
    assert node.outcome("kept/0.1")[:2] == ("FAILED", 7)
    wait_for(lambda: not node.cgroups(), why=f"cgroups left over: {node.cgroups()}")
    figure("pod of an agent deleted: its task ran on, was adopted by the next pod, and its exit code was right")
