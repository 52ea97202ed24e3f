"""A cluster whose every master and agent is a host of its own: a network namespace on one bridge, with faults at will.

Needs root, `ip` and `nsenter`. Invariant: what was made here is gone after `stop`, and nothing else is touched.
"""

from __future__ import annotations

import fcntl
import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.cli.local_program import Program
from tests.chaos.faults import Faults, environment, set_faults

CALL_S = 20
_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000


def call(*words: str) -> None:
    """Raises RuntimeError with what the program said."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=CALL_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")


class Hosts:
    """Network namespaces `TAG-NAME` on a bridge here. `long_wires`: what a host sends and gets can be delayed."""

    def __init__(self, *, long_wires: bool = False) -> None:
        self._wires: dict[str, subprocess.Popen[bytes]] | None = {} if long_wires else None
        self._tag = f"gs{os.getpid() % 100_000}{random.choice('abcdefghijklmnopqrstuvwxyz')}"
        self._bridge = f"{self._tag}br"
        self._net = f"10.{random.randrange(200, 250)}.{random.randrange(250)}"
        self._addresses: dict[str, str] = {}
        self._numbers = count(2)
        call("ip", "link", "add", self._bridge, "type", "bridge")
        call("ip", "addr", "add", f"{self._net}.1/24", "dev", self._bridge)
        call("ip", "link", "set", self._bridge, "up")

    def address(self, name: str) -> str:
        """Of a host, which is made at the first call."""
        if name not in self._addresses:
            number = next(self._numbers)
            self._addresses[name] = f"{self._net}.{number}"
            space, link = self.namespace(name), self._link(name)
            call("ip", "netns", "add", space)
            if self._wires is None:
                call("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
            else:
                self._wires[name] = _wire(link, space)
            call("ip", "link", "set", link, "master", self._bridge, "up")
            call("ip", "-n", space, "addr", "add", f"{self._net}.{number}/24", "dev", "eth0")
            call("ip", "-n", space, "link", "set", "eth0", "up")
            call("ip", "-n", space, "link", "set", "lo", "up")
        return self._addresses[name]

    def namespace(self, name: str) -> str:
        return f"{self._tag}-{name}"

    def cut_off(self, name: str) -> None:
        """Nothing goes in or out, without a word to anybody."""
        call("ip", "link", "set", self._link(name), "down")

    def join(self, name: str) -> None:
        call("ip", "link", "set", self._link(name), "up")

    def delay(self, name: str, ms: int, *, port: int = 0) -> None:
        """Of each frame that the host sends or gets: one way between two hosts takes the sum of both. `port`: of the
        frames of this TCP port alone."""
        assert self._wires is not None, "the hosts were made without long wires"
        wire = self._wires[name]
        assert wire.stdin is not None
        assert wire.stdout is not None
        wire.stdin.write(f"{ms} {port}\n".encode())
        wire.stdin.flush()
        wire.stdout.readline()

    def close(self) -> None:
        for wire in (self._wires or {}).values():
            wire.communicate(timeout=CALL_S)  # it ends with its input
        for name in self._addresses:
            with suppress(RuntimeError):  # made only half
                call("ip", "netns", "delete", self.namespace(name))
            with suppress(RuntimeError):  # it goes with the namespace, but not at once
                call("ip", "link", "delete", self._link(name))
        call("ip", "link", "delete", self._bridge)

    def _link(self, name: str) -> str:
        return f"{self._tag}v{self._addresses[name].rpartition('.')[2]}"


def _wire(link: str, space: str) -> subprocess.Popen[bytes]:
    """Two TAP devices, one here and one in the namespace, and the process that carries frames between them."""
    near, far = _tap(link), _tap(f"{link}f")
    try:
        call("ip", "link", "set", f"{link}f", "netns", space, "name", "eth0")
        command = [sys.executable, str(Path(__file__).with_name("wire.py")), str(near), str(far)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[near, far])
    finally:
        os.close(near)
        os.close(far)


def _tap(name: str) -> int:
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TAP | _IFF_NO_PI))
    return fd


class HostCluster(LocalCluster):
    """A `LocalCluster` on hosts of its own; `faults` of a program may change while it runs."""

    def __init__(
        self,
        data_dir: Path,
        *,
        masters: int = 3,
        agents: int | Sequence[AgentShape] = 2,
        settings: Mapping[str, object] | None = None,
        long_wires: bool = False,
    ) -> None:
        self.hosts = Hosts(long_wires=long_wires)
        self._port_numbers: Iterator[int] = count(7000)
        try:
            shapes = [AgentShape()] * agents if isinstance(agents, int) else agents
            super().__init__(
                data_dir,
                masters=masters,
                agents=[_insecure(shape) for shape in shapes],
                settings={"insecure": True, **(settings or {})},
            )
        except BaseException:
            self.hosts.close()
            raise

    def faults(self, program: Program, faults: Faults) -> None:
        set_faults(self._control(program.id), faults)

    def add_agent(self, shape: AgentShape | None = None) -> Program:
        return super().add_agent(_insecure(shape or AgentShape()))

    def stop(self) -> None:
        for name in [*self.masters, *self.agents]:
            self.hosts.join(name)
        try:
            super().stop()
        finally:
            self.hosts.close()

    def _address(self, id: str) -> str:
        return f"{self.hosts.address(id)}:{next(self._port_numbers)}"

    def _prefix(self, id: str) -> list[str]:
        variables = [f"{name}={value}" for name, value in environment(self._control(id)).items()]
        return ["nsenter", f"--net=/var/run/netns/{self.hosts.namespace(id)}", "env", *variables]

    def _control(self, id: str) -> Path:
        return self.data_dir / f"{id}.faults"


def _insecure(shape: AgentShape) -> AgentShape:
    settings: dict[str, Any] = {"insecure": True, **shape.settings}
    return AgentShape(resources=shape.resources, labels=shape.labels, settings=settings)
