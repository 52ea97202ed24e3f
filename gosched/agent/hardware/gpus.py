"""The GPUs of this host: which there are, what they do, and which of them are broken.

Invariant: a GPU's number is its place in the order of PCI addresses, and one that was found broken takes no work until
the agent starts again: only a person knows that it was repaired.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from gosched.agent.hardware.nvml import GpuState, Nvml, open_nvml

MAX_LOG_RECORDS_A_LOOK = 20_000

# After these the GPU, or its link, does not work until it is reset or replaced. The others are a program's fault (13,
# 31, 43, 45, 68, 109), or were dealt with: a row was remapped (63), single bits corrected (92), one program ended (94).
# https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
BROKEN_BY_XID = {
    46: "the GPU stopped processing",
    48: "an uncorrectable memory error",
    61: "its controller has halted",
    62: "its controller has halted",
    64: "its bad memory cannot be replaced",
    74: "an error of its NVLink",
    79: "it has fallen off the bus",
    95: "an uncontained memory error",
    119: "its system processor does not answer",
    120: "its system processor failed",
    136: "its NVLink could not be trained",
    140: "an unrecovered memory error",
    143: "it could not be initialized",
}

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)")
MAJOR = 195  # of /dev/nvidiaN and nvidiactl, by the kernel's list of devices
_SHARED_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU, as it was found."""

    #: Its PCI address, "0000:3b:00.0".
    bus: str = ""
    name: str = ""
    uuid: str = ""
    #: Number of /dev/nvidiaN; -1: not known.
    minor: int = -1
    memory_bytes: int = 0
    #: The kernel's number of its NUMA node; -1: not known.
    numa: int = -1
    #: GPUs with the same number are joined by NVLink; -1: not known.
    island: int = -1


class Gpus:
    """The GPUs and their state. For one thread at a time, but for `gpus`, `states` and `bad`, which change in one
    step."""

    def __init__(self, gpus: Sequence[Gpu], nvml: Nvml | None = None, kernel_log: KernelLog | None = None) -> None:
        self.gpus = tuple(gpus)
        self.states = tuple([GpuState() for _ in gpus])
        self._nvml = nvml
        self._kernel_log = kernel_log
        self._broken: dict[int, str] = {}
        self._log = structlog.get_logger()

    @property
    def bad(self) -> tuple[int, ...]:
        return tuple([number for number, state in enumerate(self.states) if state.problem])

    def look(self) -> None:
        """Look at each GPU: some milliseconds each, and as long as the driver takes where one hangs."""
        xids = [(number, xid) for number in range(len(self.gpus)) for xid in self._new_xids(number)]
        if self._kernel_log is not None:
            by_bus = {gpu.bus: number for number, gpu in enumerate(self.gpus) if gpu.bus}
            xids += [(by_bus[bus], xid) for bus, xid in self._kernel_log.new_xids() if bus in by_bus]
        for number, xid in xids:
            self._hear(number, xid)
        found = [self._nvml.look(n) if self._nvml else GpuState() for n in range(len(self.gpus))]
        for number, state in enumerate(found):
            if state.problem:
                self._break(number, state.problem)
        self.states = tuple(
            [
                GpuState(busy_milli=s.busy_milli, memory_bytes=s.memory_bytes, problem=self._broken.get(number, ""))
                for number, s in enumerate(found)
            ]
        )

    def visible_devices(self, gpus: tuple[int, ...]) -> str:
        """Return the value of CUDA_VISIBLE_DEVICES: by UUID, which no setting of CUDA_DEVICE_ORDER turns into another
        GPU; by number where the GPUs are pretended."""
        known = [self.gpus[number].uuid for number in gpus if number < len(self.gpus)]
        if len(known) == len(gpus) and all(known):
            return ",".join(known)
        return ",".join(str(number) for number in gpus)

    def device_paths(self, gpus: tuple[int, ...], dev: Path = Path("/dev")) -> tuple[str, ...]:
        """Return the device nodes that a task with these GPUs needs, as far as they are there."""
        minors = [self.gpus[number].minor for number in gpus if number < len(self.gpus)]
        names = [f"nvidia{minor}" for minor in minors if minor >= 0]
        return tuple([str(dev / name) for name in (*names, *(_SHARED_NODES if names else ())) if (dev / name).exists()])

    def device_majors(self, dev: Path = Path("/dev")) -> frozenset[int]:
        """Return the majors of all device nodes of the driver; empty where no GPU is here."""
        return frozenset([MAJOR, *[major for major, _ in _shared_numbers(dev)]] if self.gpus else [])

    def device_numbers(self, gpus: tuple[int, ...], dev: Path = Path("/dev")) -> tuple[tuple[int, int], ...]:
        """Return major and minor of each device node that a task with these GPUs needs."""
        own = [(MAJOR, self.gpus[number].minor) for number in gpus if number < len(self.gpus)]
        return (*own, *_shared_numbers(dev)) if own else ()

    def close(self) -> None:
        if self._nvml is not None:
            self._nvml.close()
        if self._kernel_log is not None:
            self._kernel_log.close()

    def _new_xids(self, number: int) -> list[int]:
        return self._nvml.new_xids(number) if self._nvml else []

    def _hear(self, number: int, xid: int) -> None:
        if xid in BROKEN_BY_XID:
            self._break(number, f"Xid {xid}: {BROKEN_BY_XID[xid]}")
        else:
            self._log.warning("a GPU reports an error that does not break it", gpu=number, xid=xid)

    def _break(self, number: int, problem: str) -> None:
        if number not in self._broken:
            self._broken[number] = problem
            self._log.error("a GPU is broken and takes no more work", gpu=number, problem=problem)


class KernelLog:
    """The Xid messages in the kernel's log since it was opened; for drivers that do not report them themselves."""

    def __init__(self, path: Path = Path("/dev/kmsg")) -> None:
        """Open the log. Raises OSError where this process may not read it."""
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self._fd, 0, os.SEEK_END)

    def new_xids(self) -> list[tuple[str, int]]:
        """Return PCI address and number of those since the last call."""
        found = []
        for _ in range(MAX_LOG_RECORDS_A_LOOK):
            try:
                record = os.read(self._fd, 8192)
            except OSError as error:
                if error.errno == errno.EPIPE:
                    continue  # the kernel has overwritten what came next: it goes on with the oldest there is
                break  # EAGAIN: that was all
            if not record:
                break
            found += [(_full_bus(bus), int(xid)) for bus, xid in _XID.findall(record.decode(errors="replace"))]
        return found

    def close(self) -> None:
        os.close(self._fd)


NO_GPUS = Gpus(())


def find_gpus(root: Path = Path("/"), nvml: Nvml | None = None) -> Gpus:
    """Find the GPUs by NVIDIA's library; else by what the driver's files say: then memory and links are not known."""
    nvml = nvml if nvml is not None else open_nvml()
    if nvml is not None:
        described = nvml.describe()
        islands = _islands(
            [gpu.bus for gpu in described], [gpu.peers for gpu in described], [g.switched for g in described]
        )
        gpus = [
            Gpu(
                bus=gpu.bus,
                name=gpu.name,
                uuid=gpu.uuid,
                minor=gpu.minor,
                memory_bytes=gpu.memory_bytes,
                numa=_numa_node(root, gpu.bus),
                island=island,
            )
            for gpu, island in zip(described, islands, strict=True)
        ]
    else:
        gpus = _by_files(root)
    needs_log = gpus and (nvml is None or not nvml.hears_xids)
    found = Gpus(gpus, nvml, _kernel_log() if needs_log else None)
    found.look()
    return found


def _islands(buses: Sequence[str], peers: Sequence[frozenset[str]], switched: Sequence[bool]) -> list[int]:
    """Return the connected components, numbered from 0 in order. All that reach a switch are one: a node has one
    fabric."""
    island = list(range(len(buses)))
    place = {bus: number for number, bus in enumerate(buses) if bus}
    first_switched = switched.index(True) if True in switched else -1
    joins = [(number, place[bus]) for number, ends in enumerate(peers) for bus in ends if bus in place]
    joins += [(number, first_switched) for number, is_switched in enumerate(switched) if is_switched]
    for one, other in joins:
        low, high = sorted((island[one], island[other]))
        island = [low if i == high else i for i in island]
    names = {label: name for name, label in enumerate(dict.fromkeys(island))}
    return [names[label] for label in island]


def _by_files(root: Path) -> list[Gpu]:
    """Find them in /proc/driver/nvidia, those whose device node is here; else by bare device nodes."""
    minors = {int(m[1]) for p in root.glob("dev/nvidia*") if (m := re.fullmatch(r"nvidia(\d+)", p.name))}
    told = []
    for path in sorted(root.glob("proc/driver/nvidia/gpus/*/information"), key=lambda p: _full_bus(p.parent.name)):
        said = dict(re.findall(r"^([^:\n]+):[ \t]*(.*?)[ \t]*$", path.read_text(encoding="utf-8"), re.MULTILINE))
        minor, bus = int(said.get("Device Minor", -1)), _full_bus(path.parent.name)
        if minor in minors:
            uuid = said.get("GPU UUID", "")
            told.append(
                Gpu(
                    bus=bus,
                    name=said.get("Model", ""),
                    uuid="" if "?" in uuid else uuid,  # not known before the GPU was used once
                    minor=minor,
                    numa=_numa_node(root, bus),
                )
            )
    return told if len(told) == len(minors) else [Gpu(minor=minor) for minor in sorted(minors)]


def _numa_node(root: Path, bus: str) -> int:
    """Return the NUMA node. The kernel says -1 where the firmware does not name one."""
    file = root / "sys/bus/pci/devices" / bus / "numa_node"
    return int(file.read_text(encoding="ascii")) if bus and file.exists() else -1


def _kernel_log() -> KernelLog | None:
    try:
        return KernelLog()
    except OSError as error:
        structlog.get_logger().warning("errors of GPUs cannot be seen: the kernel's log is closed", why=str(error))
        return None


def _shared_numbers(dev: Path) -> list[tuple[int, int]]:
    numbers = [os.stat(dev / name).st_rdev for name in _SHARED_NODES if (dev / name).exists()]
    return [(os.major(number), os.minor(number)) for number in numbers]


def _full_bus(written: str) -> str:
    """Return the kernel's form of a PCI address: the driver leaves out the function, "0000:3b:00", and writes
    capitals."""
    return written.lower() if "." in written else f"{written.lower()}.0"
