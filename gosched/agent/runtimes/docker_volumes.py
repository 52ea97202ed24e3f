"""Volumes of docker tasks, whose daemon takes nothing but names.

Invariant: a name that the daemon gets means what was opened with the rights of the task's user until the container has
started: either only root can change what it means, or what was opened is bound where only root has names, for so long.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gosched.agent.host_paths import is_fixed, path_of
from gosched.agent.runtimes.inside import open_named
from gosched.agent.supervisor.binding import MS_BIND, checked, libc, make_place
from gosched.agent.supervisor.launch import Account

HELD = "volumes"  # in the allocation's directory
_MS_PRIVATE = 0x4_0000
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8


def hold(mounts: Sequence[dict[str, Any]], directory: Path, allowed: Sequence[str], account: Account | None) -> None:
    """Give each of the API's mounts a source that stays what it is. Raises CannotRun, OSError."""
    if os.geteuid() != 0:  # a user that may ask the daemon for containers needs no trick to see a file
        return
    for number, mount in enumerate(mounts):
        fd = open_named("volume", mount["Source"], allowed, account)
        try:
            path = path_of(fd)
            mount["Source"] = path if is_fixed(path) else _bound(fd, directory / HELD / str(number))
        finally:
            os.close(fd)


def release(directory: Path) -> None:
    """Release what is held. Harmless when repeated: a container that has started has mounts of its own."""
    held = directory / HELD
    if held.is_dir():
        for place in held.iterdir():
            libc.umount2(os.fsencode(place), _MNT_DETACH | _UMOUNT_NOFOLLOW)
            os.rmdir(place) if place.is_dir() else place.unlink()
        held.rmdir()


def _bound(fd: int, at: Path) -> str:
    """Bind it without what is mounted below it: to unmount that again would unmount it everywhere."""
    at.parent.mkdir(mode=0o700, exist_ok=True)
    place = os.fsencode(make_place(str(at), os.fstat(fd).st_mode))
    bind, private = ctypes.c_ulong(MS_BIND), ctypes.c_ulong(_MS_PRIVATE)
    checked(libc.mount(f"/proc/self/fd/{fd}".encode(), place, None, bind, None), str(at))
    checked(libc.mount(None, place, None, private, None), str(at))
    return str(at)
