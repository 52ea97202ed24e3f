"""The files through which a supervisor and its agent speak, in the allocation's directory.

Invariant: a file is whole or not there; the agent has reserved room on the disk for each, so a full disk stops none.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from dataclasses import dataclass, fields
from typing import Any

RETRY_S = 1.0
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
NODE_FAULT = "NODE_FAULT"
NODE_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
USAGE = "usage.json"  # by a runtime that counts itself, now and then
BY_AGENT = (STOP, FREEZE)
BY_SUPERVISOR = (SUPERVISOR, TASK, SAVING, FROZEN, RESULT, EXIT)


@dataclass(slots=True)
class StopOrder:
    """First the signal and the time to save itself, unless either is 0; then SIGTERM, its grace, SIGKILL. `ends_as`:
    the state that it ends in."""

    grace_ms: int
    reason: str
    checkpoint_signal: int = 0
    checkpoint_ms: int = 0
    ends_as: str = "KILLED"
    detail: str = ""


def read_stop() -> StopOrder | None:
    """Return the order to stop, once there is one. A later agent may have written more than is known here."""
    found = read(STOP)
    if found is None:
        return None
    known = {each.name: found[each.name] for each in fields(StopOrder) if each.name in found}
    return StopOrder(**known)


def wants_frozen() -> bool:
    found = read(FREEZE)
    return bool(found and found["frozen"])


def read(name: str) -> dict[str, Any] | None:
    try:
        with open(name, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return None
    return found


def write(name: str, record: object, sync: bool = False) -> None:
    """Into the temporary file that is there, if one is."""
    temporary = name + ".tmp"
    with open(temporary, "r+", encoding="utf-8", opener=own) as file:
        json.dump(record, file)
        file.truncate()
        file.flush()
        if sync:
            os.fsync(file.fileno())
    os.rename(temporary, name)
    if sync:
        directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(directory)
        os.close(directory)


def own(name: str, flags: int) -> int:
    """Tasks of other users may know the path, and must not read it."""
    return os.open(name, flags | os.O_CREAT, 0o600)


def note(name: str, record: object) -> None:
    """For the agent to tell. A full disk must not keep the task from its end."""
    try:
        write(name, record)
    except OSError as error:
        complain(f"cannot write {name}: {error}")


def record_exit(record: dict[str, Any]) -> None:
    """Tries for as long as there is a place to write to, so that no result is lost."""
    while os.stat(".").st_nlink > 0:
        try:
            write(EXIT, record, sync=True)
            return
        except OSError as error:
            complain(f"cannot record the exit yet: {error}")
            time.sleep(RETRY_S)


def complain(text: str) -> None:
    """Into supervisor.log."""
    print(text, file=sys.stderr, flush=True)


def now_ms() -> int:
    return int(time.time() * 1000)


def boot_ms() -> int:
    """Goes on while the host sleeps, and is never set."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
