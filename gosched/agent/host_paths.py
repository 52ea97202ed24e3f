"""Opens paths of the node that a job names: volumes and images.

Invariant: what is opened lies below a prefix that the agent's settings allow, and the task's user could reach it. It is
used by its descriptor: the path may be another file's by then. Standard library only: supervisors use it, too.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence

from gosched.agent.acting import HasRights, as_account
from gosched.agent.beneath import open_anywhere


class NotAllowed(OSError):
    """What was opened lies below no path that the agent's settings allow."""


def open_host_path(path: str, allowed: Sequence[str], account: HasRights | None, flags: int = os.O_PATH) -> int:
    """Return a descriptor of the absolute `path`, opened with the rights of `account` (None: this process' own).
    `allowed`: absolute prefixes; links may lead there from anywhere, and not out. Raises OSError, NotAllowed."""
    with as_account(account):
        fd = open_anywhere(path, flags)
    real = path_of(fd)  # of what was opened, and not of what the path means by now
    if any(_is_below(real, os.path.realpath(prefix)) for prefix in allowed):
        return fd
    os.close(fd)
    raise NotAllowed(errno.EPERM, f"{real} is not below a path that this node allows", path)


def path_of(fd: int) -> str:
    """Return the path, without links, of what a descriptor stands for, as it is now."""
    return os.readlink(f"/proc/self/fd/{fd}")


def is_fixed(path: str) -> bool:
    """Return whether only root can put something else in the place of `path`, which has no links."""
    while path != "/":
        path = os.path.dirname(path)
        seen = os.stat(path)
        if seen.st_uid != 0 or seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return False
    return True


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix if prefix == "/" else f"{prefix}/")
