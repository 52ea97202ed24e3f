"""The processes of a task: its main process, what that started, and its orphans, which become the supervisor's
children.

Invariant: a pid is signalled only while it cannot have become another process': it is an own child that only this
process reaps, or it was looked at through a pidfd.
"""

from __future__ import annotations

import os
import signal
import time
from functools import cache

from gosched.agent.supervisor.records import complain

STOP_ROUNDS = 50
STAT_BYTES = 4096


def reap() -> dict[int, int]:
    """Return the statuses of the children that have ended, the task's orphans among them."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def kill_leftovers() -> None:
    """Kill children until there are none: what they leave behind becomes a child of this process."""
    pause_s = 0.002
    while True:
        reap()
        if not own_children():
            return
        for pid in stopped_family():
            signal_one(pid, signal.SIGKILL, None)
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.2)


def stopped_family() -> set[int]:
    """Return the processes of the task, each stopped first: one that forks as fast as others are killed makes no
    more."""
    stopped: set[int] = set()
    for _ in range(STOP_ROUNDS):
        new = descendants() - stopped
        if not new:
            break
        for pid in new:
            signal_one(pid, signal.SIGSTOP, None)
        stopped |= new
    return stopped


def signal_handlers(number: int) -> bool:
    """Send the signal to each process of the task that handles it, and to no other: a shell around the program would
    die of it, and the task with it. Return False where none handles it (yet)."""
    family = descendants()
    return sum(signal_one(pid, number, family) for pid in family) > 0


def signal_all(number: int) -> None:
    for pid in descendants():
        signal_one(pid, number, None)


def signal_one(pid: int, number: int, handlers_of: set[int] | None) -> bool:
    try:
        fd = os.pidfd_open(pid)
    except OSError:  # it is gone
        return False
    try:
        # Looked at after the descriptor is open: it is still the same process.
        if handlers_of is None or handles(number, pid, handlers_of):
            signal.pidfd_send_signal(fd, number)
            return True
    except (FileNotFoundError, ProcessLookupError):
        pass
    except PermissionError as error:
        complain(f"cannot signal {pid}: {error}")
    finally:
        os.close(fd)
    return False


def handles(number: int, pid: int, family: set[int]) -> bool:
    """Return whether it has a handler. One that waits with sigwait cannot be told from one that would die."""
    with open(f"/proc/{pid}/status", "rb") as file:
        status = dict(line.partition(b":")[::2] for line in file)
    if int(status[b"PPid"]) not in {*family, os.getpid()}:
        return False
    return bool(int(status.get(b"SigCgt", b"0"), 16) & 1 << (number - 1))


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except PermissionError as error:  # it runs as another user by now
        complain(f"cannot signal {pid}: {error}")


def own_children() -> list[int]:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    return children_by_pid().get(os.getpid(), [])


def descendants() -> set[int]:
    """Return the whole task: its orphans are children of this process."""
    children = children_by_pid()
    found = list(children.get(os.getpid(), []))
    for pid in found:
        found.extend(children.get(pid, []))
    return set(found)


def children_by_pid() -> dict[int, list[int]]:
    """Return the children of each process of the host."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found.setdefault(int(stat_of(name)[1]), []).append(int(name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def start_time(pid: int) -> int:
    """Return its start in clock ticks since boot; with the pid and the boot id that names a process for good."""
    return int(stat_of(pid)[19])


own_start_time = cache(start_time)  # of a process that asks for itself


def stat_of(pid: int | str) -> list[bytes]:
    """Return the fields of /proc/PID/stat after the name."""
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, STAT_BYTES).rpartition(b")")[2].split()
    finally:
        os.close(fd)
