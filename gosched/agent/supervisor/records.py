"""The files by which a supervisor and its agent talk to each other, in the allocation's directory.

Invariant: a file is whole or not there; the agent has reserved disk blocks for each, so a full disk stops none.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

RETRY_S = 1.0
READ_BYTES = 1 << 16
LOG = "supervisor.log"  # made by the first line in it, which most tasks never have
CHECKPOINT_FILE = "work/.gosched-checkpoint"  # the task writes it when it has saved itself

# Written by the agent, and by the supervisor.
STOP, FREEZE = "stop.json", "freeze.json"
SUPERVISOR, TASK, SAVING, FROZEN, RESULT, EXIT = (
    "supervisor.json",
    "task.json",
    "saving.json",
    "frozen.json",
    "result.json",
    "exit.json",
)
# Of the node, not of a task that they keep from being started.
NODE_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
USAGE = "usage.json"  # by a runtime that counts itself, now and then
# Written in any case, and only by some tasks.
ALWAYS, AT_TIMES = (SUPERVISOR, TASK, EXIT), (STOP, FREEZE, SAVING, FROZEN, RESULT)


@dataclass(slots=True)
class StopOrder:
    """An order to end the task: the checkpoint signal and time for it, then SIGTERM and the grace, then SIGKILL."""

    #: Between SIGTERM and SIGKILL; 0: killed at once.
    grace_ms: int
    #: Code of why it ends.
    reason: str
    #: Number of the signal that asks the task to save itself; 0: it is not asked.
    checkpoint_signal: int = 0
    #: How long it may take to do so; 0: it is not asked.
    checkpoint_ms: int = 0
    #: Name of the state in which the task ends.
    ends_as: str = "KILLED"
    #: One line for people. Empty: how the process ended.
    detail: str = ""


def read_stop() -> StopOrder | None:
    """Return the order to stop, once there is one. A later agent may have written more than is known here."""
    found = read(STOP)
    if found is None:
        return None
    known = {each.name: found[each.name] for each in fields(StopOrder) if each.name in found}
    return StopOrder(**known)


def wants_frozen() -> bool:
    """Return whether the agent wants the task frozen."""
    found = read(FREEZE)
    return bool(found and found["frozen"])


def read(name: str) -> dict[str, Any] | None:
    """Return the record in a file; None: there is no such file."""
    text = contents(name)
    found: dict[str, Any] | None = json.loads(text) if text is not None else None
    return found


def contents(name: str) -> bytes | None:
    """Return what is in a file; None: there is no such file."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        parts = []
        while part := os.read(file, READ_BYTES):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


def write(name: str, record: object, sync: bool = False) -> None:
    """Write a record into the temporary file, which may be there already, and rename it."""
    temporary, text = name + ".tmp", json.dumps(record).encode()
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)  # tasks of others may know its path
    try:
        if os.write(file, text) < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.ftruncate(file, len(text))
        if sync:
            os.fsync(file)
    finally:
        os.close(file)
    os.rename(temporary, name)
    if sync:
        directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(directory)
        os.close(directory)


def note(name: str, record: object) -> None:
    """Write a record for the agent to report. A full disk must not keep the task from its end."""
    try:
        write(name, record)
    except OSError as error:
        complain(f"cannot write {name}: {error}")


def record_exit(record: dict[str, Any]) -> None:
    """Write the end, trying for as long as the directory is there, so that no result is lost."""
    while os.stat(".").st_nlink > 0:
        try:
            write(EXIT, record, sync=True)
            return
        except OSError as error:
            complain(f"cannot record the exit yet: {error}")
            time.sleep(RETRY_S)


class Output:
    """Where `complain` writes: to stderr, and while a supervisor attends to a task into LOG of its directory."""

    is_file = False


def complain(text: str) -> None:
    """Say a line where this program says such things. Where a disk is full there is no other place to say it."""
    with contextlib.suppress(OSError), output() as fd:
        os.write(fd, f"{text}\n".encode(errors="backslashreplace"))


@contextlib.contextmanager
def output() -> Iterator[int]:
    """Lend a descriptor for lines of this program and of its commands. In a supervisor stderr leads nowhere, so where
    LOG cannot be made, on a full disk, the lines are lost; what would say them goes on."""
    fd = 2
    if Output.is_file:
        with contextlib.suppress(OSError):
            fd = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        if fd != 2:
            os.close(fd)


def now_ms() -> int:
    return int(time.time() * 1000)


def boot_ms() -> int:
    """Return the time since boot. It goes on while the host is suspended, and is never set."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
