"""The files of an audit log: appended to, synced, and rotated by size; the chain goes on from file to file.

`audit.jsonl` is written; when it is full it becomes `audit-<its first seq>.jsonl`, and the oldest of these go.

Invariant: after a failed write the file ends where it ended before, or nothing more is written to it. What a crash left
of a line is cut off, and stands in the next record. One process writes to a folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Sequence
from pathlib import Path

from gosched.audit.chain import Head, next_line, read_line
from gosched.audit.record import MAX_LINE_BYTES, AuditRecord

CURRENT = "audit.jsonl"
_ROTATED = re.compile(r"audit-(\d{12,18})\.jsonl")
_TAIL_BYTES = 64 * MAX_LINE_BYTES
MAX_TORN_BYTES = 256  # of a torn line that are kept


def rotated_seq(name: str) -> int:
    """Return the seq that a file that was rotated begins with; 0: it is none."""
    found = _ROTATED.fullmatch(name)
    return int(found[1]) if found else 0


def files_of(folder: Path) -> list[Path]:
    """Return the files of a log, the oldest first. Raises OSError."""
    names = os.listdir(folder)
    rotated = sorted((name for name in names if rotated_seq(name)), key=rotated_seq)
    return [folder / name for name in [*rotated, *([CURRENT] if CURRENT in names else [])]]


class ChainFile:
    """The log in a folder; used by one thread. `head`: of the newest line that is on the disk."""

    def __init__(self, folder: Path, *, max_bytes: int, max_files: int) -> None:
        """`max_files`: with the one that is written."""
        self._folder = folder
        self._path = folder / CURRENT
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._fd = -1
        self._size = 0
        self._first = 0  # the seq of the file's first line; 0: it has none
        self._is_undone = True  # what a write that failed left behind
        self.head = Head()
        #: What a crash left of a line, until the next record has it.
        self._torn = b""

    def open(self) -> None:
        """Find the end of the chain, and what a crash left behind it. Raises OSError."""
        found = files_of(self._folder)
        for path in reversed(found):
            if (head := _last_head(path)) is not None:
                self.head = head
                break
        self._take_up()
        whole = _whole_bytes(self._fd)
        self._torn = os.pread(self._fd, MAX_TORN_BYTES, whole)
        if whole < self._size:
            os.ftruncate(self._fd, whole)
            self._size = whole

    def append(self, records: Sequence[AuditRecord]) -> None:
        """Write records, and sync them. Raises OSError; none of them is written then."""
        self._check_open()
        if self._first and self._size >= self._max_bytes:
            self._rotate()
        head, lines = self.head, list[bytes]()
        for record in records:
            head, line = next_line(head, record)
            lines.append(line)
        data = b"".join(lines)
        try:
            written = os.write(self._fd, data)
            if written < len(data):
                os.write(self._fd, data[written:])  # says why: a full disk takes a part
            if os.fstat(self._fd).st_size != self._size + len(data):
                raise OSError(0, "a part of it was not written")
            os.fdatasync(self._fd)
        except OSError:
            self._undo()
            raise
        self._size += len(data)
        self._first = self._first or self.head.seq + 1
        self.head = head
        self._torn = b""

    @property
    def torn(self) -> str:
        """Return what a crash left of a line, as hexadecimal digits; empty: nothing."""
        return self._torn.hex()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _check_open(self) -> None:
        """Take up the file again after a failure, or where it was moved away by others. Raises OSError."""
        if self._fd >= 0:
            try:
                here, there = os.fstat(self._fd), os.stat(self._path)
                if (here.st_ino, here.st_dev, here.st_size) == (there.st_ino, there.st_dev, self._size):
                    return
            except FileNotFoundError:
                pass
            self.close()
        known = self._size
        self._take_up()
        if not self._is_undone and self._size > known:
            os.ftruncate(self._fd, known)
            self._size = known
        self._is_undone = True

    def _take_up(self) -> None:
        self._fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise OSError(error.errno, "another master writes to it", str(self._path)) from error
        seen = os.fstat(self._fd)
        if seen.st_uid == os.geteuid():  # volumes of Kubernetes may belong to root, and be opened by a pod's group
            os.fchmod(self._fd, 0o600)
        self._size = seen.st_size
        self._first = _first_seq(self._fd)
        _sync_folder(self._folder)

    def _undo(self) -> None:
        self._is_undone = False
        with contextlib.suppress(OSError):  # else the next append does it
            os.ftruncate(self._fd, self._size)
            self._is_undone = True
        self.close()

    def _rotate(self) -> None:
        self.close()
        os.rename(self._path, self._folder / f"audit-{self._first:012d}.jsonl")
        self._take_up()
        rotated = [path for path in files_of(self._folder) if rotated_seq(path.name)]
        for path in rotated[: max(0, len(rotated) - (self._max_files - 1))]:
            path.unlink()


def _last_head(path: Path) -> Head | None:
    """Return the place of the last line that can be read; None: there is none. The chain goes on after it: verify names
    what was damaged behind it."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        lines = file.read().split(b"\n")[:-1]
    for line in reversed(lines):
        with contextlib.suppress(ValueError):
            return read_line(line).head
    return None


def _first_seq(fd: int) -> int:
    line, newline, _ = os.pread(fd, 2 * MAX_LINE_BYTES, 0).partition(b"\n")
    if not newline:
        return 0
    try:
        return read_line(line).head.seq
    except ValueError:
        return 0


def _whole_bytes(fd: int) -> int:
    """Return the size of the file up to the end of its last whole line."""
    size = os.fstat(fd).st_size
    end = size
    while end:
        begin = max(0, end - _TAIL_BYTES)
        place = os.pread(fd, end - begin, begin).rfind(b"\n")
        if place >= 0:
            return begin + place + 1
        end = begin
    return 0


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
