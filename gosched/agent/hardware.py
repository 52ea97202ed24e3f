"""What this machine offers, where the settings do not say: found in /proc and /dev, without running anything."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import psutil

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


def _gpu_count() -> int:
    return sum(re.fullmatch(r"nvidia\d+", path.name) is not None for path in Path("/dev").iterdir())
