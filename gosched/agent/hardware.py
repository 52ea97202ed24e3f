"""What this machine offers and how it is built, where the settings do not say: found in /proc, /sys and /dev, without
running anything. What cannot be known for sure is left out."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import psutil

from gosched.core.cluster import Hardware
from gosched.core.cpulist import format_cpulist, parse_cpulist
from gosched.core.resources import GPU, Resources


def find_resources(data_dir: Path) -> Resources:
    """CPUs that this process may use, memory, the disk where tasks write, NVIDIA GPUs. The same at every start."""
    return Resources(
        cpu_millis=len(psutil.Process().cpu_affinity()) * 1000,
        memory_bytes=psutil.virtual_memory().total,
        storage_bytes=shutil.disk_usage(data_dir).total,
        gpu_millis=_gpu_count() * GPU,
    )


def find_gpu_model() -> str:
    """Of the first GPU, as its driver says it; empty without one."""
    for information in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        found = re.search(r"^Model:\s*(.+)$", information.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            return found.group(1).strip()
    return ""


def find_hardware(root: Path = Path("/")) -> Hardware:
    """NUMA nodes with the CPUs that this process may use, and the NUMA node of each GPU, in the order of their PCI
    addresses. Links between GPUs and their memory are only in the driver's own library, and not found here."""
    usable = sum(1 << cpu for cpu in psutil.Process().cpu_affinity())
    masks = {number: mask & usable for number, mask in _numa_nodes(root).items() if mask & usable}
    place = {number: index for index, number in enumerate(masks)}
    gpu_nodes = _gpu_numa_nodes(root)
    return Hardware(
        numa_cpus=tuple([format_cpulist(mask) for mask in masks.values()]),
        gpu_numa=tuple([place[node] for node in gpu_nodes]) if all(node in place for node in gpu_nodes) else (),
    )


def _numa_nodes(root: Path) -> dict[int, int]:
    """Number -> mask of its CPUs, ascending; numbers may have gaps."""
    lists = {
        int(path.parent.name.removeprefix("node")): path.read_text(encoding="ascii").strip()
        for path in root.glob("sys/devices/system/node/node[0-9]*/cpulist")
    }
    return {number: parse_cpulist(lists[number]) for number in sorted(lists)}


def _gpu_numa_nodes(root: Path) -> list[int]:
    """The kernel says -1 where the firmware does not tell."""
    buses = sorted(path.name for path in root.glob("proc/driver/nvidia/gpus/*"))
    files = [root / "sys/bus/pci/devices" / bus.lower() / "numa_node" for bus in buses]
    return [int(file.read_text(encoding="ascii")) if file.exists() else -1 for file in files]


def _gpu_count() -> int:
    return sum(re.fullmatch(r"nvidia\d+", path.name) is not None for path in Path("/dev").iterdir())
