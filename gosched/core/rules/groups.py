"""Checks a task group: what its tasks run, and what they ask for."""

from __future__ import annotations

from gosched.core.amounts import bytes_text
from gosched.core.limits import MAX_AMOUNT
from gosched.core.primitives import StringMap
from gosched.core.rules.environment import check_env
from gosched.core.rules.finding import Finding
from gosched.core.rules.isolation import check_isolation, isolation_bytes
from gosched.core.rules.placement import check_placement, placement_bytes
from gosched.core.rules.runtimes import check_use
from gosched.core.rules.secrets import check_uses
from gosched.core.rules.values import check_id, check_map, check_request
from gosched.core.spec.task_group import MPI_IMPLEMENTATIONS, Framework, Runtime, TaskGroup

MAX_RANKS_PER_TASK = 4096


def check_group(group: TaskGroup, *, is_strict: bool) -> Finding | None:
    """Return the first thing that is wrong with a task group, or None. The finding's path begins with `tasks`."""
    found = _check(group, is_strict=is_strict)
    return found and found.within(f"group {group.name}:", "tasks", group.name)


def group_bytes(group: TaskGroup) -> int:
    """Return the size of the group's texts."""
    size = sum([len(part.encode()) for part in group.command]) + len(group.working_dir.encode())
    size += map_bytes(group.env) + map_bytes(group.node_selector) + placement_bytes(group)
    size += sum([len(text.encode()) for use in group.secrets for text in (use.name, use.file, use.env)])
    return size + isolation_bytes(group.isolation)


def map_bytes(pairs: StringMap) -> int:
    return sum([len(key.encode()) + len(value.encode()) for key, value in pairs])


def _check(group: TaskGroup, *, is_strict: bool) -> Finding | None:
    return (
        _check_counts(group)
        or _check_run(group)
        or check_request("resources", group.resources, "resources")
        or _check_gpu_memory(group)
        or check_id("GPU model", group.gpu_model, "resources", "gpu", "model")
        or check_id("image", group.image, "image")
        or check_map("node selector", group.node_selector, "placement", "node_selector")
        or check_placement(group, is_strict=is_strict)
        or check_isolation(group.isolation, is_strict=is_strict)
        or check_env(group.env, is_strict=is_strict)
        or _check_working_dir(group)
        or _check_mpi(group, is_strict=is_strict)
        or check_uses(group, is_strict=is_strict)
        or (check_use(group) if is_strict else None)
    )


def _check_counts(group: TaskGroup) -> Finding | None:
    if group.count <= 0:
        return Finding(path=("count",), subject="count", problem=f"is {group.count}; it must be at least 1")
    if not 0 <= group.min_count <= group.count:
        problem = f"is {group.min_count}; it must be between 0 and the count, {group.count}"
        return Finding(path=("count",), subject="min", problem=problem)
    return None


def _check_run(group: TaskGroup) -> Finding | None:
    if group.runtime is Runtime.UNSPECIFIED:
        return Finding(path=("runtime",), subject="runtime", problem="must be process, rootfs, docker or spark")
    if group.runtime in (Runtime.ROOTFS, Runtime.DOCKER) and not group.image:
        problem = f"{group.runtime.name.lower()} needs an image"
        return Finding(path=("runtime",), subject="runtime", problem=problem, advice="say which")
    if group.framework is Framework.UNSPECIFIED:
        return Finding(path=("distributed", "framework"), subject="framework", problem="must be none, torch or mpi")
    if not group.command or not group.command[0]:
        return Finding(path=("run",), subject="the command", problem="is empty", advice="say what to run")
    if any("\0" in part for part in group.command):
        return Finding(path=("run",), subject="the command", problem="holds a NUL character")
    return None


def _check_gpu_memory(group: TaskGroup) -> Finding | None:
    path = ("resources", "gpu", "memory")
    if not 0 <= group.gpu_memory_bytes <= MAX_AMOUNT:
        problem = f"{group.gpu_memory_bytes} is not between 0 and {MAX_AMOUNT}"
        in_units = f"{bytes_text(group.gpu_memory_bytes)} is not between 0 and {bytes_text(MAX_AMOUNT)}"
        return Finding(path=path, subject="gpu memory", problem=problem, in_units=in_units)
    if group.gpu_memory_bytes and not group.resources.gpu_millis:
        return Finding(path=path, subject="gpu memory", problem="without a GPU", advice="ask for GPUs too")
    return None


def _check_mpi(group: TaskGroup, *, is_strict: bool) -> Finding | None:
    if not group.mpi_ranks and not group.mpi_implementation:
        return None
    path = ("distributed",)
    if not is_strict:
        problem, advice = "this feature level starts no MPI ranks", "finalize the upgrade, or use launcher: none"
        return Finding(path=path, problem=problem, advice=advice)
    if group.framework is not Framework.MPI or group.runtime is not Runtime.PROCESS:
        problem = "ranks are started for framework mpi alone, in runtime process"
        return Finding(path=path, subject="distributed", problem=problem)
    if not 0 < group.mpi_ranks <= MAX_RANKS_PER_TASK:
        problem = f"is {group.mpi_ranks}; it must be between 1 and {MAX_RANKS_PER_TASK}"
        return Finding(path=(*path, "ranks_per_task"), subject="ranks_per_task", problem=problem)
    if group.mpi_implementation not in ("", *MPI_IMPLEMENTATIONS):
        problem = f"must be {' or '.join(MPI_IMPLEMENTATIONS)}"
        return Finding(path=(*path, "implementation"), subject="implementation", problem=problem)
    return None


def _check_working_dir(group: TaskGroup) -> Finding | None:
    if "\0" in group.working_dir:
        return Finding(path=("working_dir",), subject="the working directory", problem="holds a NUL character")
    return None
