"""Modes of files and directories that hold keys or state: they are the daemon's own, and closed to other users.

Invariant: a mode is tightened only where the program owns what it is of; anything else that is too open is refused, in
one line that says what to do.
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

#: What others may not do with a data directory: anything, or all but pass through.
CLOSED, PASSABLE = 0o077, 0o066
#: A secret may be read by a group: Kubernetes and Debian's `ssl-cert` hand keys out so.
_SECRET = stat.S_IWGRP | stat.S_IRWXO
_FRESH = ("lost+found",)  # what a new file system holds
_TAKEN = ("lock", "raft")  # what agents and masters make first


def exposed(file: str | Path) -> str:
    """Return why a file with a secret is refused, in one line; empty: it is private, or no regular file. Raise
    OSError."""
    mode = os.stat(file).st_mode
    if not stat.S_ISREG(mode) or not mode & _SECRET:
        return ""
    return f"users other than its owner can use the secret in {file} (mode {_octal(mode)}): chmod 600 {file}"


def tighten(path: Path, taken: int = CLOSED) -> None:
    """Take these bits from a mode, where the path is this user's own. Raise OSError."""
    seen = path.stat()
    if seen.st_uid == os.geteuid() and seen.st_mode & taken:
        path.chmod(stat.S_IMODE(seen.st_mode) & ~taken)


def close_directory(path: Path, taken: int = CLOSED) -> str:
    """Take these bits from the mode of a data directory that is empty or in use as one, and return why another one is
    refused, in one line; empty: it can be used. Raise OSError."""
    seen = path.stat()
    me = os.geteuid()
    if seen.st_uid not in (me, 0):
        owner = _name(seen.st_uid)
        return f"the data directory {path} belongs to {owner}: chown {_name(me)} {path}, or choose another"
    if seen.st_uid == me and _is_data(path):
        tighten(path, taken)
        return ""
    # One that root prepared, or that holds something else: its mode is left alone.
    if seen.st_mode & _writers(path, seen, me):
        how = f"chmod go-w {path}, or choose another"
        return f"users other than its owner can write in the data directory {path} (mode {_octal(seen.st_mode)}): {how}"
    return ""


def _writers(path: Path, seen: os.stat_result, me: int) -> int:
    """Return which of group and others may not write in a directory. Volumes of Kubernetes are root's, made for the
    group of a pod or for everybody, and mounted where only the pod reaches them."""
    if seen.st_uid == me:
        return stat.S_IWGRP | stat.S_IWOTH
    return 0 if os.path.ismount(path) and not seen.st_mode & stat.S_ISVTX else stat.S_IWOTH


def _is_data(path: Path) -> bool:
    """Return whether a directory is empty, or a program has taken it."""
    names = [name for name in os.listdir(path) if name not in _FRESH]
    return not names or any(name in names for name in _TAKEN)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _octal(mode: int) -> str:
    return f"{stat.S_IMODE(mode):03o}"
