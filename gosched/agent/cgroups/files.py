"""One cgroup and its files: what it counted, its processes, and its end. For the agent and for supervisors, so standard
library only.

Invariant: a cgroup that another program removed counts as an empty one that used nothing; every wait has a limit.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable, Iterator

Path = str | os.PathLike[str]

PRESSURES = ("cpu", "memory", "io")

_GONE = (errno.ENOENT, errno.ENODEV)  # ENODEV: removed while the file was open
_UNKNOWN = (*_GONE, errno.EOPNOTSUPP)
_KILL_LIMIT_S = 10.0
READ_BYTES = 1 << 16


class CgroupError(Exception):
    """One line: which file, what was wanted, and why it did not work."""


def write(file: Path, value: str) -> None:
    """Write a value in one write(2), as the kernel wants it. Raises CgroupError."""
    try:
        fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
        try:
            # An empty value resets some files; the kernel sees a write only if there is something in it.
            os.write(fd, (value or "\n").encode())
        finally:
            os.close(fd)
    except OSError as error:
        raise CgroupError(f"cannot write {value!r} to {file}: {error.strerror}") from error


def read(file: Path) -> str:
    """Return the file's text. Empty: the file, or its cgroup, is not there, or its feature is off. Raises
    CgroupError."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while part := os.read(fd, READ_BYTES):
                parts.append(part)
            return b"".join(parts).decode("ascii")
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in _UNKNOWN:
            return ""
        raise CgroupError(f"cannot read {file}: {error.strerror}") from error


def counted(path: Path) -> dict[str, int]:
    """Return what the cgroup and all below it used, with the fields of gosched.core.usage.Usage; 0 for what the kernel
    does not count. Raises CgroupError."""
    cpu, memory = _pairs(read(f"{path}/cpu.stat")), _pairs(read(f"{path}/memory.events"))
    disks = [_equations(line) for line in read(f"{path}/io.stat").splitlines()]
    return {
        "cpu_ms": cpu.get("usage_usec", 0) // 1000,
        "throttled_ms": cpu.get("throttled_usec", 0) // 1000,
        "memory_bytes": int(read(f"{path}/memory.current") or 0),
        "memory_peak_bytes": int(read(f"{path}/memory.peak") or 0),
        "read_bytes": sum(disk.get("rbytes", 0) for disk in disks),
        "written_bytes": sum(disk.get("wbytes", 0) for disk in disks),
        "oom_kills": max(memory.get("oom_kill", 0), memory.get("oom_group_kill", 0)),
        **{f"{resource}_stalled_ms": _stalled_ms(read(f"{path}/{resource}.pressure")) for resource in PRESSURES},
    }


def hit_own_limit(path: Path) -> bool:
    """Return whether memory was refused for the limit of this cgroup, or of one below: not for one above, nor for all
    of the host's memory. Raises CgroupError."""
    return _pairs(read(f"{path}/memory.events")).get("oom", 0) > 0


def is_frozen(path: Path) -> bool:
    """Return whether all of its processes are frozen. Raises CgroupError."""
    return _pairs(read(f"{path}/cgroup.events")).get("frozen") == 1


def is_populated(path: Path) -> bool:
    """Return whether a process lives in the cgroup or below it. Raises CgroupError."""
    return _pairs(read(f"{path}/cgroup.events")).get("populated") == 1


def kill(path: Path) -> None:
    """Send SIGKILL to all processes of the cgroup and of all below it, frozen or not. Does not wait for their end, but
    on a kernel before 5.14. Raises CgroupError."""
    if os.path.exists(f"{path}/cgroup.kill"):
        with contextlib.suppress(FileNotFoundError), open(f"{path}/cgroup.kill", "w", encoding="ascii") as file:
            file.write("1")  # gone meanwhile: nothing is left to kill
    elif not _within(_KILL_LIMIT_S, lambda: _kill_each(path)):
        raise CgroupError(f"processes in {path} do not end within {_KILL_LIMIT_S:g} s")


def remove(path: Path, limit_s: float) -> bool:
    """Remove the cgroup and all below it. Return False where processes are still in it after `limit_s`. Raises
    CgroupError."""
    return _within(limit_s, lambda: _remove_now(path))


def _kill_each(path: Path) -> bool:
    for cgroup in _bottom_up(path):
        for pid in read(f"{cgroup}/cgroup.procs").split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    return not is_populated(path)


def _remove_now(path: Path) -> bool:
    try:
        os.rmdir(path)
        return True
    except OSError:  # there are others below it, or what is said beneath
        pass
    for cgroup in _bottom_up(path):
        try:
            os.rmdir(cgroup)
        except OSError as error:
            if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
                return False
            if error.errno not in _GONE:
                raise CgroupError(f"cannot remove {cgroup}: {error.strerror}") from error
    return True


def _bottom_up(path: Path) -> Iterator[str]:
    for folder, _, _ in os.walk(os.fspath(path), topdown=False):
        yield folder


def _within(limit_s: float, is_done: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + limit_s
    pause_s = 0.0005
    while not is_done():
        if time.monotonic() > deadline:
            return is_done()  # the host may have stood still since the last look
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.02)
    return True


def _stalled_ms(pressure: str) -> int:
    """Return how long some process of the cgroup has waited since the cgroup was made."""
    some = next((line for line in pressure.splitlines() if line.startswith("some ")), "")
    return _equations(some).get("total", 0) // 1000


def _pairs(text: str) -> dict[str, int]:
    """Return the values by name, of lines such as `oom_kill 3`."""
    return {key: int(value) for key, value in (line.split() for line in text.splitlines())}


def _equations(line: str) -> dict[str, int]:
    """Return the whole numbers by name, of a line such as `8:0 rbytes=1 wbytes=2`."""
    pairs = [word.partition("=") for word in line.split()[1:]]
    return {key: int(value) for key, _, value in pairs if value.isdigit()}
