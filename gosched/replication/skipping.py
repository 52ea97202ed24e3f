"""Commands that met a bug in the middle of their work: the mark that names one in the log, and the log without it.

The entry is written anew where it stands, with its index and term: its other commands stay, and `Skipped` takes the
place of the one that is skipped, which is then refused. So a replay, the front, a master that gets the entry later and
`goschedctl replay` all do the same: what the log says.

Invariant: only the command that the mark names is changed, and only while no snapshot of this master holds its entry.
"""

from __future__ import annotations

import os
import re
from hashlib import blake2b

from gosched.core.commands.cluster import Skipped
from gosched.core.features import FeatureLevel
from gosched.replication.disk.disk import PosixDisk
from gosched.replication.disk.journal_format import FILE as JOURNAL
from gosched.replication.disk.journal_format import Entry
from gosched.replication.peer_messages import REGULAR
from gosched.replication.replica_config import ReplicaConfig
from gosched.replication.snapshots.snapshot import FILE as SNAPSHOT
from gosched.replication.snapshots.snapshot import ends
from gosched.replication.storage import open_storage
from gosched.state_machine import MachineBug
from gosched.wire.batch import name_of, skip_in

_MARK = re.compile(r"(\d{1,18})\.(\d{1,6})-([0-9a-f]{12})")
_PAGE = "docs/operations/troubleshooting.md"


class CannotSkip(Exception):
    """One line that says why, and what to do."""


def with_way_out(bug: MachineBug, entry: Entry) -> MachineBug:
    """Return the exception with the place of its command in the log, and what an operator can do."""
    return MachineBug(
        f"{bug}; it is command {bug.position} of entry {entry[1]} of the log. This master stops, its log is intact: "
        "upgrade gosched; or, to go on without this command, stop the masters and run each once more with "
        f"--skip-command {_mark(entry, bug.position)} (see {_PAGE})"
    )


def skip(config: ReplicaConfig, mark: str) -> str:
    """Take a command out of the log of a master that does not run; return what was done, in one line. Raises
    CannotSkip, DamagedLog, InUse, DiskFailed."""
    found = _MARK.fullmatch(mark)
    if found is None:
        raise CannotSkip(
            f"{mark[:100]!a} is no mark: take the one that the master ended with, such as 4711.1-0123456789ab"
        )
    if not (config.folder / JOURNAL).is_file():
        raise CannotSkip(f"{config.data_dir} is no master's data directory: it has no raft/{JOURNAL}")
    disk = PosixDisk(config.folder)
    lock = disk.lock()
    try:
        return _skip(disk, config, mark, index=int(found[1]), position=int(found[2]))
    finally:
        disk.close()
        os.close(lock)


def _skip(disk: PosixDisk, config: ReplicaConfig, mark: str, *, index: int, position: int) -> str:
    journal = open_storage(disk, cluster=config.cluster, member=config.member, bootstrap=False).journal
    try:
        data = disk.read(SNAPSHOT)
        held = ends(data)[1][1] if data is not None else 0
        if index <= held:
            raise CannotSkip(
                f"the snapshot in {config.data_dir} holds entry {index}, carried out or skipped: start this master"
            )
        if index > journal.last_index:
            raise CannotSkip(
                f"the log in {config.data_dir} ends with entry {journal.last_index}: skip the command on the masters "
                "that ended with this mark; this one gets the entry from them"
            )
        entry = journal[index - journal.first_index]
        assert isinstance(entry, tuple), "of one index"
        kind = _checked(entry, position)
        if kind == Skipped.__name__:
            return f"command {position} of entry {index} is skipped in {config.data_dir} already: start this master"
        if _mark(entry, position) != mark:
            raise CannotSkip(
                f"entry {index} of {config.data_dir} is another one than {mark} names: take the mark that this very "
                "master ended with"
            )
        journal.replace_entry(index, entry[0][:1] + skip_in(entry[0][1:], position, level=FeatureLevel.BOUNDED))
    finally:
        journal.close()
    return (
        f"command {position} of entry {index} ({kind}) is skipped in {config.data_dir}, and will be refused. Do the "
        "same on the other masters, with the same mark; then start them"
    )


def _checked(entry: Entry, position: int) -> str:
    """Return the name of the command. Raises CannotSkip."""
    if entry[0][:1] != REGULAR:  # the members follow from the log itself, whatever is applied
        raise CannotSkip(f"entry {entry[1]} is Raft's own, or names the members: it cannot be skipped")
    kind = name_of(entry[0][1:], position)
    if not kind:
        raise CannotSkip(f"entry {entry[1]} has no command {position}")
    return kind


def _mark(entry: Entry, position: int) -> str:
    """Return what names a command of an entry by its index, its place, and a hash of the entry's term and content."""
    command, index, term = entry
    return f"{index}.{position}-{blake2b(term.to_bytes(8, 'big') + command, digest_size=6).hexdigest()}"
