"""Keeps the disk where tasks write from filling up: reports when too little is free, cleans up early, and measures
working directories against what their tasks may write.

Invariant: measuring costs a bounded share of one CPU, however many files tasks make.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

import structlog

from gosched.agent.beneath import open_beneath, opened

LOOK_EVERY_S = 5.0
FIT_AGAIN_PCT = 1  # more than what made the node unfit, so that it does not flap
CLEAN_BELOW_PCT = 2  # more than what makes the node unfit: cleaning up comes first
WALK_EVERY_S = 10.0  # each directory, at most
WALK_SHARE = 100  # a walk that took 1 s is followed by 100 s without one
MAX_WALK_ENTRIES = 500_000
LOG_SHARES = (0.25, 0.33, 0.5, 1.0)  # of the kept logs that are left, one round after the other
PROBE_BYTES = 256 * 1024  # what a few tasks' orders and records take


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpace:
    """What a file system has, for users other than root."""

    total_bytes: int
    free_bytes: int
    #: 0: it does not count them.
    inodes: int = 0
    free_inodes: int = 0
    read_only: bool = False


def capacity_at(path: Path) -> DiskSpace:
    """Return the space of the file system that a path is on. Raises OSError."""
    found = os.statvfs(path)
    used = (found.f_blocks - found.f_bfree) * found.f_frsize
    return DiskSpace(
        total_bytes=used + found.f_bavail * found.f_frsize,  # without what is kept for root
        free_bytes=found.f_bavail * found.f_frsize,
        inodes=found.f_files,
        free_inodes=found.f_favail,
        read_only=bool(found.f_flag & os.ST_RDONLY),
    )


def can_write(path: Path) -> bool:
    """Return whether the file system takes data, and keeps them. May wait for it."""
    probe = path / "probe"
    try:
        fd = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            written = os.write(fd, bytes(PROBE_BYTES))
            os.fsync(fd)
        finally:
            os.close(fd)
            os.unlink(probe)
    except OSError:
        return False
    return written == PROBE_BYTES


class Disk:
    """The file system of the data directory. `used_bytes`: as of the last look."""

    def __init__(self, path: Path, free_pct: int, space_of: Callable[[Path], DiskSpace] = capacity_at) -> None:
        self._path = path
        self._free_pct = free_pct
        self._space_of = space_of
        self.used_bytes = 0
        self.problem = ""  # why no more work should come here, in one line
        self.is_tight = False  # early clean-up is due

    def can_write(self) -> bool:
        return can_write(self._path)

    def look(self) -> None:
        try:
            space = self._space_of(self._path)
        except OSError as error:
            self.problem = f"cannot look at the disk of {self._path}: {error}"
            return
        self.used_bytes = space.total_bytes - space.free_bytes
        needed = self._free_pct + (FIT_AGAIN_PCT if self.problem else 0)
        self.is_tight = bool(self._free_pct) and bool(self._lacking(space, self._free_pct + CLEAN_BELOW_PCT))
        if space.read_only:
            self.problem = f"the file system of {self._path} is read-only"
        else:
            self.problem = self._lacking(space, needed) if self._free_pct else ""

    def _lacking(self, space: DiskSpace, needed_pct: int) -> str:
        for what, free, total in (
            ("disk pressure", space.free_bytes, space.total_bytes),
            ("disk pressure (inodes)", space.free_inodes, space.inodes),
        ):
            if free * 100 < needed_pct * total:
                return f"{what}: {free * 100 // total} % free on {self._path}, {needed_pct} % needed"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The directories that a live task may fill."""

    allocation_id: str
    paths: tuple[Path, ...]
    #: What they may hold together; 0: no bound.
    limit_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What directories hold."""

    held_bytes: int
    #: Whether there is more than was counted.
    is_part: bool = False


class WorkQuota:
    """Finds the working directories that hold more than they may. A task can write more than its limit between two
    looks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}

    async def over(self, works: Iterable[Work]) -> list[tuple[str, str]]:
        """Return allocation and finding of those that are over, among the directories that are due to be measured."""
        limited = [work for work in works if work.limit_bytes]
        self._due = {work.allocation_id: self._due.get(work.allocation_id, 0.0) for work in limited}
        now = self._clock()
        found = []
        for work in sorted(limited, key=lambda w: self._due[w.allocation_id]):
            if self._due[work.allocation_id] > now:
                break
            started = self._clock()
            held = await asyncio.to_thread(measure_all, work.paths, work.limit_bytes)
            took = self._clock() - started
            # Each gets an equal part of the share, so that one with a million files keeps none of the others waiting.
            self._due[work.allocation_id] = self._clock() + max(WALK_EVERY_S, took * WALK_SHARE * len(limited))
            if held.held_bytes > work.limit_bytes:
                found.append((work.allocation_id, _over(work, held)))
            elif held.is_part:
                structlog.get_logger().warning(
                    "a working directory has too many files to be measured",
                    allocation=work.allocation_id,
                    counted=MAX_WALK_ENTRIES,
                )
        return found


def measure_all(paths: Iterable[Path], enough_bytes: int) -> Measured:
    """Measure several directories together, as `measure` does."""
    held, is_part = 0, False
    for path in paths:
        found = measure(path, enough_bytes - held)
        held, is_part = held + found.held_bytes, is_part or found.is_part
        if held > enough_bytes:
            break
    return Measured(held_bytes=held, is_part=is_part)


def measure(path: Path, enough_bytes: int) -> Measured:
    """Return what the files below a directory hold on its own file system, and stop once that is more than
    `enough_bytes`. A file with several names counts once, a hole does not count. What vanishes meanwhile is not there,
    and no link is followed, whatever the task swaps for one meanwhile."""
    try:
        with opened(path, os.O_PATH | os.O_DIRECTORY) as root:
            return _measure(root, enough_bytes)
    except OSError:
        return Measured(held_bytes=0)


def _measure(root: int, enough_bytes: int) -> Measured:
    device = os.fstat(root).st_dev
    held, entries = 0, 0
    seen: set[int] = set()
    pending = [""]
    while pending:
        directory = pending.pop()
        for entry in _entries(root, directory, device):
            entries += 1
            try:
                found = entry.stat(follow_symlinks=False)
                if found.st_dev != device or (found.st_nlink > 1 and found.st_ino in seen):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{directory}/{entry.name}" if directory else entry.name)
                elif found.st_nlink > 1:
                    seen.add(found.st_ino)
            except OSError:
                continue
            held += found.st_blocks * 512
            if held > enough_bytes or entries >= MAX_WALK_ENTRIES:
                return Measured(held_bytes=held, is_part=True)
    return Measured(held_bytes=held)


def _entries(root: int, directory: str, device: int) -> Iterator[os.DirEntry[str]]:
    """Return the entries of a directory; none of one that cannot be looked at: it has gone, is another's, lies deeper
    than a path can name, or its task closed it to an agent that is not root."""
    try:
        fd = open_beneath(root, directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        if os.fstat(fd).st_dev == device:
            with os.scandir(fd) as found:
                yield from found
    except OSError:
        return
    finally:
        os.close(fd)


def _over(work: Work, held: Measured) -> str:
    more = "more than " if held.is_part else ""
    return (
        f"its working directory holds {more}{held.held_bytes} bytes, and may hold {work.limit_bytes}: "
        "ask for more with resources.storage"
    )


class DiskUsers(Protocol):
    """The tasks of this node, which use the disk."""

    def works(self) -> list[Work]:
        """Return what each live task may fill."""

    def stop_for_quota(self, allocation_id: str, detail: str) -> None:
        """End a task with reason DISK_QUOTA; does nothing for one that has ended."""

    async def clean(self, keep_s: float) -> None:
        """Remove what ended, and was forgotten, longer ago than this."""

    async def drop_logs(self, share: float) -> None:
        """Drop the oldest of the kept logs, with about this share of their bytes."""


async def watch(tasks: DiskUsers, disk: Disk, keep_s: float) -> NoReturn:
    """Stop tasks over their quota, and clean up early, for as long as the agent runs. `disk.look` is called by its
    owner."""
    quota = WorkQuota()
    was_tight = False
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        if disk.is_tight:
            kept_s = await clean_early(tasks, disk, keep_s)
            if not was_tight:
                structlog.get_logger().warning("the disk is nearly full: ended tasks go early", kept_s=round(kept_s))
        was_tight = disk.is_tight
        for allocation_id, detail in await quota.over(tasks.works()):
            tasks.stop_for_quota(allocation_id, detail)


async def clean_early(tasks: DiskUsers, disk: Disk, keep_s: float) -> float:
    """Remove the oldest first: keep ended tasks for half as long, a quarter, ..., then fewer of their logs, until there
    is enough room or nothing is left. Return for how long they were kept."""
    for kept_s in (keep_s / 2, keep_s / 4, keep_s / 8, keep_s / 16):
        await tasks.clean(kept_s)
        await asyncio.to_thread(disk.look)
        if not disk.is_tight:
            return kept_s
    await tasks.clean(0.0)
    await asyncio.to_thread(disk.look)
    for share in LOG_SHARES:
        if disk.is_tight:
            await tasks.drop_logs(share)
            await asyncio.to_thread(disk.look)
    return 0.0
