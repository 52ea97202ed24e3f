"""Checks that a task group asks for nothing that its runtime has no use for: whoever asks for it relies on it.

From `FeatureLevel.BOUNDED` on. Below it such a job is accepted, and what its runtime has no use for is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

from gosched.core.rules.finding import Finding
from gosched.core.spec.isolation import Network, Pull
from gosched.core.spec.task_group import Runtime, TaskGroup

# Which keys mean something to which runtime; the others mean something to all of them.
_RUNTIMES_OF: Mapping[str, tuple[str, ...]] = {
    "image": ("rootfs", "docker"),
    "volumes": ("rootfs", "docker"),
    "network": ("rootfs", "docker"),
    "read_only": ("rootfs", "docker"),
    "pull": ("docker",),
    "registry": ("docker",),
    "umask": ("process", "rootfs", "spark"),
}
_INSTEAD: Mapping[tuple[str, str], str] = {
    ("process", "image"): "its command runs on the node's own files; leave image out, or use rootfs or docker",
    ("process", "volumes"): "it sees the node's files anyway; leave volumes out, or use rootfs or docker",
    ("rootfs", "pull"): "its image is on the node already; leave pull out",
    ("docker", "umask"): "Docker has none; set it in the command",
}


def check_use(group: TaskGroup) -> Finding | None:
    """Return the first thing that the group asks for in vain, or None."""
    runtime = group.runtime.name.lower()
    for key, runtimes in _RUNTIMES_OF.items():
        if runtime not in runtimes and _asks_for(group, key):
            instead = _INSTEAD.get((runtime, key), f"leave {key} out, or use {' or '.join(runtimes)}")
            problem = f"does not apply to the runtime {runtime}"
            return Finding(path=(key,), subject=key, problem=problem, advice=instead)
    return _check_image(group) or _check_memory(group)


def _asks_for(group: TaskGroup, key: str) -> bool:
    isolation = group.isolation
    match key:
        case "image":
            return bool(group.image)
        case "network":
            return isolation.network is not Network.UNSPECIFIED
        case "pull":
            return isolation.pull is not Pull.UNSPECIFIED
        case "umask":
            return isolation.umask is not None
        case _:
            return bool(getattr(isolation, key))


def _check_image(group: TaskGroup) -> Finding | None:
    image, is_path = group.image, group.image.startswith("/")
    if group.runtime is Runtime.ROOTFS and not is_path:
        problem = f"rootfs takes an absolute path on the node, got {image[:64]!r}"
        return Finding(path=("image",), subject="image:", problem=problem)
    if group.runtime is Runtime.DOCKER and is_path:
        problem = f"docker takes a name such as debian:12; for {image[:64]!r} use rootfs"
        return Finding(path=("image",), subject="image:", problem=problem)
    return None


def _check_memory(group: TaskGroup) -> Finding | None:
    memory, limits = group.resources.memory_bytes, group.isolation
    for key, amount in (("memory_low", limits.memory_low_bytes), ("memory_high", limits.memory_high_bytes)):
        if memory and amount > memory:
            problem, advice = "is above resources.memory, where the task is killed", "make it lower"
            return Finding(path=("limits", key), subject=f"limits.{key}", problem=problem, advice=advice)
    return None
