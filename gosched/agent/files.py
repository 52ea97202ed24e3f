"""Writes files so that they are whole after a crash: a reader sees the old content or the new, never a part."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

RESERVED_BYTES = 4096


def write_synced(path: Path, data: bytes) -> None:
    """Write the file; it is on the disk on return."""
    replace(path, data, sync=True)
    sync_directory(path.parent)


def replace(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Write into the temporary file that `reserve` may have left, so that a full disk does not matter."""
    with _own(path) as file:
        file.write(data)
        file.truncate()
        file.flush()
        if sync:
            os.fsync(file.fileno())
    os.rename(file.name, path)


def reserve(path: Path) -> None:
    """Reserve disk blocks for a small file that has to be written later."""
    with _own(path) as file:
        file.write(b" " * RESERVED_BYTES)


def _own(path: Path) -> BinaryIO:
    """Open the temporary file. Tasks of other users may know its path, and must not read it."""
    return open(f"{path}.tmp", "r+b", opener=lambda name, flags: os.open(name, flags | os.O_CREAT, 0o600))


def sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
