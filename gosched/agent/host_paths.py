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
from gosched.agent.beneath import open_anywhere, open_beneath


class NotAllowed(OSError):
    """The agent's settings allow no path like this one, or a link on it leads out of what they allow."""


def open_host_path(path: str, allowed: Sequence[str], account: HasRights | None, flags: int = os.O_PATH) -> int:
    """Return a descriptor of the absolute `path`, opened with the rights of `account` (None: this process' own).
    `allowed`: prefixes, absolute and without a / at the end, but for / itself. Raises OSError, NotAllowed."""
    # The widest one: a link that leads from one allowed place to another is none of those that lead out.
    prefix = min((each for each in allowed if _is_below(path, each)), key=len, default=None)
    if prefix is None:
        raise NotAllowed(errno.EPERM, "Not below a path that this node allows", path)
    with as_account(account):
        if prefix == "/":
            return open_anywhere(path, flags)
        if path == prefix:
            return os.open(path, flags | os.O_CLOEXEC)
        root = os.open(prefix, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return open_beneath(root, path[len(prefix) + 1 :], flags, links=True)
        except OSError as error:
            if error.errno in (errno.EXDEV, errno.ELOOP):
                raise NotAllowed(errno.EPERM, f"A link on it leads out of {prefix}", path) from error
            raise
        finally:
            os.close(root)


def path_of(fd: int) -> str:
    """The path of what a descriptor stands for, without links, as it is now."""
    return os.readlink(f"/proc/self/fd/{fd}")


def is_fixed(path: str) -> bool:
    """Whether only root can put something else in the place of `path`, which has no links."""
    while path != "/":
        path = os.path.dirname(path)
        seen = os.stat(path)
        if seen.st_uid != 0 or seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return False
    return True


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix if prefix == "/" else f"{prefix}/")
