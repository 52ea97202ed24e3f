"""The disk as the log needs it, so that the simulator can put its own one under the same journal.

Rule: what `sync` or `replace` has returned from is on the disk, directory entry included.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from gosched.replication.sync_thread import SyncThread

MAX_SYNCS = 4  # of one file, under way at once


class SyncUnderWay(Protocol):
    """A sync beside the caller. It covers what was appended before it began; both methods raise its OSError."""

    def ended(self, wait_s: float) -> bool: ...

    def wait(self) -> None: ...


class AppendFile(Protocol):
    """A file that only grows at its end. At most `MAX_SYNCS` are under way; `sync` covers what they do."""

    def append(self, data: bytes) -> None: ...

    def sync(self) -> None: ...

    def begin_sync(self) -> SyncUnderWay: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """One folder. All methods raise OSError; after a failed sync nothing may go on as if it had happened."""

    def read(self, name: str) -> bytes | None:
        """The whole file, or None."""
        ...

    def append_to(self, name: str) -> AppendFile:
        """Opens for appending, made (and its name synced) when missing."""
        ...

    def truncate(self, name: str, size: int) -> None: ...

    def replace(self, name: str, chunks: Iterable[bytes]) -> None:
        """Writes a whole new file and puts it in place at once: readers and crashes see the old one or the new one."""
        ...


class PosixDisk:
    """A real folder, made when missing, private to its owner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._syncers = [SyncThread() for _ in range(MAX_SYNCS)]
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._sync_folder()  # a process that was killed may have renamed without syncing

    def read(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def append_to(self, name: str) -> AppendFile:
        path = self.folder / name
        made = not path.exists()
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if made:
            self._sync_folder()
        return _PosixAppendFile(fd, path, self._syncers)

    def truncate(self, name: str, size: int) -> None:
        fd = os.open(self.folder / name, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(fd, size)
            os.fsync(fd)
        finally:
            os.close(fd)

    def replace(self, name: str, chunks: Iterable[bytes]) -> None:
        temporary = self.folder / f"{name}.new"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            for chunk in chunks:
                _write_all(fd, chunk)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, self.folder / name)
        self._sync_folder()

    def _sync_folder(self) -> None:
        fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class _PosixAppendFile:
    def __init__(self, fd: int, path: Path, syncers: list[SyncThread]) -> None:
        self._fd = fd
        # Of two syncs at once on one open file, only one hears of an error: each gets a file of its own.
        self._to_sync = [(os.open(path, os.O_WRONLY | os.O_CLOEXEC), syncer) for syncer in syncers]
        self._next = 0

    def append(self, data: bytes) -> None:
        _write_all(self._fd, data)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def begin_sync(self) -> SyncUnderWay:
        fd, syncer = self._to_sync[self._next]
        self._next = (self._next + 1) % len(self._to_sync)
        syncer.begin(fd)
        return syncer

    def close(self) -> None:
        for fd in (self._fd, *(fd for fd, _ in self._to_sync)):
            os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
