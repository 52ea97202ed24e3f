"""Words for what ends a process, or a call: what the machine has run out of, else a bug.

Invariant: a resource that ran out is never called a bug, and its words say how much there was and what to do.
"""

from __future__ import annotations

import contextlib
import errno
import resource
from pathlib import Path

_OWN_CGROUP = Path("/proc/self/cgroup")
_STATUS = Path("/proc/self/status")
_CGROUPS = Path("/sys/fs/cgroup")
_NO_THREAD = "can't start new thread"


def failure_of(error: BaseException | None, more: str = "") -> str:
    """Return one line: what ran out, or that it is a bug to be reported, with `more` behind the request."""
    return exhausted(error) or f"internal error, please report it{more}: {error!r}"


def exhausted(error: BaseException | None) -> str:
    """Return what the machine or a limit ran out of and what to do; empty: it is something else."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return (
            f"out of memory: this process has {_resident()}, of {_memory_limit()}. Give the master more memory, or let"
            " it keep less: a shorter retention and smaller bounds of the history"
        )
    if isinstance(error, RuntimeError) and _NO_THREAD in str(error):
        return "no thread can be started: raise the limit of tasks (TasksMax, pids.max, ulimit -u) for the master"
    match error.errno if isinstance(error, OSError) else None:
        case errno.EMFILE:
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            return f"too many open files: {soft} are allowed. Raise LimitNOFILE (ulimit -n) for the master"
        case errno.ENFILE:
            return "too many open files on this machine: raise fs.file-max, or end what holds them"
        case errno.ENOSPC | errno.EDQUOT:
            return f"the disk is full ({error}): free or grow the disk of the data directory, then start this master"
    return ""


def _resident() -> str:
    with contextlib.suppress(OSError):  # no more files can be opened either: its size is not worth another failure
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmRSS:"):
                return f"{int(line.split()[1]) // 1024} MiB"
    return "an unknown amount"


def _memory_limit() -> str:
    """Return the smallest limit that is set; the machine's memory where none is."""
    limits = [limit for limit in (_address_space(), _cgroup_limit()) if limit > 0]
    if limits:
        return f"{min(limits) >> 20} MiB that it may have"
    with contextlib.suppress(OSError):
        first = Path("/proc/meminfo").read_text().splitlines()[0]
        return f"{int(first.split()[1]) // 1024} MiB that the machine has"
    return "an unknown amount"


def _address_space() -> int:
    return resource.getrlimit(resource.RLIMIT_AS)[0]  # -1: none


def _cgroup_limit() -> int:
    """Return the limit of the process's cgroup or one above it; 0: there is none, or it cannot be seen."""
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        own = _OWN_CGROUP.read_text().rpartition("::")[2].strip().lstrip("/")
        for group in (_CGROUPS / own, *(_CGROUPS / own).parents):
            with contextlib.suppress(FileNotFoundError):
                text = (group / "memory.max").read_text().strip()
                found += [int(text)] if text != "max" else []
            if group == _CGROUPS:
                break
    return min(found, default=0)
