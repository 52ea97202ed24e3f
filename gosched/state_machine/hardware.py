"""Checks how a node says it is built. Each check returns one line for people, or an empty string."""

from __future__ import annotations

from itertools import pairwise

from gosched.core.cpulist import format_cpulist, parse_cpulist
from gosched.core.limits import MAX_AMOUNT, MAX_GPUS
from gosched.core.records.node import Hardware
from gosched.core.resources import MILLI, Resources

_MAX_NUMA_NODES = 1024


def hardware_problem(hardware: Hardware, capacity: Resources) -> str:
    gpus = capacity.gpu_millis // MILLI
    for what, entries in (("gpu_numa", hardware.gpu_numa), ("gpu_links", hardware.gpu_links)):
        if entries and len(entries) != gpus:
            return f"{what} has {len(entries)} entries for {gpus} GPUs: give one for each, or none"
    if not all(0 <= index < len(hardware.numa_cpus) for index in hardware.gpu_numa):
        return f"gpu_numa names a NUMA node that numa_cpus lacks; it has {len(hardware.numa_cpus)}"
    if not all(0 <= island < MAX_GPUS for island in hardware.gpu_links):
        return f"gpu_links numbers its islands from 0, and below {MAX_GPUS}"
    if not all(0 <= gpu < gpus for gpu in hardware.bad_gpus) or not _ascends(hardware.bad_gpus):
        return f"bad_gpus must be in order, each once, and below {gpus}, the number of GPUs"
    if not 0 <= hardware.gpu_memory_bytes <= MAX_AMOUNT:
        return f"gpu_memory_bytes {hardware.gpu_memory_bytes} is not between 0 and {MAX_AMOUNT}"
    return _cpus_problem(hardware.numa_cpus, capacity.cpu_millis // MILLI) if hardware.numa_cpus else ""


def cpu_mask(numa_cpus: tuple[str, ...]) -> int:
    """Return the mask of all CPUs in valid lists."""
    mask = 0
    for text in numa_cpus:
        mask |= parse_cpulist(text)
    return mask


def cpulist_problem(text: str) -> str:
    try:
        shortest = format_cpulist(parse_cpulist(text))
    except ValueError as error:
        return str(error)
    return "" if text == shortest else f"{text[:64]!a} is not the shortest list of its CPUs"


def _ascends(numbers: tuple[int, ...]) -> bool:
    return all(before < after for before, after in pairwise(numbers))


def _cpus_problem(numa_cpus: tuple[str, ...], wanted: int) -> str:
    if len(numa_cpus) > _MAX_NUMA_NODES:
        return f"numa_cpus has {len(numa_cpus)} NUMA nodes; at most {_MAX_NUMA_NODES} are allowed"
    seen = 0
    for text in numa_cpus:
        problem = cpulist_problem(text)
        if problem:
            return f"numa_cpus: {problem}"
        mask = parse_cpulist(text)
        if mask & seen:
            return f"numa_cpus: CPUs {format_cpulist(mask & seen)} are in two NUMA nodes"
        seen |= mask
    if seen.bit_count() < wanted:
        return f"numa_cpus has {seen.bit_count()} CPUs, the capacity {wanted}: name them all, or leave numa_cpus empty"
    return ""
