"""The file of a Unix socket, and the closed directory beside it.

Invariant: nothing is removed but sockets that nothing listens on; and the socket is where no one else can put another
one in its place.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
from pathlib import Path

from gosched.config import ConfigError

KEY = "server.socket"
BACKLOG = 128
#: Everyone may connect: what an account may do is decided by its name.
OPEN_TO_ALL = 0o666
_LOOK_S = 1.0
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class SocketFile:
    """A public path, and a private directory beside it for the sockets within the program."""

    def __init__(self, path: str) -> None:
        """Check the directory, and take the private one. Raises ConfigError."""
        self.path = path
        self.private = f"{path}.d"
        self._inode: tuple[int, int] | None = None
        _check_parents(Path(path).parent)
        self._lock = _taken(self.private)

    def listen(self) -> socket.socket:
        """Return the public socket, which listens. Raises ConfigError."""
        _make_way(self.path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.setblocking(False)
            listening.bind(self.path)
            seen = os.lstat(self.path)
            self._inode = seen.st_dev, seen.st_ino
            os.chmod(self.path, OPEN_TO_ALL)
            listening.listen(BACKLOG)
        except OSError as error:
            listening.close()
            raise ConfigError(f"{KEY}: cannot listen on {self.path}: {error.strerror or error}") from error
        return listening

    def remove_public(self) -> None:
        """Remove the public socket, if it is still this program's."""
        if self._inode is None:
            return
        with contextlib.suppress(FileNotFoundError):
            seen = os.lstat(self.path)
            if (seen.st_dev, seen.st_ino) == self._inode:
                os.unlink(self.path)
        self._inode = None

    def close(self) -> None:
        """Remove all that is left, and give the private directory back."""
        self.remove_public()
        if self._lock >= 0:
            _empty(self.private)
            with contextlib.suppress(OSError):
                os.rmdir(self.private)
            os.close(self._lock)
            self._lock = -1


def _check_parents(folder: Path) -> None:
    """Check that no other account can replace the socket, or a directory on its way. Raises ConfigError."""
    try:
        real = folder.resolve(strict=True)
        for place in (real, *real.parents):
            seen = place.stat()
            sticky = place != real and seen.st_mode & stat.S_ISVTX  # others cannot rename what lies in it
            if seen.st_uid not in (0, os.geteuid()) or (seen.st_mode & _OTHERS_WRITE and not sticky):
                raise ConfigError(
                    f"{KEY}: other users can write in {place} (mode {stat.S_IMODE(seen.st_mode):03o}), and so put"
                    f" another socket in the place of this one: chmod go-w {place}, or choose another directory"
                )
    except OSError as error:
        raise ConfigError(
            f"{KEY}: the directory {folder} cannot be used ({error.strerror}): make it for the account of this master"
        ) from error


def _taken(private: str) -> int:
    """Return the lock of the private directory, which is made where there is none. Raises ConfigError."""
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(private, 0o700)
        seen = os.lstat(private)
        if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
            raise ConfigError(f"{KEY}: {private} is no directory of this account: remove it")
        os.chmod(private, 0o700)
        lock = os.open(private, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            path = private.removesuffix(".d")
            raise ConfigError(f"{KEY}: another master listens on {path}: give each its own") from None
        _empty(private)
    except OSError as error:
        raise ConfigError(f"{KEY}: cannot make {private}: {error.strerror}") from error
    return lock


def _empty(private: str) -> None:
    """Remove the sockets that a master left which did not end by itself."""
    for entry in os.scandir(private):
        if stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
            os.unlink(entry.path)


def _make_way(path: str) -> None:
    """Remove a socket that nothing listens on. Raises ConfigError for anything else at its place."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"{KEY}: {path} is there, and is no socket: remove it, or choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_LOOK_S)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except OSError as error:
            raise ConfigError(f"{KEY}: cannot tell what listens on {path}: {error.strerror or error}") from error
    raise ConfigError(f"{KEY}: another program listens on {path}: stop it, or choose another path")
