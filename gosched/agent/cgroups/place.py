"""Where this host has its cgroups, and where in them the agent may make its own.

Invariant: the agent takes only what it was given: by a setting, or as a cgroup that systemd delegated; root's own host
is its own.
"""

from __future__ import annotations

import os
from pathlib import Path

from gosched.agent.cgroups.files import CgroupError

_V1_NAMES = {"blkio": "io"}  # what cgroup v2 calls it


def find_base(setting: str) -> Path:
    """Return the cgroup in which the agent makes its own. Raises CgroupError with what to do about it."""
    top = _mount_point()
    if setting:
        base = Path(setting)
        if not base.is_absolute() or not base.is_relative_to(top):
            raise CgroupError(f"cgroup_root {setting} is not below {top}, where cgroup v2 is mounted")
        _check_writable(base if base.exists() else base.parent)
        return base
    own = top / _own_path().lstrip("/")
    if own.name == "agent" and _is_delegated(own.parent):
        own = own.parent
    if _is_delegated(own):
        return own
    _check_writable(top)
    return top


def is_top(path: Path) -> bool:
    """Return whether it is the root of the whole hierarchy, which may hold processes and others below it."""
    return (path / "cgroup.controllers").exists() and not (path / "cgroup.type").exists()


def on_version_1() -> frozenset[str]:
    """Return the controllers that are in use by cgroup v1, by the names that v2 has for them."""
    names: set[str] = set()
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        number, controllers, _ = line.split(":", 2)
        if number != "0":
            names.update(_V1_NAMES.get(name, name) for name in controllers.split(","))
    return frozenset(names)


def has_huge_pages() -> bool:
    return Path("/sys/kernel/mm/hugepages").exists()


def block_device(path: Path) -> str:
    """Return MAJ:MIN of the whole disk that a path is on, which is what I/O limits are for; empty if it is on none."""
    number = os.stat(path).st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    link = Path("/sys/dev/block") / device
    if not link.exists():
        return ""
    disk = link.resolve()
    return (disk.parent / "dev").read_text(encoding="ascii").strip() if (disk / "partition").exists() else device


def _mount_point() -> Path:
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        if after.split(" ", 1)[0] == "cgroup2":
            return Path(before.split(" ")[4])
    raise CgroupError("cgroup v2 is not mounted")


def _own_path() -> str:
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        if line.startswith("0::"):
            return line.removeprefix("0::")
    raise CgroupError("this process is in no cgroup v2")


def _is_delegated(path: Path) -> bool:
    """Return whether it was delegated: systemd marks it so. The top that a container sees is its own if it may write
    there."""
    if not _may_write(path):
        return False
    if _own_path() == "/":
        return not is_top(path)
    return any(_attribute(path, name) == b"1" for name in ("user.delegate", "trusted.delegate"))


def _attribute(path: Path, name: str) -> bytes:
    try:
        return os.getxattr(path, name)
    except OSError:  # not set, or for root only
        return b""


def _check_writable(path: Path) -> None:
    if not _may_write(path):
        raise CgroupError(
            f"no permission to make cgroups in {path} (run the agent as root, or by systemd with Delegate=yes)"
        )


def _may_write(path: Path) -> bool:
    return all(os.access(file, os.W_OK) for file in (path, path / "cgroup.procs", path / "cgroup.subtree_control"))
