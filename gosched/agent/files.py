"""Writes files so that they are whole after a crash: a reader sees the old content or the new, never a part."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from io import FileIO
from pathlib import Path

RESERVED_BYTES = 4096

# Of linux/fs.h.
_FS_IOC_GETFLAGS, _FS_IOC_SETFLAGS = 0x80086601, 0x40086602
_FS_TOPDIR_FL = 0x00020000


def write_synced(path: Path, data: bytes) -> None:
    """Write the file; it is on the disk on return."""
    replace(path, data, sync=True)
    sync_directory(path.parent)


def replace(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Write into the temporary file that `reserve` may have left, so that a full disk does not matter."""
    with _own(temporary(path)) as file:
        _write_all(file, data)
        file.truncate()
        if sync:
            os.fsync(file.fileno())
    os.rename(file.name, path)


def reserve(path: Path | str) -> None:
    """Reserve disk blocks for a small file that has to be written later."""
    with _own(temporary(path)) as file:
        _write_all(file, b" " * RESERVED_BYTES)


def temporary(path: Path | str) -> str:
    """Return the name under which a file is written before it gets its own."""
    return f"{path}.tmp"


def _own(name: str) -> FileIO:
    """Open the temporary file. Tasks of other users may know its path, and must not read it."""
    return open(name, "r+b", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_CREAT, 0o600))


def _write_all(file: FileIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def spread_directories(parent: Path) -> None:
    """Let ext4 place each directory that is made here away from the others, as `chattr +T` does. In one place a new
    file takes up to 0.7 ms where many were removed within five minutes: without a journal ext4 passes over their inodes
    one by one. Other file systems know no such flag, and nothing changes there. Raises OSError."""
    fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            (flags,) = struct.unpack("l", fcntl.ioctl(fd, _FS_IOC_GETFLAGS, bytes(struct.calcsize("l"))))
            fcntl.ioctl(fd, _FS_IOC_SETFLAGS, struct.pack("l", flags | _FS_TOPDIR_FL))
    finally:
        os.close(fd)
