"""Binds the host's paths that a job names to where its runtime finds them, in the task's own mount namespace.

Invariant: what is bound is what was opened with the rights of the task's user; the path is not looked up again.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Sequence

from gosched.agent.host_paths import open_host_path
from gosched.agent.supervisor.launch import HostBind

BOUND = ("volume", "image")  # steps of a start, and what HostBind.what may be
CLONE_NEWNS = 0x0002_0000
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 0x8_0000

libc = ctypes.CDLL(None, use_errno=True)


def bind_all(binds: Sequence[HostBind], at: list[str]) -> None:
    """Bind them in the task's first process, which keeps root's rights. `at`: its only item names the step. Raises
    OSError."""
    at[0] = binds[0].what
    checked(libc.unshare(CLONE_NEWNS), "its own mounts")
    checked(libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_SLAVE), None), "its own mounts")
    for bind in binds:
        at[0] = bind.what
        fd = open_host_path(bind.host, bind.allowed, bind.account)
        place = make_place(bind.at, os.fstat(fd).st_mode)
        flags = ctypes.c_ulong(MS_BIND | MS_REC)
        checked(libc.mount(f"/proc/self/fd/{fd}".encode(), os.fsencode(place), None, flags, None), bind.host)
        os.close(fd)


def make_place(at: str, mode: int) -> str:
    """Return the path `at`, made to be bound on: a directory for a directory, a file for anything else."""
    if stat.S_ISDIR(mode):
        os.makedirs(at, mode=0o700, exist_ok=True)
    else:
        os.close(os.open(at, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return at


def checked(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)
