"""The agent's data directory: the id of this node, which cluster it belongs to, and the highest epoch it has seen.

Invariant: one agent at a time holds it; a node belongs to the first cluster that it joined, or to one that was restored
from a backup of that, for as long as it has this directory. The id is at first the host's name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import socket
import struct
from pathlib import Path

from gosched.agent.files import reserve, sync_directory, write_synced
from gosched.agent.supervisor.records import boot_ms
from gosched.config.private import PASSABLE, close_directory, tighten

_MAX_HOST_NAME = 64
_FS_IOC_GETFLAGS, _FS_IOC_SETFLAGS, _FS_TOPDIR_FL = 0x80086601, 0x40086602, 0x00020000  # of linux/fs.h


class DataDirError(Exception):
    """One line for people: what is wrong with the directory and what to do."""


class DataDir:
    """The data directory, with its lock held until `close`.

    Layout: `lock`, `node_id`, `place`, `cluster`, `epoch`, `lease`, `addresses.json`, and the directories `tasks`,
    `logs`, `spare` and `trash`.
    Tasks of other users pass through to their working directories, and can list nothing on the way.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lease = path / "lease"
        self.tasks = path / "tasks"
        self.logs = path / "logs"
        self.trash = path / "trash"
        self.accounts = path / "accounts"  # of tenants; made where they have any
        self.spare = path / "spare"
        self._leased_until_ms = 0  # under this boot of the agent
        try:
            for directory in (path, self.tasks, self.trash):
                directory.mkdir(parents=True, exist_ok=True, mode=0o711)
            if problem := close_directory(path, PASSABLE):
                raise DataDirError(f"{problem} with --data-dir")
            for directory in (self.tasks, self.trash):
                tighten(directory, PASSABLE)
            _spread(self.tasks)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise DataDirError(
                f"cannot use the data directory {path}: {error.strerror}; choose another with --data-dir"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise DataDirError(
                f"another agent uses the data directory {path}; give this one its own with --data-dir"
            ) from error
        try:
            self.node_id = self._read("node_id") or self._stored_id(_host_name())
            self._cluster_id = self._read("cluster")
            self._epoch = self._heard_epoch = self._read_epoch()
            self._note_place()
            self._reserve_epoch()
        except (OSError, DataDirError) as error:
            os.close(self._lock)
            raise DataDirError(f"cannot use the data directory {path}: {error}") from error

    @property
    def epoch(self) -> int:
        """Return the highest epoch seen; 0 before the first."""
        return self._epoch

    @property
    def cluster_id(self) -> str:
        """Return the cluster that this node belongs to. Empty: it has joined none yet, or one that has no id."""
        return self._cluster_id

    def join(self, cluster_id: str) -> None:
        """Record the cluster that this node belongs to, if it has none yet. It is on the disk before it counts."""
        if cluster_id and not self._cluster_id:
            write_synced(self.path / "cluster", f"{cluster_id}\n".encode())
            self._cluster_id = cluster_id

    def follow_to(self, cluster_id: str) -> None:
        """Record that the cluster of this node was restored from a backup, under this id."""
        write_synced(self.path / "cluster", f"{cluster_id}\n".encode())
        self._cluster_id = cluster_id

    def belongs_to(self, cluster_id: str) -> bool:
        """Return whether a master of this cluster may give orders here."""
        return not self._cluster_id or cluster_id == self._cluster_id

    def raise_epoch(self, epoch: int) -> None:
        """Store the epoch before it counts: after a crash this node still refuses what it refused before."""
        if epoch > self._epoch:
            write_synced(self.path / "epoch", f"{epoch}\n".encode())
            self._epoch = epoch
            self._reserve_epoch()

    @property
    def lease_is_over(self) -> bool:
        """Return whether the masters may count this node as dead, and have placed its tasks elsewhere."""
        return boot_ms() >= self._leased_until_ms

    @property
    def heard_epoch(self) -> int:
        """Return the highest epoch that a master answered with; before the first answer, the one that was stored."""
        return self._heard_epoch

    def hear(self, epoch: int) -> None:
        self._heard_epoch = max(self._heard_epoch, epoch)

    def correct_epoch(self, epoch: int) -> None:
        """Store a lower epoch, where the one that was seen never was."""
        write_synced(self.path / "epoch", f"{epoch}\n".encode())
        self._epoch = self._heard_epoch = epoch

    def write_lease(self, until_ms: int, length_ms: int) -> None:
        """Write until when the masters count on this node, in milliseconds of CLOCK_BOOTTIME, and for how long in all:
        supervisors read it. It is overwritten in place, so a full disk does not matter."""
        self._leased_until_ms = until_ms
        fd = os.open(self.lease, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, f"{until_ms:020d} {length_ms:010d}\n".encode(), 0)
        finally:
            os.close(fd)

    def end_absence(self) -> None:
        """Take back the long lease that the masters gave while no agent ran here. Call it before the masters hear that
        one runs: from then on they may count on no more than the usual lease. Raises OSError."""
        try:
            until_ms, length_ms = map(int, self._read("lease").split())
        except ValueError:  # there is none; to supervisors, too, one that cannot be read is over
            return
        if until_ms > boot_ms() + length_ms:
            self.write_lease(boot_ms() + length_ms, length_ms)
            self._leased_until_ms = 0

    def is_lock(self, fd: int) -> bool:
        """Return whether this descriptor is of the lock that this agent holds."""
        return os.path.samestat(os.fstat(fd), os.fstat(self._lock))

    def is_in_place(self) -> bool:
        """Return whether the directory still is what its path names."""
        try:
            return os.path.samestat(os.stat(self.path / "lock"), os.fstat(self._lock))
        except OSError as error:
            return not isinstance(error, FileNotFoundError | NotADirectoryError)

    def close(self) -> None:
        os.close(self._lock)

    def take_another_id(self) -> bool:
        """Add to the host's name what no other agent of it has. Return False for a node that has joined a cluster, or
        that was named by a person: it keeps its id."""
        if self._cluster_id or self.node_id != _host_name():
            return False
        self.node_id = self._stored_id(f"{self.node_id}-{secrets.token_hex(2)}")
        return True

    def _stored_id(self, node_id: str) -> str:
        write_synced(self.path / "node_id", f"{node_id}\n".encode())
        sync_directory(self.path.parent)
        return node_id

    def _note_place(self) -> None:
        """Refuse a copy: it must not speak for the node, whose tasks write to the directory that was copied."""
        before = self._read("place")
        if before == str(self.path):
            return
        other = Path(before, "node_id")
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            is_another = before and not other.samefile(self.path / "node_id")
            if is_another and other.read_text(encoding="utf-8").strip() == self.node_id:
                raise DataDirError(
                    f"it is a copy of {before}, which is there still; start the agent on that one, or remove it first"
                )
        write_synced(self.path / "place", f"{self.path}\n".encode())

    def _reserve_epoch(self) -> None:
        """Reserve disk blocks: a new leader must be able to stop the task that filled the disk."""
        with contextlib.suppress(OSError):
            reserve(self.path / "epoch")

    def _read_epoch(self) -> int:
        text = self._read("epoch") or "0"
        if not text.isdecimal():
            raise DataDirError(f"its file 'epoch' holds {text[:20]!r}, not a number; move the directory away")
        return int(text)

    def _read(self, name: str) -> str:
        try:
            return (self.path / name).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return ""


def _host_name() -> str:
    """Return the name of this host as the id of a node, or a random one where the host's tells it from no other."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:_MAX_HOST_NAME]
    return f"n-{secrets.token_hex(6)}" if name.partition(".")[0] in ("", "localhost") else name


def _spread(parent: Path) -> None:
    """Let ext4 place each directory that is made here away from the others, as `chattr +T` does. In one place a new
    file takes up to 0.7 ms where many were removed within five minutes: without a journal ext4 passes over their inodes
    one by one."""
    fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # other file systems have no such flag: it saves time, and no more
            (flags,) = struct.unpack("l", fcntl.ioctl(fd, _FS_IOC_GETFLAGS, bytes(struct.calcsize("l"))))
            fcntl.ioctl(fd, _FS_IOC_SETFLAGS, struct.pack("l", flags | _FS_TOPDIR_FL))
    finally:
        os.close(fd)
