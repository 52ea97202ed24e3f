"""The disk as the log needs it, so that the simulator can put its own one under the same journal.

Invariant: what `sync`, `patch(sync=True)` or `replace` has returned from is on the disk, directory entry included.
After the first failure nothing more is done: the kernel may have dropped what it could not write, and says so once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn, Protocol

from gosched.replication.disk.sync_thread import SyncThread

LOCK = "lock"
MAX_SYNCS = 4  # of one file, under way at once
SECTOR_BYTES = 512  # what a disk writes whole or not at all, though the power goes

_LOCK_WAIT_S = 5.0  # for the replica of a master that was just killed: it ends when it sees that its front is gone
_LOCK_RETRY_S = 0.05


class DiskFailed(Exception):
    """A system call of the disk layer failed. It is no OSError, so that no handler for sockets takes it for one."""


class InUse(Exception):
    """Another process holds the data directory. The message says which, and what to do."""


class SyncUnderWay(Protocol):
    """A sync beside the caller. It covers what was appended before it began; both methods raise DiskFailed."""

    def ended(self, wait_s: float) -> bool:
        """Wait so long for the end; return whether it came."""
        ...

    def wait(self) -> None: ...


class AppendFile(Protocol):
    """A file that only grows at its end. At most `MAX_SYNCS` are under way; `sync` covers what they do."""

    def append(self, data: bytes) -> None: ...

    def sync(self) -> None: ...

    def begin_sync(self) -> SyncUnderWay: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """One folder. All methods raise DiskFailed; after that the process must end."""

    def check(self) -> None:
        """Raise the first failure again, if there was one."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return the whole file, or None."""
        ...

    def append_to(self, name: str) -> AppendFile:
        """Open for appending; the file is made (and its name synced) when missing."""
        ...

    def truncate(self, name: str, size: int) -> None: ...

    def patch(self, name: str, offset: int, data: bytes, *, sync: bool) -> None:
        """Overwrite a part of a file.

        After a crash without a sync each sector is the old one or the new one.
        """
        ...

    def replace(self, name: str, chunks: Iterable[bytes]) -> None:
        """Write a whole new file and put it in place at once: readers and crashes see the old one or the new one."""
        ...


class PosixDisk:
    """A real folder, made when missing, private to its owner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._failed = ""
        self._syncers = [SyncThread() for _ in range(MAX_SYNCS)]
        self._patched: dict[str, int] = {}  # kept open: no lack of descriptors may stand in the way of a vote
        with self._guarded("make", ""):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._sync_folder()  # a process that was killed may have renamed without syncing

    def check(self) -> None:
        if self._failed:
            raise DiskFailed(self._failed)

    def read(self, name: str) -> bytes | None:
        with self._guarded("read", name):
            try:
                return (self.folder / name).read_bytes()
            except FileNotFoundError:
                return None

    def append_to(self, name: str) -> AppendFile:
        with self._guarded("open", name):
            made = not (self.folder / name).exists()
            fd = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            if made:
                self._sync_folder()
            # Of two syncs at once on one open file, only one hears of an error: each gets a file of its own.
            own = [os.open(self.folder / name, os.O_WRONLY | os.O_CLOEXEC) for _ in self._syncers]
        return _PosixAppendFile(self, name, fd, list(zip(own, self._syncers, strict=True)))

    def truncate(self, name: str, size: int) -> None:
        with self._guarded("truncate", name), self._opened(name, os.O_WRONLY) as fd:
            os.ftruncate(fd, size)
            os.fsync(fd)

    def patch(self, name: str, offset: int, data: bytes, *, sync: bool) -> None:
        with self._guarded("write", name):
            if name not in self._patched:
                self._patched[name] = os.open(self.folder / name, os.O_WRONLY | os.O_CLOEXEC)
            fd = self._patched[name]
            os.lseek(fd, offset, os.SEEK_SET)
            _write_all(fd, data)
            if sync:
                os.fdatasync(fd)

    def replace(self, name: str, chunks: Iterable[bytes]) -> None:
        temporary = f"{name}.new"
        with self._guarded("write", temporary), self._opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            for chunk in chunks:
                _write_all(fd, chunk)
            os.fsync(fd)
        with self._guarded("rename", temporary):
            os.rename(self.folder / temporary, self.folder / name)
            self._sync_folder()
            if name in self._patched:
                os.close(self._patched.pop(name))

    def close(self) -> None:
        """Close what is kept open."""
        while self._patched:
            os.close(self._patched.popitem()[1])

    def lock(self) -> int:
        """Take the folder for this process, for the life of the returned descriptor. Raises InUse, DiskFailed."""
        with self._guarded("lock", LOCK):
            fd = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + _LOCK_WAIT_S
        while True:
            with self._guarded("lock", LOCK):
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.ftruncate(fd, 0)
                    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
                    return fd
                except BlockingIOError:
                    holder = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
            if time.monotonic() > deadline:
                os.close(fd)
                raise InUse(
                    f"{self.folder} is in use by process {holder}: two masters must not share a data directory. Stop "
                    "the other one, or give this master a data_dir of its own"
                )
            time.sleep(_LOCK_RETRY_S)

    def _guarded(self, doing: str, name: str) -> _Guard:
        return _Guard(self, doing, name)

    def _fail(self, doing: str, name: str, error: OSError) -> NoReturn:
        self._failed = (
            f"cannot {doing} {self.folder / name}: {error.strerror or error}. This master stops: what it wrote "
            "last may be lost, nothing acknowledged is. Check the disk and the room on it, then start it again"
        )
        raise DiskFailed(self._failed) from error

    @contextlib.contextmanager
    def _opened(self, name: str, flags: int) -> Iterator[int]:
        fd = os.open(self.folder / name, flags | os.O_CLOEXEC, 0o600)
        try:
            yield fd
        finally:
            os.close(fd)

    def _sync_folder(self) -> None:
        with self._opened("", os.O_RDONLY | os.O_DIRECTORY) as fd:
            os.fsync(fd)


class _Guard:
    """Around each call of the system. It is entered twice for each commit, so it is no generator."""

    __slots__ = ("_disk", "_doing", "_name")

    def __init__(self, disk: PosixDisk, doing: str, name: str) -> None:
        self._disk, self._doing, self._name = disk, doing, name

    def __enter__(self) -> None:
        self._disk.check()

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            self._disk._fail(self._doing, self._name, error)


class _PosixAppendFile:
    def __init__(self, disk: PosixDisk, name: str, fd: int, syncers: list[tuple[int, SyncThread]]) -> None:
        self._disk, self._name, self._fd = disk, name, fd
        self._syncers = syncers
        self._next = 0

    def append(self, data: bytes) -> None:
        with self._disk._guarded("write", self._name):
            _write_all(self._fd, data)

    def sync(self) -> None:
        with self._disk._guarded("sync", self._name):
            os.fdatasync(self._fd)

    def begin_sync(self) -> SyncUnderWay:
        self._disk.check()
        fd, syncer = self._syncers[self._next]
        self._next = (self._next + 1) % len(self._syncers)
        syncer.begin(fd)
        return _PosixSync(self._disk, self._name, syncer)

    def close(self) -> None:
        with self._disk._guarded("close", self._name):
            for fd in (self._fd, *(fd for fd, _ in self._syncers)):
                os.close(fd)


class _PosixSync:
    def __init__(self, disk: PosixDisk, name: str, syncer: SyncThread) -> None:
        self._disk, self._name, self._syncer = disk, name, syncer

    def ended(self, wait_s: float) -> bool:
        with self._disk._guarded("sync", self._name):
            return self._syncer.ended(wait_s)

    def wait(self) -> None:
        with self._disk._guarded("sync", self._name):
            self._syncer.wait()


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
