"""Checks how a task group wants its tasks kept to themselves. Each check returns one line for people, or an empty
string."""

from __future__ import annotations

import re

from gosched.core.limits import MAX_AMOUNT, MAX_DETAIL_LENGTH, MAX_RULES
from gosched.core.spec.isolation import PLAIN, Isolation, Rlimit, Volume
from gosched.state_machine.names import id_problem, order_problem

_MAX_UMASK = 0o777
_MAX_IO_WEIGHT = 10_000
_MAX_PIDS = 1 << 22  # the kernel's own
_MAX_RLIMIT = (1 << 63) - 1
_UNLIMITED = -1
_RLIMITS = (
    *("as", "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue"),
    *("nice", "nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack"),
)
_PAGE_SIZE = re.compile(r"[1-9][0-9]{0,3}(Ki|Mi|Gi)")


def isolation_problem(what: str, isolation: Isolation) -> str:
    if isolation == PLAIN:
        return ""
    return (
        id_problem(f"{what}: user", isolation.user)
        or id_problem(f"{what}: registry", isolation.registry)
        or _amounts_problem(what, isolation)
        or _rlimits_problem(what, isolation.rlimits)
        or _volumes_problem(what, isolation.volumes)
        or _hugepages_problem(what, isolation.hugepages)
    )


def isolation_bytes(isolation: Isolation) -> int:
    """The size of its texts."""
    texts = [isolation.user, isolation.registry, *[name for name, _ in isolation.hugepages]]
    texts += [text for volume in isolation.volumes for text in (volume.host, volume.to)]
    return sum([len(text.encode()) for text in texts])


def _amounts_problem(what: str, isolation: Isolation) -> str:
    if isolation.umask is not None and not 0 <= isolation.umask <= _MAX_UMASK:
        return f"{what}: umask {isolation.umask} is not between 0 and {_MAX_UMASK} (0777)"
    bounds = (
        ("memory.low", isolation.memory_low_bytes, MAX_AMOUNT),
        ("memory.high", isolation.memory_high_bytes, MAX_AMOUNT),
        ("swap", isolation.swap_bytes or 0, MAX_AMOUNT),
        ("pids", isolation.pids, _MAX_PIDS),
        ("io.weight", isolation.io_weight, _MAX_IO_WEIGHT),
        ("io.read", isolation.io_read_bytes, MAX_AMOUNT),
        ("io.write", isolation.io_write_bytes, MAX_AMOUNT),
        ("io.reads", isolation.io_reads, MAX_AMOUNT),
        ("io.writes", isolation.io_writes, MAX_AMOUNT),
    )
    for name, amount, most in bounds:
        if not 0 <= amount <= most:
            return f"{what}: {name} {amount} is not between 0 and {most}"
    return ""


def _rlimits_problem(what: str, rlimits: tuple[Rlimit, ...]) -> str:
    if len(dict.fromkeys(limit.name for limit in rlimits)) != len(rlimits):
        return f"{what}: rlimits name one twice"
    for limit in rlimits:
        if limit.name not in _RLIMITS:
            return f"{what}: there is no rlimit {limit.name[:64]!a}; there are {', '.join(_RLIMITS)}"
        if not all(_UNLIMITED <= value <= _MAX_RLIMIT for value in (limit.soft, limit.hard)):
            return f"{what}: rlimit {limit.name} must be 0 or more, or -1 for unlimited"
        if limit.hard != _UNLIMITED and not 0 <= limit.soft <= limit.hard:
            return f"{what}: rlimit {limit.name}: the soft limit {limit.soft} is beyond the hard one, {limit.hard}"
    return ""


def _volumes_problem(what: str, volumes: tuple[Volume, ...]) -> str:
    if len(volumes) > MAX_RULES:
        return f"{what}: {len(volumes)} volumes; at most {MAX_RULES} are allowed"
    for volume in volumes:
        for side, path in (("host", volume.host), ("to", volume.to)):
            if not path.startswith("/") or ".." in path.split("/"):
                return f"{what}: volume {side} {path[:64]!a} must be an absolute path without '..'"
            if len(path) > MAX_DETAIL_LENGTH or not path.isprintable():
                return f"{what}: volume {side} {path[:64]!a} is too long, or holds characters that cannot be printed"
    if len(dict.fromkeys(volume.to for volume in volumes)) != len(volumes):
        return f"{what}: two volumes go to one place"
    return ""


def _hugepages_problem(what: str, hugepages: tuple[tuple[str, int], ...]) -> str:
    if len(hugepages) > MAX_RULES:
        return f"{what}: {len(hugepages)} sizes of huge pages; at most {MAX_RULES} are allowed"
    for size, amount in hugepages:
        if not _PAGE_SIZE.fullmatch(size):
            return f"{what}: huge pages of {size[:64]!a}: give a size such as 2Mi or 1Gi"
        if not 0 < amount <= MAX_AMOUNT:
            return f"{what}: {amount} bytes of huge pages of {size} are not between 1 and {MAX_AMOUNT}"
    return order_problem(f"{what}: sizes of huge pages", [size for size, _ in hugepages])
