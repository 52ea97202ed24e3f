"""Small files with disk blocks of their own, for records that have to be written when the disk is full.

To make a file costs more than to rename one, and most tasks end without half of their records: those files are taken
back, for the tasks that come next.

Invariant: a task has its files before it starts; a file is one task's at a time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from gosched.agent.files import RESERVED_BYTES, reserve, temporary

MAX_SPARE = 1024


class Reserves:
    """The files that no task has, in a directory of their own."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError."""
        directory.mkdir(mode=0o700, exist_ok=True)
        self._directory = directory
        self._spare = [entry.name for entry in os.scandir(directory) if _has_blocks(entry)]
        self._numbers = count(max([int(name) for name in self._spare if name.isdecimal()], default=0) + 1)

    def give(self, directory: Path, names: Iterable[str]) -> None:
        """Reserve a file for each of these records of the directory. Raises OSError. Any thread may call it."""
        for name in names:
            path = f"{directory}/{name}"
            try:
                os.rename(f"{self._directory}/{self._spare.pop()}", temporary(path))
            except (IndexError, FileNotFoundError):
                reserve(path)

    def take_back(self, directory: Path, names: Iterable[str]) -> None:
        """Take the files back of those records that were not written. Any thread may call it."""
        for name in names:
            if len(self._spare) >= MAX_SPARE:
                return
            spare = str(next(self._numbers))
            with contextlib.suppress(OSError):  # it was written
                os.rename(temporary(f"{directory}/{name}"), f"{self._directory}/{spare}")
                self._spare.append(spare)


def _has_blocks(entry: os.DirEntry[str]) -> bool:
    """Return whether a file is still whole, and remove one that is not: the host lost its power."""
    if entry.stat().st_size >= RESERVED_BYTES:
        return True
    os.unlink(entry.path)
    return False
