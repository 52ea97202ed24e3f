"""Writes files so that they are whole after a crash: a reader sees the old content or the new, never a part."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path

RESERVED_BYTES = 4096


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
