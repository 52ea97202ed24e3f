"""Looks at files with the rights of a task's user, in a thread of root's.

Invariant: the rights of every other thread stay what they are, and this one has its own again at the end. The kernel
keeps them by thread (setfsuid(2)); root's power to pass over modes goes with the user. Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator, Sequence
from typing import Protocol

# Of setgroups(2): libc's own function changes every thread of the process.
_SETGROUPS = {"x86_64": 116, "ppc64le": 81, "s390x": 206}.get(os.uname().machine, 159)

_libc = ctypes.CDLL(None, use_errno=True)


class HasRights(Protocol):
    @property
    def uid(self) -> int: ...
    @property
    def gid(self) -> int: ...
    @property
    def groups(self) -> Sequence[int]: ...


@contextlib.contextmanager
def as_account(account: HasRights | None) -> Iterator[None]:
    """Look at files as the account would; None, and a process that is not root: as this process does. Start no thread
    meanwhile: it would have no more rights for good."""
    if account is None or os.geteuid() != 0:
        yield
        return
    groups = os.getgroups()
    try:
        _become(account.uid, account.gid, account.groups)
        yield
    finally:
        _become(os.geteuid(), os.getegid(), groups)


def _become(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Take the account's rights. The user comes last from root, and first back to root: setgroups needs root's
    power."""
    numbers = (ctypes.c_uint32 * len(groups))(*groups)
    if _libc.syscall(ctypes.c_long(_SETGROUPS), ctypes.c_size_t(len(groups)), numbers) != 0:
        raise OSError(ctypes.get_errno(), "cannot look at files as another user")
    for change, number in ((_libc.setfsgid, gid), (_libc.setfsuid, uid)):
        change(ctypes.c_uint32(number))
        if change(ctypes.c_uint32(0xFFFF_FFFF)) != number:  # which changes nothing: it tells what was set
            raise OSError("cannot look at files as another user")
