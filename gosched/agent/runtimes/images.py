"""Root filesystems that were unpacked from tarballs, kept for the next task that needs them.

Invariant: what has its final name is whole, is never written to again, and is not removed while a task uses it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from gosched.agent.beneath import reopen
from gosched.agent.host_paths import path_of
from gosched.agent.runtimes import unpack
from gosched.agent.runtimes.faults import MAX_TEXT
from gosched.agent.runtimes.interface import CannotRun
from gosched.agent.tasks.removal import remove_tree
from gosched.core.reasons import Reason

MAX_IMAGES = 16  # unpacked ones that no task uses stay, up to so many
MAX_BYTES = 64 << 30  # of one image
MAX_ENTRIES = 2_000_000
_UNPACK_S = 1800


class Images:
    """Root filesystems below `path`, a directory of its own, made when it is first needed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def ready(self, archive: int, user: Path) -> Path | None:
        """Return the root filesystem as `unpacked` does, but at once: None where it is not unpacked yet."""
        image = self._place(archive)
        if not image.is_dir():
            return None
        with _locked(image.with_suffix(".lock"), wait=False) as held:
            if not held or not image.is_dir():
                return None
            _mark(image, user)
        return image

    def unpacked(self, archive: int, user: Path) -> Path:
        """Return the root filesystem in an archive, of which `archive` is a descriptor that was opened with the rights
        of the task's user. It stays at least as long as `user`, a directory, is there.

        Waits while the archive is unpacked, by this caller or another. Raises CannotRun, OSError.
        """
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        image = self._place(archive)
        with _locked(image.with_suffix(".lock")):
            if not image.is_dir():
                self._unpack(archive, image)
            _mark(image, user)
        self._evict(keep=image)
        return image

    def _place(self, archive: int) -> Path:
        """Return where it is unpacked. A file that was written anew is another image; reading 10 GB at each start to be
        certain is no choice. Its owner can set back the time of a change, but not that of the inode's."""
        seen = os.fstat(archive)
        known = (path_of(archive), seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
        return self._path / blake2b(repr(known).encode(), digest_size=16).hexdigest()

    def _unpack(self, archive: int, image: Path) -> None:
        half = image.with_suffix(".half")
        if half.exists():
            remove_tree(half)
        half.mkdir(mode=0o755)
        try:
            self._fill(archive, half)
        except BaseException:
            remove_tree(half)
            raise
        half.rename(image)

    def _fill(self, archive: int, directory: Path) -> None:
        """Unpack the archive. Raises CannotRun."""
        name = path_of(archive)
        words = [sys.executable, "-I", "-S", unpack.__file__, str(directory), str(MAX_BYTES), str(MAX_ENTRIES)]
        file = reopen(archive, os.O_RDONLY)
        try:
            done = subprocess.run(words, stdin=file, capture_output=True, timeout=_UNPACK_S, check=False, env={})
        except subprocess.TimeoutExpired as error:
            raise CannotRun(Reason.BAD_IMAGE, f"{name} was not unpacked within {_UNPACK_S} s") from error
        finally:
            os.close(file)
        if done.returncode == 2:
            why = _last_line(done.stderr)
            raise CannotRun(Reason.CANNOT_STORE, f"this node cannot unpack {name}: {why}", blames_node=True)
        if done.returncode:
            known = ".tar, .tar.gz, .tar.xz or .tar.bz2"
            why = _last_line(done.stderr) or f"it ended the unpacking with {done.returncode}"
            raise CannotRun(Reason.BAD_IMAGE, f"{name} is no archive that can be unpacked ({known}): {why}")

    def _evict(self, keep: Path) -> None:
        """Remove the images that were not needed for the longest time, beyond MAX_IMAGES; those in use stay."""
        locks = sorted(self._path.glob("*.lock"), key=lambda lock: lock.stat().st_mtime_ns)
        surplus = len(locks) - MAX_IMAGES
        for lock in locks:
            if surplus <= 0:
                return
            image = lock.with_suffix("")
            if image == keep:
                continue
            with _locked(lock, wait=False) as free:
                if not free or _in_use(image.with_suffix(".users")):
                    continue
                for left in (image, image.with_suffix(".half"), image.with_suffix(".users")):
                    with contextlib.suppress(OSError):
                        remove_tree(left)
                # Whoever opened it meanwhile sees, once it has the lock, that the name is gone, and starts over.
                lock.unlink()
            surplus -= 1


def _last_line(words: bytes) -> str:
    return words.decode(errors="replace").strip().rpartition("\n")[2][:MAX_TEXT]


def _mark(image: Path, user: Path) -> None:
    users = image.with_suffix(".users")
    users.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (users / blake2b(os.fsencode(user), digest_size=16).hexdigest()).symlink_to(user)
    os.utime(image.with_suffix(".lock"))  # when it was last needed


def _in_use(users: Path) -> bool:
    """Return whether a task uses it, and forget users that are gone."""
    if not users.is_dir():
        return False
    used = False
    for mark in users.iterdir():
        if mark.exists():  # what it points to
            used = True
        else:
            mark.unlink()
    return used


@contextlib.contextmanager
def _locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Yield whether the lock is held."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            try:
                current = os.stat(path).st_ino == os.fstat(fd).st_ino
            except FileNotFoundError:
                current = False
            if current:
                yield True
                return
        finally:
            os.close(fd)
