"""Translates a task's order into the values of its cgroup's files. Pure; the table is docs/operations/isolation.md.

Invariant: a value is given for controllers that are there, and for nothing else; what a value means never depends on
the other tasks of the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gosched.core.cpulist import format_cpulist, parse_cpulist
from gosched.core.resources import Resources
from gosched.core.spec.isolation import Isolation

PERIOD_US = 100_000
MIN_QUOTA_US = 1_000  # the kernel takes nothing below
MIN_WEIGHT, MAX_WEIGHT = 1, 10_000
MILLIS_PER_WEIGHT = 10  # one CPU is the kernel's default weight, 100
MAX_PAGE_BYTES = 64 * 1024  # the kernel rounds memory down to its own pages, which are no larger

_UNITS = (("Gi", "GB"), ("Mi", "MB"), ("Ki", "KB"))


def cgroup_values(
    resources: Resources,
    isolation: Isolation,
    *,
    cpus: str = "",
    shared_cpus: str = "",
    numa: Mapping[int, int] | None = None,
    pids_max: int,
    device: str = "",
    controllers: frozenset[str],
) -> dict[str, str]:
    """Return file -> value, in the order in which they are to be written.

    `cpus`: that the task alone may use; empty: none, then `shared_cpus` are those that it shares with others; empty:
    all. `numa`: number of each NUMA node -> mask of its CPUs. `device`: MAJ:MIN of the disk that I/O limits are for.
    """
    values = {
        "cpu": _cpu(resources.cpu_millis, is_hard=not isolation.cpu_soft and not (cpus and "cpuset" in controllers)),
        "cpuset": _cpuset(cpus, shared_cpus, numa or {}),
        "memory": _memory(resources.memory_bytes, isolation),
        "pids": {"pids.max": str(isolation.pids or pids_max)},
        "io": _io(isolation, device),
        "hugetlb": {f"hugetlb.{huge_page_name(size)}.max": str(amount) for size, amount in isolation.hugepages},
    }
    return {
        file: value
        for controller, files in values.items()
        if controller in controllers
        for file, value in files.items()
    }


def cpu_weight(cpu_millis: int) -> int:
    return min(max(cpu_millis // MILLIS_PER_WEIGHT, MIN_WEIGHT), MAX_WEIGHT)


def memory_low(limit: int, isolation: Isolation) -> int:
    """Return the bytes that are kept for a task with this memory limit (0: none)."""
    return min(isolation.memory_low_bytes, limit or isolation.memory_low_bytes)


def shared_cpus(all_cpus: str, owned: Iterable[str]) -> str:
    """Return the CPUs of a node that no task owns; empty where none is owned (nothing to keep clear of) or all are."""
    taken = 0
    for cpus in owned:
        taken |= parse_cpulist(cpus)
    return format_cpulist(parse_cpulist(all_cpus) & ~taken) if taken else ""


def huge_page_name(size: str) -> str:
    """Return the kernel's name of a page size: 2MB for 2Mi."""
    for unit, name in _UNITS:
        if size.endswith(unit):
            return size.removesuffix(unit) + name
    raise ValueError(f"{size!a} is not a size of huge pages such as 2Mi or 1Gi")


def agrees(file: str, wanted: str, got: str) -> bool:
    """Return whether what a file says means what was written to it; the kernel words some values in its own way."""
    if wanted.isdigit() and file.startswith("memory.") and file != "memory.oom.group":
        return got.strip().isdigit() and 0 <= int(wanted) - int(got) < MAX_PAGE_BYTES
    if file == "io.max":
        words = wanted.split()
        return any(line.split()[:1] == words[:1] and set(words) <= set(line.split()) for line in got.splitlines())
    if file == "io.weight":
        return wanted in got.splitlines()
    return got.strip() == wanted


def _cpu(cpu_millis: int, *, is_hard: bool) -> dict[str, str]:
    values = {"cpu.weight": str(cpu_weight(cpu_millis))}
    if is_hard and cpu_millis:
        values["cpu.max"] = f"{max(cpu_millis * PERIOD_US // 1000, MIN_QUOTA_US)} {PERIOD_US}"
    return values


def _cpuset(cpus: str, shared: str, numa: Mapping[int, int]) -> dict[str, str]:
    if not cpus:
        return {"cpuset.cpus": shared} if shared else {}
    mask = parse_cpulist(cpus)
    nodes = sum(1 << node for node, node_cpus in numa.items() if node_cpus & mask)
    return {"cpuset.cpus": format_cpulist(mask)} | ({"cpuset.mems": format_cpulist(nodes)} if nodes else {})


def _memory(limit: int, isolation: Isolation) -> dict[str, str]:
    values = {"memory.oom.group": "1", "memory.max": str(limit) if limit else "max"}
    if isolation.swap_bytes is not None:
        values["memory.swap.max"] = str(isolation.swap_bytes)
    elif limit:
        values["memory.swap.max"] = "0"
    if isolation.memory_low_bytes:
        values["memory.low"] = str(memory_low(limit, isolation))
    if isolation.memory_high_bytes:
        values["memory.high"] = str(isolation.memory_high_bytes)
    return values


def _io(isolation: Isolation, device: str) -> dict[str, str]:
    values = {"io.weight": f"default {isolation.io_weight}"} if isolation.io_weight else {}
    limits = {
        "rbps": isolation.io_read_bytes,
        "wbps": isolation.io_write_bytes,
        "riops": isolation.io_reads,
        "wiops": isolation.io_writes,
    }
    words = [f"{key}={limit}" for key, limit in limits.items() if limit]
    return values | ({"io.max": " ".join([device, *words])} if device and words else {})
