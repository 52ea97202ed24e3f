"""The accounts of this machine, as the kernel names them for the other end of a Unix socket.

The kernel notes the account of a process and its groups when it connects (SO_PEERCRED, SO_PEERGROUPS); their names are
the system's.

Invariant: an account has one name, and a name is of one account: `unix:NAME`, or `unix:uid-1234` where the system knows
none. What stands for "an account that cannot be seen from here" is nobody's.
"""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import re
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.records.access import LOCAL

MAX_GROUPS = 256  # of one account
KEPT_S = 60.0  # a name that was looked up
MAX_KEPT = 4096
_SO_PEERGROUPS = 59
_CREDENTIALS = struct.Struct("=iII")
_UNSEEN = 65_534
_BY_NUMBER = re.compile(r"[ug]id-[0-9]+")
_PLAIN = re.compile(r"[!-~]+")


class NotSeen(Exception):
    """One line that says why the account of a process is not known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What the kernel says of a process that has connected."""

    uid: int
    #: Without repetitions, its first one first.
    gids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalUser:
    """An account as a user: its name, and those of its groups."""

    user: str
    groups: tuple[str, ...] = ()


def credentials_of(sock: socket.socket) -> Credentials:
    """Return the account at the other end. Raises NotSeen for one of outside this program's user namespace, and
    OSError."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, gid = _CREDENTIALS.unpack(raw)
    if uid == _overflow("overflowuid"):
        raise NotSeen(
            f"a process of uid {uid} connected, which stands for all accounts outside this master's user namespace: run"
            " the master outside of one (PrivateUsers=no in its unit)"
        )
    return Credentials(uid=uid, gids=tuple(dict.fromkeys((gid, *_more_groups(sock)))))


class LocalAccounts:
    """Names of accounts and groups. Looking them up may ask a directory server, so it has threads of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="accounts")
        self._users = _Names("uid", lambda uid: pwd.getpwuid(uid).pw_name)
        self._groups = _Names("gid", lambda gid: grp.getgrgid(gid).gr_name)

    async def user(self, found: Credentials) -> LocalUser:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._user, found)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _user(self, found: Credentials) -> LocalUser:
        unseen = _overflow("overflowgid")
        groups = {self._groups.of(gid) for gid in found.gids[:MAX_GROUPS] if gid != unseen}
        return LocalUser(user=self._users.of(found.uid), groups=tuple(sorted(groups)))


class _Names:
    """Names by number, kept for a while."""

    def __init__(self, kind: str, look_up: Callable[[int], str]) -> None:
        self._kind = kind
        self._look_up = look_up
        self._kept: dict[int, tuple[float, str]] = {}

    def of(self, number: int) -> str:
        now = time.monotonic()
        until, name = self._kept.get(number, (0.0, ""))
        if now >= until:
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            name = self._name(number)
            self._kept[number] = (now + KEPT_S, name)
        return name

    def _name(self, number: int) -> str:
        try:
            name = self._look_up(number)
        except (KeyError, OSError):
            name = ""
        # A name that looks like one of ours, or that no binding could hold, is no name.
        usable = _PLAIN.fullmatch(name) and not _BY_NUMBER.fullmatch(name) and len(LOCAL + name) <= MAX_NAME_LENGTH
        return f"{LOCAL}{name}" if usable else f"{LOCAL}{self._kind}-{number}"


def _more_groups(sock: socket.socket) -> tuple[int, ...]:
    """Return the supplementary groups of a process; none where the kernel does not say, or has more than fit."""
    try:
        raw = sock.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * MAX_GROUPS)
    except OSError:
        return ()
    return struct.unpack(f"={len(raw) // 4}I", raw)


def _overflow(name: str) -> int:
    """Return the number by which the kernel shows accounts that a user namespace has no number for. In the first
    namespace there are none, and the number is an account like others."""
    if _is_first_namespace():
        return -1
    try:
        return int(Path(f"/proc/sys/kernel/{name}").read_text())
    except (OSError, ValueError):
        return _UNSEEN


def _is_first_namespace() -> bool:
    """Return whether all accounts have numbers here."""
    try:
        return os.path.exists("/proc/self/uid_map") and Path("/proc/self/uid_map").read_text().split() == [
            "0",
            "0",
            "4294967295",
        ]
    except OSError:
        return False
