"""The node as the tasks of one account see it: with places for temporary files that are the account's alone, its own
line in the lists of users, and no processes of others.

`main` tries it, and says what keeps it from being had.

Invariant: all of it is in a mount namespace, so it goes with the last process. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from gosched.agent.supervisor.binding import CLONE_NEWNS, MS_BIND, MS_REC, MS_SLAVE, checked, libc

VIEW = "view"  # step of a start
MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x2, 0x4, 0x8
PROC = "/proc"
_HIDES = b"hidepid=2"
_EACH_ITS_OWN = (5, 8)  # Linux from which on the option holds for one mount, and not for all of the pid namespace


def enter_view(view: Iterable[tuple[str, str]]) -> None:
    """Bind each first path on its second one, for this process and those that it starts; of `/proc` show it no
    processes of other users. Raises OSError."""
    checked(libc.unshare(CLONE_NEWNS), "its own mounts")
    checked(libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_SLAVE), None), "its own mounts")
    for source, target in view:
        if target == PROC:
            flags = ctypes.c_ulong(MS_NOSUID | MS_NODEV | MS_NOEXEC)
            checked(libc.mount(b"proc", PROC.encode(), b"proc", flags, _HIDES), PROC)
        else:
            flags = ctypes.c_ulong(MS_BIND)
            checked(libc.mount(os.fsencode(source), os.fsencode(target), None, flags, None), target)


def hides_processes() -> bool:
    """Return whether this kernel can keep processes of other users from one mount of `/proc` alone."""
    numbers = os.uname().release.split(".")[:2]
    return all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) >= _EACH_ITS_OWN


def main() -> None:
    directory = Path(sys.argv[1])
    try:
        enter_view([(str(directory), "/tmp"), *([("", PROC)] if hides_processes() else [])])  # noqa: S108 - in its own view
    except OSError as error:
        print(f"{error.filename}: {error.strerror}")
