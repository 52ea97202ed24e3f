"""What an account has left on the machine when none of its tasks runs: processes, shared memory, queues, files.

Invariant: only what bears the id is touched, and of files only those in the directories that are named.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from gosched.agent.tasks.removal import remove_tree

_KILL_LIMIT_S = 10.0
_IPC_RMID = 0
_MQUEUE = Path("/dev/mqueue")

libc = ctypes.CDLL(None, use_errno=True)


def processes_of(uid: int) -> list[int]:
    """Return the processes that have this id, in whatever way."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and uid in _ids(int(name))]


def kill(uid: int) -> None:
    """Kill all of them. Raises OSError where some are left after ten seconds. Each is stopped first: one that forks as
    fast as others are killed makes no more."""
    deadline = time.monotonic() + _KILL_LIMIT_S
    while found := processes_of(uid):
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {found[0]} of id {uid} does not end")
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                _signal(pid, number, uid)
        time.sleep(0.01)


def remove_ipc(uid: int) -> None:
    """Remove its shared memory, semaphores and message queues, of System V and of POSIX. Raises OSError."""
    for kind in ("shm", "sem", "msg"):
        for number in _sysv(kind, uid):
            arguments = (number, 0, _IPC_RMID, 0) if kind == "sem" else (number, _IPC_RMID, None)
            getattr(libc, f"{kind}ctl")(*arguments)
        if left := _sysv(kind, uid):
            raise OSError(f"{kind} {left[0]} of System V, of id {uid}, cannot be removed")
    remove_files(uid, (str(_MQUEUE),))


def remove_files(uid: int, directories: Iterable[str]) -> None:
    """Remove what it owns in directories that everybody can write to. Raises OSError."""
    for directory in directories:
        try:
            entries = list(os.scandir(directory))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_uid != uid:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    remove_tree(Path(entry.path))
                else:
                    os.unlink(entry.path)


def _ids(pid: int) -> set[int]:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            fields = dict(line.split(b":", 1) for line in file)
    except OSError:  # it has ended
        return set()
    is_over = fields[b"State"].split()[0] in (b"Z", b"X")
    return set() if is_over else set(map(int, fields[b"Uid"].split()))


def _signal(pid: int, number: signal.Signals, uid: int) -> None:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if uid in _ids(pid):
            signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(fd)


def _sysv(kind: str, uid: int) -> list[int]:
    """Return the numbers of its objects of a kind, those included that it made and gave away."""
    try:
        with open(f"/proc/sysvipc/{kind}", encoding="ascii") as file:
            names, *lines = [line.split() for line in file]
    except FileNotFoundError:  # a kernel without it
        return []
    at, owner, maker = names.index("msqid" if kind == "msg" else f"{kind}id"), names.index("uid"), names.index("cuid")
    return [int(line[at]) for line in lines if uid in (int(line[owner]), int(line[maker]))]
