"""Opens paths below a directory that a task's user may change at any moment.

Invariant: what is opened lies below the directory that was given, whatever is renamed or linked meanwhile; a FIFO or a
device is never opened. Standard library only: supervisors use it, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import stat
import struct
from collections.abc import Iterator

OPENAT2 = 437  # of openat2(2), on every architecture; Linux 5.6
NO_MAGIC_LINKS, NO_LINKS, BENEATH = 0x02, 0x04, 0x08
_AT_FDCWD = -100
_TRIES = 100  # the kernel asks to try again where a rename happens at the same moment

_libc = ctypes.CDLL(None, use_errno=True)


class NotAFile(OSError):
    """It is a directory, a link, a FIFO, a socket or a device, and was not opened."""


def open_beneath(root: int, path: str, flags: int) -> int:
    """Return a descriptor of `path` below the directory `root`; an empty path is the directory itself. Raises OSError:
    ELOOP at a link, EXDEV where it leads out. With O_PATH | O_NOFOLLOW the last part may be a link, which is then not
    followed."""
    flags |= os.O_CLOEXEC
    if not path:
        return os.open(".", flags, dir_fd=root)
    if _has_openat2():
        return _openat2(root, path, flags, NO_MAGIC_LINKS | NO_LINKS | BENEATH)
    return _step_by_step(root, path, flags)


def open_anywhere(path: str, flags: int) -> int:
    """Return a descriptor of `path`, whatever links lead there but those of /proc that name no path."""
    if _has_openat2():
        return _openat2(_AT_FDCWD, path, flags | os.O_CLOEXEC, NO_MAGIC_LINKS)
    return os.open(path, flags | os.O_CLOEXEC)


def reopen(fd: int, flags: int) -> int:
    """Return another descriptor of what the O_PATH descriptor `fd` is: the same file, whatever has its name by now."""
    return os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC)


def open_file(root: int, path: str) -> int:
    """Return a descriptor to read the regular file `path` below `root`, without any link. Raises OSError, NotAFile."""
    fd = open_beneath(root, path, os.O_PATH | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NotAFile(errno.EINVAL, "Not a regular file", path)
        return reopen(fd, os.O_RDONLY)
    finally:
        os.close(fd)


@contextlib.contextmanager
def opened(
    path: str | os.PathLike[str], flags: int = os.O_PATH, *, dir_fd: int | None = None, links: bool = False
) -> Iterator[int]:
    """Yield a descriptor of `path`, closed at the end. The last part may be a link only if `links` says so."""
    fd = os.open(path, flags | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW), dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)


@functools.cache
def _has_openat2() -> bool:
    """Return whether the system call is there. A filter may refuse it to a container, too."""
    try:
        with opened("/", os.O_PATH | os.O_DIRECTORY) as root:
            os.close(_openat2(root, ".", os.O_PATH | os.O_CLOEXEC, BENEATH))
    except OSError:
        return False
    return True


def _openat2(root: int, path: str, flags: int, resolve: int) -> int:
    how = struct.pack("=3Q", flags, 0, resolve)
    for _ in range(_TRIES):
        fd: int = _libc.syscall(ctypes.c_long(OPENAT2), root, os.fsencode(path), how, ctypes.c_size_t(len(how)))
        if fd >= 0:
            return fd
        if ctypes.get_errno() != errno.EAGAIN:
            break
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)


def _step_by_step(root: int, path: str, flags: int) -> int:
    """Open name by name, as openat2 does without any link. No name leads up, so none leads out."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    at = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
        return os.open(parts[-1] if parts else ".", flags | os.O_NOFOLLOW, dir_fd=at)
    except NotADirectoryError as error:  # a link, with O_PATH | O_DIRECTORY | O_NOFOLLOW, or a file
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from error
    finally:
        os.close(at)
