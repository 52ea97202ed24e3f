"""Checks how a task group wants its tasks isolated: users, limits, volumes, huge pages."""

from __future__ import annotations

import re

from gosched.core.amounts import bytes_text
from gosched.core.limits import MAX_AMOUNT, MAX_DETAIL_LENGTH, MAX_RULES
from gosched.core.rules.finding import Finding
from gosched.core.rules.secrets import check_registry
from gosched.core.rules.values import check_id, check_order, check_range
from gosched.core.spec.isolation import PLAIN, Isolation, Rlimit, Volume

UNLIMITED = -1
RLIMITS = (
    *("as", "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue"),
    *("nice", "nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack"),
)
MAX_PIDS = 1 << 22  # the kernel's own

_MAX_UMASK = 0o777
_MAX_IO_WEIGHT = 10_000
_MAX_RLIMIT = (1 << 63) - 1
_PAGE_SIZE = re.compile(r"([1-9][0-9]{0,3})(Ki|Mi|Gi)")
_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def check_isolation(isolation: Isolation, *, is_strict: bool) -> Finding | None:
    """Return the first thing that is wrong, or None. The finding's path is that of a task group's key."""
    if isolation == PLAIN:
        return None
    return (
        check_id("user", isolation.user, "user")
        or check_registry(isolation.registry, is_strict=is_strict)
        or _check_amounts(isolation)
        or _check_rlimits(isolation.rlimits)
        or _check_volumes(isolation.volumes, is_strict=is_strict)
        or _check_hugepages(isolation.hugepages, is_strict=is_strict)
    )


def isolation_bytes(isolation: Isolation) -> int:
    """Return the size of its texts."""
    texts = [isolation.user, isolation.registry, *[name for name, _ in isolation.hugepages]]
    texts += [text for volume in isolation.volumes for text in (volume.host, volume.to)]
    return sum([len(text.encode()) for text in texts])


def check_rlimit(limit: Rlimit) -> Finding | None:
    path = ("rlimits", limit.name)
    if limit.name not in RLIMITS:
        problem = f"there is no rlimit {limit.name[:64]!a}; there are {', '.join(RLIMITS)}"
        return Finding(path=path, problem=problem)
    if not all(UNLIMITED <= value <= _MAX_RLIMIT for value in (limit.soft, limit.hard)):
        problem = "must be 0 or more, or -1 for unlimited"
        return Finding(path=path, subject=f"rlimit {limit.name}", problem=problem)
    if limit.hard != UNLIMITED and not 0 <= limit.soft <= limit.hard:
        problem = f"the soft limit {limit.soft} is beyond the hard one, {limit.hard}"
        return Finding(path=path, subject=f"rlimit {limit.name}:", problem=problem)
    return None


def _check_amounts(isolation: Isolation) -> Finding | None:
    umask = isolation.umask
    if umask is not None and not 0 <= umask <= _MAX_UMASK:
        problem = f"{umask} is not between 0 and {_MAX_UMASK} (0777)"
        return Finding(path=("umask",), subject="umask", problem=problem)
    bounds = (
        ("memory.low", isolation.memory_low_bytes, MAX_AMOUNT, "memory_low"),
        ("memory.high", isolation.memory_high_bytes, MAX_AMOUNT, "memory_high"),
        ("swap", isolation.swap_bytes or 0, MAX_AMOUNT, "swap"),
        ("pids", isolation.pids, MAX_PIDS, "pids"),
        ("io.weight", isolation.io_weight, _MAX_IO_WEIGHT, "io.weight"),
        ("io.read", isolation.io_read_bytes, MAX_AMOUNT, "io.read"),
        ("io.write", isolation.io_write_bytes, MAX_AMOUNT, "io.write"),
        ("io.reads", isolation.io_reads, MAX_AMOUNT, "io.reads"),
        ("io.writes", isolation.io_writes, MAX_AMOUNT, "io.writes"),
    )
    for subject, amount, most, key in bounds:
        if not 0 <= amount <= most:
            return check_range(subject, amount, 0, most, "limits", *key.split("."))
    return None


def _check_rlimits(rlimits: tuple[Rlimit, ...]) -> Finding | None:
    if len(dict.fromkeys(limit.name for limit in rlimits)) != len(rlimits):
        return Finding(path=("rlimits",), subject="rlimits", problem="name one twice")
    return next((found for limit in rlimits if (found := check_rlimit(limit))), None)


def _check_volumes(volumes: tuple[Volume, ...], *, is_strict: bool) -> Finding | None:
    if len(volumes) > MAX_RULES:
        return Finding(path=("volumes",), problem=f"{len(volumes)} volumes; at most {MAX_RULES} are allowed")
    for place, volume in enumerate(volumes):
        found = _check_path("host", volume.host, place) or _check_path("to", volume.to, place)
        if found:
            return found
        if is_strict and not volume.to.strip("/"):
            problem = "a volume cannot stand in place of the whole root filesystem; name a directory"
            return Finding(path=("volumes", place, "to"), problem=problem)
    places = {volume.to: place for place, volume in enumerate(volumes)}
    if len(places) != len(volumes):
        second = next(place for place, volume in enumerate(volumes) if volume.to in [v.to for v in volumes[:place]])
        return Finding(path=("volumes", second, "to"), problem="two volumes go to one place")
    return None


def _check_path(side: str, path: str, place: int) -> Finding | None:
    where, subject = ("volumes", place, side), f"volume {side}"
    if not path.startswith("/") or ".." in path.split("/"):
        return Finding(path=where, subject=subject, problem=f"{path[:64]!a} must be an absolute path without '..'")
    if len(path) > MAX_DETAIL_LENGTH or not path.isprintable():
        problem = f"{path[:64]!a} is too long, or holds characters that cannot be printed"
        return Finding(path=where, subject=subject, problem=problem)
    return None


def _check_hugepages(hugepages: tuple[tuple[str, int], ...], *, is_strict: bool) -> Finding | None:
    path = ("limits", "hugepages")
    if len(hugepages) > MAX_RULES:
        problem = f"{len(hugepages)} sizes of huge pages; at most {MAX_RULES} are allowed"
        return Finding(path=path, problem=problem)
    for size, amount in hugepages:
        pages = _PAGE_SIZE.fullmatch(size)
        if not pages:
            problem, advice = f"huge pages of {size[:64]!a}", "give a size such as 2Mi or 1Gi"
            return Finding(path=(*path, size), problem=problem, advice=advice)
        if not 0 < amount <= MAX_AMOUNT:
            problem = f"{amount} bytes of huge pages of {size} are not between 1 and {MAX_AMOUNT}"
            in_units = f"{bytes_text(amount)} of huge pages are not between 1B and {bytes_text(MAX_AMOUNT)}"
            return Finding(path=(*path, size), problem=problem, in_units=in_units)
        if is_strict and amount % (int(pages[1]) * _UNITS[pages[2]]):
            return Finding(path=(*path, size), problem=f"expected whole pages of {size}, got {bytes_text(amount)}")
    return check_order("sizes of huge pages", [size for size, _ in hugepages], *path)
