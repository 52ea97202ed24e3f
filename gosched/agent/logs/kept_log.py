"""One kept log on the disk: a directory with the files of both streams, the indexes of their times, and a record.

Invariant: the record is in the directory before that gets its name, so whatever has a name is whole. A log that was
dropped is a record alone: it says when, and why.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from gosched.agent.beneath import opened
from gosched.agent.files import replace
from gosched.agent.supervisor.log_times import PREFIX as TIMES
from gosched.agent.tasks.removal import remove_tree

RECORD = "record.json"
BLOCK_BYTES = 512  # the unit of st_blocks
_STREAMS = ("stdout-", "stderr-")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLog:
    """The log of one allocation that has ended."""

    allocation_id: str
    task_id: str
    job_id: str
    #: By the node's wall clock.
    ended_at_ms: int
    #: The task's command ran: otherwise it has no output, and `detail` says why.
    has_started: bool
    #: Why it did not start, in one line.
    detail: str = ""
    #: What its directory takes on the disk.
    size_bytes: int = 0
    #: It needs no (more) upload: it is in the archive, or could not be had there.
    is_archived: bool = False
    #: 0: it is here.
    dropped_at_ms: int = 0
    #: Why it was dropped, in one line.
    dropped_why: str = ""


def take(logs: Path, target: Path, trash: Path, log: KeptLog) -> KeptLog:
    """Move a task's directory `logs` to `target`, and return the record with its size. What is there already is the
    log of a task that had the same id before the masters were restored from a backup: it goes. Raises OSError."""
    if target.exists():
        discard(target, trash)
    taken = _with_size(logs, log)
    write(logs, taken)
    logs.rename(target)
    return taken


def write(directory: Path, log: KeptLog) -> None:
    """Write the record. Raises OSError."""
    replace(directory / RECORD, json.dumps(asdict(log)).encode())


def read(directory: Path) -> KeptLog | None:
    """Return the record; None: there is none that this release can read. A later one may have written more fields."""
    try:
        found = json.loads((directory / RECORD).read_bytes())
        known = {each.name: found[each.name] for each in fields(KeptLog) if each.name in found}
        return KeptLog(**known)
    except (OSError, ValueError, TypeError):
        return None


def empty(directory: Path, log: KeptLog) -> None:
    """Remove the files of both streams and their times once the record says that they are gone. Raises OSError."""
    write(directory, log)
    for name in [*files(directory), *_indexes(directory)]:
        (directory / name).unlink(missing_ok=True)


def discard(directory: Path, trash: Path) -> None:
    """Remove the directory: out of its place at once. Raises OSError."""
    target = trash / f"log-{directory.name[:190]}-{os.urandom(4).hex()}"
    directory.rename(target)
    remove_tree(target)


def files(directory: Path) -> list[str]:
    """Return the names of the streams' files, each stream's in its order; none where the directory has gone."""
    return _named(directory, _STREAMS)


def _indexes(directory: Path) -> list[str]:
    return _named(directory, (TIMES,))


def _named(directory: Path, prefixes: tuple[str, ...]) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if name.startswith(prefixes))
    except FileNotFoundError:
        return []


def _with_size(logs: Path, log: KeptLog) -> KeptLog:
    size = os.lstat(logs).st_blocks * BLOCK_BYTES + 4096  # the record's block
    with opened(logs, os.O_RDONLY | os.O_DIRECTORY) as directory:
        size += sum(_blocks(directory)) * BLOCK_BYTES
    return KeptLog(**{**asdict(log), "size_bytes": size})


def _blocks(directory: int) -> Iterator[int]:
    with os.scandir(directory) as entries:
        for entry in entries:
            yield entry.stat(follow_symlinks=False).st_blocks
