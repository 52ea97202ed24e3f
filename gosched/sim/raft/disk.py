"""A disk in memory that loses power: what was not synced survives in part, and a crash may come between any two writes.

Invariant: it promises no more than a real one does. What `sync` or `replace` has returned from survives everything; of
what was not, any sectors may be lost, each as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from gosched.replication.disk.disk import SECTOR_BYTES, DiskFailed

_ZEROS_SHARE = 0.25  # of the power losses leave zeros where data was lost: the file's size came first


class SimCrash(BaseException):
    """The process is gone, in the middle of what it did. No `except Exception` may hold it up."""


class _Inode:
    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.synced = len(data)
        self.overwritten: dict[int, bytes] = {}  # offset of a sector -> what a power loss may bring back


class SimDisk:
    """One folder. `spend` is told how long each operation takes, in seconds; `now` is the time with what was spent."""

    def __init__(self, rng: Random, spend: Callable[[float], None], now: Callable[[], float] = lambda: 0.0) -> None:
        self._rng = rng
        self._spend = spend
        self.now = now
        self._files: dict[str, _Inode] = {}
        self._unsure: dict[str, _Inode | None] = {}  # name -> what it meant before a rename that was not synced
        self._countdown: int | None = None
        self.full = False
        self.slow = 0.0  # seconds that a sync may take beyond the usual
        self.crashed_in = ""  # the operation that the last crash came in

    # What the log calls

    def check(self) -> None:
        """Do nothing: a member whose disk failed is dead, and its disk is well again when it starts."""

    def read(self, name: str) -> bytes | None:
        inode = self._files.get(name)
        return None if inode is None else bytes(inode.data)

    def append_to(self, name: str) -> _SimAppendFile:
        inode = self._files.get(name)
        if inode is None:
            inode = self._files[name] = _Inode()
            self._unsure[name] = None
            self._step("create")
            self._sync_folder(name)
        return _SimAppendFile(self, inode)

    def truncate(self, name: str, size: int) -> None:
        self._step("truncate")
        inode = self._files[name]
        del inode.data[size:]
        inode.synced = min(inode.synced, size)
        self._step("truncate")

    def patch(self, name: str, offset: int, data: bytes, *, sync: bool) -> None:
        inode = self._files[name]
        sectors = range(offset, offset + len(data), SECTOR_BYTES)
        for at in sectors:
            inode.overwritten.setdefault(at, bytes(inode.data[at : at + SECTOR_BYTES]))
        try:
            self._step("patch")
        except SimCrash:
            for at in sectors:
                if self._rng.random() < 0.5:
                    inode.data[at : at + SECTOR_BYTES] = data[at - offset :][:SECTOR_BYTES]
            raise
        if self.full:
            raise DiskFailed("No space left on device")
        inode.data[offset : offset + len(data)] = data
        if sync:
            self._sync(inode, "patch: sync")

    def replace(self, name: str, chunks: Iterable[bytes]) -> None:
        new = _Inode()
        for chunk in chunks:
            self._append(new, chunk, "replace: write")
        self._sync(new, "replace: sync")
        self._step("replace: rename")
        self._unsure[name] = self._files.get(name)
        self._files[name] = new
        self._step("replace: sync folder")
        self._sync_folder(name)

    # What the simulation calls

    def crash_after(self, operations: int) -> None:
        self._countdown = operations

    def disarm(self) -> None:
        self._countdown = None

    def lose_power(self) -> None:
        """Keep in part, or not at all, what was not synced. Without it, a crash is a process that was killed."""
        for name, before in self._unsure.items():
            if self._rng.random() < 0.5:
                if before is None:
                    del self._files[name]
                else:
                    self._files[name] = before
        self._unsure.clear()
        for inode in self._files.values():
            self._lose_tail(inode)

    def settle(self) -> None:
        """Do what a process does with a folder when it starts: after a kill, names may not be on the disk yet."""
        self._unsure.clear()

    def wipe(self) -> None:
        self._files.clear()
        self._unsure.clear()

    def copy(self) -> SimDisk:
        """Return the folder as a restart would find it now, on a disk that never fails."""
        other = SimDisk(Random(0), lambda seconds: None)
        other._files = {name: _Inode(bytes(inode.data)) for name, inode in self._files.items()}
        return other

    def _lose_tail(self, inode: _Inode) -> None:
        for at, before in inode.overwritten.items():
            if self._rng.random() < 0.5:
                inode.data[at : at + len(before)] = before
        inode.overwritten.clear()
        lost = len(inode.data) - inode.synced
        if not lost:
            return
        if self._rng.random() < _ZEROS_SHARE:
            for at in range(inode.synced - inode.synced % SECTOR_BYTES, len(inode.data), SECTOR_BYTES):
                if self._rng.random() < 0.5:
                    begin, end = max(at, inode.synced), min(at + SECTOR_BYTES, len(inode.data))
                    inode.data[begin:end] = bytes(end - begin)
        else:
            del inode.data[inode.synced + self._rng.randint(0, lost) :]
        inode.synced = len(inode.data)

    def _append(self, inode: _Inode, data: bytes, what: str) -> None:
        try:
            self._step(what)
        except SimCrash:
            inode.data += data[: self._rng.randint(0, len(data))]
            raise
        if self.full:
            inode.data += data[: self._rng.randint(0, len(data) // 2)]
            raise DiskFailed("No space left on device")
        inode.data += data

    def _sync(self, inode: _Inode, what: str) -> None:
        self._step(what)
        self._spend(self._sync_s())
        inode.synced = len(inode.data)
        inode.overwritten.clear()

    def _sync_s(self) -> float:
        return self._rng.uniform(0.0001, 0.002) + self._rng.random() * self.slow

    def _sync_folder(self, name: str) -> None:
        self._spend(self._rng.uniform(0.0001, 0.001))
        self._unsure.pop(name, None)

    def _step(self, what: str) -> None:
        if self._countdown is None:
            return
        self._countdown -= 1
        if self._countdown < 0:
            self._countdown = None
            self.crashed_in = what
            raise SimCrash(what)


class _SimAppendFile:
    def __init__(self, disk: SimDisk, inode: _Inode) -> None:
        self._disk, self._inode = disk, inode

    def append(self, data: bytes) -> None:
        self._disk._append(self._inode, data, "append")

    def sync(self) -> None:
        self._disk._sync(self._inode, "sync")

    def begin_sync(self) -> _SimSync:
        self._disk._step("sync")
        return _SimSync(self._disk, self._inode, self._disk.now() + self._disk._sync_s())

    def close(self) -> None:
        """Do nothing: nothing is held open in memory."""


class _SimSync:
    """A sync under way. What is appended meanwhile is not covered."""

    def __init__(self, disk: SimDisk, inode: _Inode, ends: float) -> None:
        self._disk, self._inode, self._ends = disk, inode, ends
        self._size = len(inode.data)

    def ended(self, wait_s: float) -> bool:
        left = self._ends - self._disk.now()
        if left > wait_s:
            self._disk._spend(wait_s)
            return False
        self._disk._spend(max(left, 0.0))
        self._inode.synced = max(self._inode.synced, min(self._size, len(self._inode.data)))
        return True

    def wait(self) -> None:
        self.ended(float("inf"))
