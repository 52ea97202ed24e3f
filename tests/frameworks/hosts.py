"""Three masters and three agents of 4 CPUs, each a host of its own, and what can befall such a host."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import psutil

from gosched.cli.local_cluster import READY_S, AgentShape
from tests.chaos.hosts import CALL_S, HostCluster, call
from tests.integration.support import until

FOUR_CPUS = AgentShape(resources={"cpu": 4, "memory": "8Gi"})
_NOBODY = "02:00:00:00:00:01"  # no device's hardware address


class Cluster(HostCluster):
    """A `HostCluster` whose hosts have names that the others can resolve: frameworks tell each other theirs."""

    def __init__(self, data_dir: Path, lease: Mapping[str, str]) -> None:
        self._names = data_dir / "hosts"
        super().__init__(data_dir, masters=3, agents=[FOUR_CPUS] * 3, settings={"lease": lease})

    def start(self, *, timeout_s: float = READY_S) -> None:
        known = [f"{self.hosts.address(id)} {id}" for id in [*self.masters, *self.agents]]
        self._names.write_text("\n".join(["127.0.0.1 localhost", *known]) + "\n")
        super().start(timeout_s=timeout_s)

    def crash(self, node: str) -> None:
        """Kill every process of a node at once: its peers' connections break, as when the machine reboots."""
        for process in self._processes(node):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        until(lambda: not self._processes(node), f"{node} is empty", CALL_S)

    def lose_power(self, node: str) -> None:
        """End a node without a word: its peers wait for it until somebody tells them."""
        self.hosts.cut_off(node)
        self.crash(node)

    def kill_agent(self, node: str) -> None:
        """Kill the agent alone: supervisors and tasks go on."""
        self.agents[node].kill()

    def cut_from_masters(self, node: str) -> None:
        """Lose what the node sends to the masters, without a word to anybody. Other nodes still hear it."""
        for master in self.masters:
            address = self.hosts.address(master)
            words = ["neigh", "replace", address, "lladdr", _NOBODY, "dev", "eth0", "nud", "permanent"]
            call("ip", "-n", self.hosts.namespace(node), *words)

    def _processes(self, node: str) -> list[psutil.Process]:
        words = ["ip", "netns", "pids", self.hosts.namespace(node)]
        said = subprocess.run(words, capture_output=True, text=True, timeout=CALL_S, check=True).stdout
        found = []
        for pid in map(int, said.split()):
            with suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(pid))
        return [process for process in found if process.status() != psutil.STATUS_ZOMBIE]

    def _prefix(self, id: str) -> list[str]:
        named = 'mount --bind "$0" /etc/hosts && hostname "$1" && shift && exec "$@"'
        own = ["unshare", "--uts", "--mount", "sh", "-c", named, str(self._names), id]
        return [*super()._prefix(id), *own]


def kill(pid: int) -> None:
    """Kill one process, as the kernel does when memory is short."""
    os.kill(pid, signal.SIGKILL)


def kill_task(pid: int) -> None:
    """Kill a rank and its launcher, which are a task, but not the task's supervisor."""
    process = psutil.Process(pid)
    launchers = takewhile(lambda parent: "gosched.agent" not in " ".join(parent.cmdline()), process.parents())
    for each in reversed([process, *launchers]):
        each.kill()
