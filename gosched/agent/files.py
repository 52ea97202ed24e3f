"""Writing files so that they are whole after a crash: a reader sees the old content or the new, never a part."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

RESERVED_BYTES = 4096


def write_synced(path: Path, data: bytes) -> None:
    """On the disk when this returns."""
    replace(path, data, sync=True)
    sync_directory(path.parent)


def replace(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Writes into the temporary file that `reserve` may have left: then a full disk does not matter."""
    with _own(path) as file:
        file.write(data)
        file.truncate()
        file.flush()
        if sync:
            os.fsync(file.fileno())
    os.rename(file.name, path)


def reserve(path: Path) -> None:
    """Takes room on the disk now for a small file that has to be written later."""
    with _own(path) as file:
        file.write(b" " * RESERVED_BYTES)


def _own(path: Path) -> BinaryIO:
    """The temporary file of another one. Tasks of other users may know the path, and must not read it."""
    return open(f"{path}.tmp", "r+b", opener=lambda name, flags: os.open(name, flags | os.O_CREAT, 0o600))


def sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
