"""A machine of its own for a cluster: namespaces of network, mounts and processes, which end with all that is in them.

Invariant: nothing outside is changed but one network interface and the cgroups of the pods, and they go with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from signal import SIGCONT

#: The address of a machine with a node, on its end of the wire to this host.
ADDRESS = "10.244.76.2"
#: The same of a machine without a node, so that one of each kind runs at a time.
OTHER_ADDRESS = "10.244.76.6"
#: By address: the name of the wire, and the address of this host on it.
_WIRES = {ADDRESS: ("gosched-kube", "10.244.76.1"), OTHER_ADDRESS: ("gosched-kube-1", "10.244.76.5")}
START_LIMIT_S = 120.0  # of each program; seconds unless the machine is very busy
COMMAND_LIMIT_S = 120.0
END_LIMIT_S = 30.0

# Folders that programs and pods write to whatever they are told: the machine has its own.
_OWN = ("/run/netns", "/run/containerd", "/var")
_INIT = """
set -e
mount --make-rshared /
for each in {own}; do mkdir -p "$each"; mount -t tmpfs none "$each"; done
mkdir -p /var/lib /var/log/pods /var/log/containers /var/tmp
ln -s /run /var/run
ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward
echo there
# Whatever loses its parent is this one's child: with the signal ignored it is no zombie.
exec env --ignore-signal=CHLD sleep infinity
"""
_NEEDED = {
    "unshare": "util-linux", "nsenter": "util-linux", "setpriv": "util-linux", "ip": "iproute2", "nft": "nftables",
    "iptables": "iptables", "containerd": "containerd", "runc": "runc", "busybox": "busybox-static",
}  # fmt: skip


class ClusterError(Exception):
    """A cluster that cannot run: what failed, and what to do or where to look."""


def check() -> None:
    """Raise ClusterError unless this machine has what a cluster needs."""
    if os.geteuid() != 0:
        raise ClusterError("a cluster needs root: its node makes namespaces and mounts")
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = {package for program, package in _NEEDED.items() if shutil.which(program) is None}
    if not Path("/usr/lib/cni/bridge").exists():
        missing.add("containernetworking-plugins")
    if missing:
        raise ClusterError(f"a cluster needs more programs: apt-get install {' '.join(sorted(missing))}")


class Machine:
    """One init process in namespaces of its own, and the programs that were started beside it."""

    def __init__(self, logs: Path, address: str = ADDRESS) -> None:
        self._logs = logs
        self._address = address
        # The init is killed with the process that made it, and the kernel kills what is in its namespace.
        shell = ["sh", "-c", _INIT.format(own=" ".join(_OWN))]
        spaces = ["--net", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--propagation=slave"]
        self._outer = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", *spaces, *shell],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._outer.stdout is not None
        if self._outer.stdout.readline() != "there\n":
            raise ClusterError("no namespaces could be made: run as root, outside containers that forbid `unshare`")
        self._init = int(Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()[0])
        self._programs: dict[str, subprocess.Popen[bytes]] = {}
        self._wire()

    def _wire(self) -> None:
        wire, host = _WIRES[self._address]
        subprocess.run(["ip", "link", "del", wire], capture_output=True, timeout=COMMAND_LIMIT_S, check=False)
        outside = [
            f"link add {wire} type veth peer name eth0 netns {self._init}",
            f"addr add {host}/30 dev {wire}",
            f"link set {wire} up",
        ]
        inside = [f"addr add {self._address}/30 dev eth0", "link set eth0 up", f"route add default via {host}"]
        for line in outside:
            run(["ip", *line.split()])
        for line in inside:
            self.run(["ip", *line.split()])

    def within(self, command: Sequence[str]) -> list[str]:
        """Return the words that run a command on this machine."""
        return ["nsenter", "--target", str(self._init), "--net", "--mount", "--pid", *command]

    def run(self, command: Sequence[str]) -> str:
        return run(self.within(command))

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a program that runs until the machine ends; its log is NAME.log."""
        with (self._logs / f"{name}.log").open("wb") as log:
            self._programs[name] = subprocess.Popen(
                self.within(command), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def kill(self, name: str) -> None:
        """Kill a program, and wait until it has gone."""
        program = self._programs.pop(name)
        self.signal(name, "KILL")
        program.wait(END_LIMIT_S)

    def signal(self, name: str, signal: str) -> None:
        """Send a signal to a program, which is known by its name among this machine's processes alone."""
        self.run(["pkill", f"-{signal}", "-x", name[:15]])
        if signal == "CONT" and name in self._programs:
            self._programs[name].send_signal(SIGCONT)  # nsenter stands still with its child

    def wait(self, what: str, condition: Callable[[], object], limit_s: float = START_LIMIT_S) -> None:
        """Wait for what the programs bring about; raise ClusterError when one of them has ended or time is over."""
        ends = time.monotonic() + limit_s
        while not condition():
            for name, program in self._programs.items():
                if program.poll() is not None:
                    raise ClusterError(f"{name} ended with {program.returncode}: {self._last_words(name)}")
            if time.monotonic() > ends:
                raise ClusterError(f"not within {limit_s:g} s: {what}; the logs are in {self._logs}")
            time.sleep(0.1)

    def _last_words(self, name: str) -> str:
        lines = (self._logs / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-10:])

    def end(self) -> None:
        """Kill all that is on the machine, and wait until it has gone."""
        self._outer.kill()  # its child, the init, is killed with it
        self._outer.wait(END_LIMIT_S)
        if self._outer.stdout is not None:
            self._outer.stdout.close()
        for program in self._programs.values():
            program.wait(END_LIMIT_S)
        wire, _ = _WIRES[self._address]
        subprocess.run(["ip", "link", "del", wire], capture_output=True, timeout=COMMAND_LIMIT_S, check=False)


def run(
    command: Sequence[str],
    limit_s: float = COMMAND_LIMIT_S,
    *,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> str:
    """Return what a command prints; raise ClusterError with its words when it fails."""
    said = " ".join(Path(word).name if n == 0 else word for n, word in enumerate(command))
    try:
        done = subprocess.run(list(command), env=env, input=stdin, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise ClusterError(f"`{said}` had not ended after {limit_s:g} s") from None
    if done.returncode:
        raise ClusterError(f"`{said}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
