"""Other processes of this host: identifies one for good, and finds what a dead supervisor left behind."""

from __future__ import annotations

import os
import signal
import time
from functools import cache
from pathlib import Path

# In the environment of every process of a task, so that its leftovers can be told from all others: the path of its
# checkpoint file. Another agent of this host, in another cluster, may have a task of the same allocation id.
MARK = "GOSCHED_CHECKPOINT_FILE"

_KILL_LIMIT_S = 10.0


@cache
def boot_id() -> str:
    """Return the id of this boot of the host, which outlives this process."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def open_process(pid: int, start_time: int) -> int:
    """Return a pidfd of the process with this pid that began at this clock tick, or -1 where there is none, or this
    process has no descriptor left just now."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return -1
    # Checked after the descriptor is open: from here on the pid can't become another's unseen.
    if _start_time(pid) != start_time:
        os.close(fd)
        return -1
    return fd


def kill_marked(checkpoint_file: str) -> bool:
    """Kill every process that carries the task's mark. Return False when some are still there after ten seconds. Each
    is stopped first: one that forks as fast as others are killed makes no more."""
    mark = f"{MARK}={checkpoint_file}".encode(errors="surrogateescape")
    deadline = time.monotonic() + _KILL_LIMIT_S
    while found := _marked(mark):
        if time.monotonic() > deadline:
            return False
        stopped: set[int] = set()
        while new := found - stopped:
            for pid in new:
                _signal(pid, signal.SIGSTOP, mark)
            stopped |= new
            found = _marked(mark) if time.monotonic() < deadline else set()
        for pid in stopped:
            _signal(pid, signal.SIGKILL, mark)
        time.sleep(0.01)
    return True


def _marked(mark: bytes) -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit() and _carries(int(name), mark)}


def _carries(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # gone, or another user's: then it is no task of this agent
        return False


def _signal(pid: int, number: int, mark: bytes) -> None:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if _carries(pid, mark):
            signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(fd)


def _start_time(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except OSError:
        return -1
