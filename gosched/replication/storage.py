"""Opens a master's directory: identity, vote, log, snapshot, known peers, which must be of the same member and time.

Each start has a number that is written to all files but the snapshot, in the order vote, log, identity, peers, and then
noted in the vote file as complete. Invariant: what does not fit together is refused before anything is changed.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

import structlog

from gosched.replication.disk.damage import DamagedLog, advice
from gosched.replication.disk.disk import Disk
from gosched.replication.disk.journal import Journal
from gosched.replication.disk.journal_format import FILE as JOURNAL
from gosched.replication.disk.log_files import LogFiles, check_fit, read_log
from gosched.replication.members.identity import (
    IDENTITY,
    PEERS,
    Identity,
    KnownDisks,
    new_identity,
    read_identity,
    save_identity,
)
from gosched.replication.snapshots.snapshot import FILE as SNAPSHOT
from gosched.replication.snapshots.snapshot import ends

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    identity: Identity
    journal: Journal
    known: KnownDisks
    has_snapshot: bool


def open_storage(disk: Disk, *, cluster: str, member: str, bootstrap: bool) -> Storage:
    """Read and check everything, then count a start. Raises DamagedLog, DiskFailed."""
    identity = read_identity(disk, cluster=cluster, member=member)
    known = KnownDisks(disk)
    found = read_log(disk)
    data = disk.read(SNAPSHOT)
    last_two = ends(data) if data is not None else None
    if identity is None:
        _check_new(found, known, has_snapshot=data is not None)
        identity = new_identity(cluster=cluster, member=member, bootstrap=bootstrap)
    else:
        _check_times(found, identity, known)
    if last_two is not None and not found.old:
        check_fit(found.loaded, *last_two)
    elif last_two is None and found.loaded and found.loaded.entries and found.loaded.entries[0][1] > 1:
        first = found.loaded.entries[0][1]
        raise DamagedLog(advice(f"{SNAPSHOT} is gone but the log starts at entry {first}"))
    journal = Journal(disk, found)
    if journal.torn_bytes:
        log.warning("the log ended in an unfinished write, which was cut off", bytes=journal.torn_bytes)
    if last_two is not None:
        journal.start_with(*last_two)
    identity = replace(identity, boot=journal.boot, run=secrets.token_hex(8))
    save_identity(disk, identity)
    known.save(journal.boot)
    journal.started()
    return Storage(identity=identity, journal=journal, known=known, has_snapshot=data is not None)


def _check_new(found: LogFiles, known: KnownDisks, *, has_snapshot: bool) -> None:
    """Raise DamagedLog where more than the leftovers of a first start that was cut short stands without an identity."""
    if has_snapshot or known.boot or not found.is_unused:
        there = SNAPSHOT if has_snapshot else PEERS if known.boot else JOURNAL
        raise DamagedLog(advice(f"{IDENTITY} is gone but {there} is there"))


def _check_times(found: LogFiles, identity: Identity, known: KnownDisks) -> None:
    """Raise DamagedLog where identity or peers are of another time; `read_log` has compared vote and log."""
    if found.loaded is None:
        raise DamagedLog(advice(f"{JOURNAL} is gone but {IDENTITY} is there"))
    if found.old:
        if identity.boot:
            raise DamagedLog(advice(f"{JOURNAL} is of an older release than {IDENTITY}: it came from a backup"))
        return
    assert found.vote is not None
    vote, log_boot = found.vote.record, found.loaded.stamp.boot
    if identity.founding and not found.is_unused:
        raise DamagedLog(advice(f"{IDENTITY} is older than {JOURNAL}: it came from a backup"))
    in_order = vote.boot >= log_boot >= identity.boot >= known.boot
    if not in_order or min(log_boot, identity.boot, known.boot) < vote.started:
        starts = f"vote {vote.boot}, log {log_boot}, {IDENTITY} {identity.boot}, {PEERS} {known.boot}"
        raise DamagedLog(advice(f"the files are of different starts ({starts}): some came from a backup"))
