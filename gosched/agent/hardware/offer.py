"""What this node offers and how it is built: the settings, over what is found in /proc, /sys and the GPUs' driver.

Invariant: what cannot be known for sure is left out. With `hardware: static` nothing is looked for at all.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from gosched.agent.hardware.gpus import Gpu, Gpus
from gosched.config import AgentSettings
from gosched.config.node_labels import NODE_LABEL
from gosched.core.cpulist import format_cpulist, parse_cpulist
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.primitives import StringMap
from gosched.core.records.node import Hardware
from gosched.core.resources import MILLI, ZERO, Resources

ARCH = "gosched.io/arch"
OS = "gosched.io/os"
CPU_MODEL = "gosched.io/cpu.model"
DISK = "gosched.io/disk"
GPU_PRODUCT = "gosched.io/gpu.product"
GPU_MEMORY_GIB = "gosched.io/gpu.memory-gib"

_MAKERS = ("nvidia", "tesla", "geforce", "quadro")
_FAMILIES = ("rtx", "gtx", "titan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What the node offers."""

    capacity: Resources
    gpu_model: str
    #: Those of the settings and those that were found, sorted.
    labels: StringMap
    hardware: Hardware


def make_offer(settings: AgentSettings, data_dir: Path, gpus: Gpus, root: Path = Path("/")) -> Offer:
    """Return the offer. Raises ConfigError where the settings contradict themselves, or name the node by a label."""
    if NODE_LABEL in dict(settings.labels):
        raise settings.error(
            "labels", f"the agent itself gives the label {NODE_LABEL}, which is the id of its node: leave it out"
        )
    if settings.hardware_from == "static":
        capacity = settings.capacity(ZERO)
        hardware = settings.hardware(Hardware(), capacity)
        return Offer(capacity=capacity, gpu_model=settings.gpu_model, labels=settings.labels, hardware=hardware)
    capacity = settings.capacity(find_resources(data_dir, len(gpus.gpus)))
    offered = capacity.gpu_millis // MILLI
    real = gpus.gpus[:offered] if offered <= len(gpus.gpus) else ()  # more than there are: they are pretended
    hardware = settings.hardware(find_hardware(root, real), capacity)
    return Offer(
        capacity=capacity,
        gpu_model=settings.gpu_model or find_gpu_model(real),
        labels=tuple(sorted({**find_labels(root, data_dir, real), **dict(settings.labels)}.items())),
        hardware=replace(hardware, bad_gpus=tuple([number for number in gpus.bad if number < len(real)])),
    )


def find_resources(data_dir: Path, gpus: int) -> Resources:
    """Return the CPUs that this process may use, memory, and the disk where tasks write. The same at every start."""
    return Resources(
        cpu_millis=len(psutil.Process().cpu_affinity()) * 1000,
        memory_bytes=psutil.virtual_memory().total,
        storage_bytes=shutil.disk_usage(data_dir).total,
        gpu_millis=gpus * MILLI,
    )


def find_hardware(root: Path, gpus: Sequence[Gpu]) -> Hardware:
    """Return the NUMA nodes with the CPUs that this process may use; of each GPU its NUMA node and its island of
    NVLinks; the memory of the smallest one."""
    usable = sum(1 << cpu for cpu in psutil.Process().cpu_affinity())
    masks = {number: mask & usable for number, mask in numa_nodes(root).items() if mask & usable}
    place = {number: index for index, number in enumerate(masks)}
    return Hardware(
        numa_cpus=tuple([format_cpulist(mask) for mask in masks.values()]),
        gpu_numa=tuple([place[gpu.numa] for gpu in gpus]) if all(gpu.numa in place for gpu in gpus) else (),
        gpu_links=tuple([gpu.island for gpu in gpus]) if all(gpu.island >= 0 for gpu in gpus) else (),
        gpu_memory_bytes=min([gpu.memory_bytes for gpu in gpus if gpu.memory_bytes], default=0),
    )


def find_gpu_model(gpus: Sequence[Gpu]) -> str:
    """Return the model as job files write it: "NVIDIA H100 80GB HBM3" is an h100. Empty where they are not all of one
    model."""
    models = {_short_model(gpu.name) for gpu in gpus if gpu.name}
    return models.pop() if len(models) == 1 else ""


def find_labels(root: Path, data_dir: Path, gpus: Sequence[Gpu]) -> dict[str, str]:
    """Return what jobs may ask for in a node's hardware, beyond amounts."""
    products = {gpu.name for gpu in gpus}
    memories = {gpu.memory_bytes for gpu in gpus}
    found = {
        ARCH: platform.machine(),
        OS: _operating_system(root),
        CPU_MODEL: _first(r"^model name\s*:\s*(.+)$", root / "proc/cpuinfo"),
        DISK: _disk_kind(root, data_dir),
        GPU_PRODUCT: products.pop() if len(products) == 1 else "",
        GPU_MEMORY_GIB: str(round(memories.pop() / (1 << 30))) if len(memories) == 1 and 0 not in memories else "",
    }
    return {key: value[:MAX_NAME_LENGTH] for key, value in found.items() if value and value.isprintable()}


def numa_nodes(root: Path) -> dict[int, int]:
    """Return number -> mask of its CPUs, ascending; numbers may have gaps."""
    lists = {
        int(path.parent.name.removeprefix("node")): path.read_text(encoding="ascii").strip()
        for path in root.glob("sys/devices/system/node/node[0-9]*/cpulist")
    }
    return {number: parse_cpulist(lists[number]) for number in sorted(lists)}


def _short_model(name: str) -> str:
    words = [word for word in name.lower().split() if word not in _MAKERS] or [name.lower()]
    first = words[0].partition("-")[0]
    return re.sub(r"[^a-z0-9._]", "", first + words[1] if first in _FAMILIES and len(words) > 1 else first)


def _operating_system(root: Path) -> str:
    """Return "debian-12", as /etc/os-release says."""
    release = root / "etc/os-release"
    parts = [_first(rf'^{key}="?([^"\n]*)"?$', release) for key in ("ID", "VERSION_ID")]
    return "-".join(part for part in parts if part)


def _disk_kind(root: Path, data_dir: Path) -> str:
    """Return ssd or hdd, of the device that holds the directory; empty where the kernel shows none (overlay, btrfs,
    NFS), and for a virtual one, which is called rotating whatever is below it."""
    device = data_dir.stat().st_dev
    block = (root / f"sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    for whole in (block, block.parent):  # a partition has no queue of its own
        if (whole / "queue/rotational").exists():
            rotates = (whole / "queue/rotational").read_text(encoding="ascii").strip() == "1"
            return "ssd" if not rotates else "" if whole.name.startswith(("vd", "xvd")) else "hdd"
    return ""


def _first(pattern: str, file: Path) -> str:
    if not file.exists():
        return ""
    found = re.search(pattern, file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    return found.group(1).strip() if found else ""
