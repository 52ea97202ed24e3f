"""Fills an empty data directory from another master's, to restore a cluster that lost its majority.

The log and the snapshot are copied, the identity is a new one. Invariant: the source is locked and read, and the new
member begins in a term of its own, so that it cannot vote again in one in which the source has voted.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gosched.replication.backups.restore_members import named_anew
from gosched.replication.disk import stamped
from gosched.replication.disk.disk import LOCK, PosixDisk
from gosched.replication.disk.journal import Journal
from gosched.replication.disk.journal_format import FILE as JOURNAL
from gosched.replication.disk.journal_format import Entry
from gosched.replication.disk.log_files import check_fit, read_log
from gosched.replication.disk.vote import Vote, VoteFile
from gosched.replication.members.identity import IDENTITY, Identity, KnownDisks, save_identity
from gosched.replication.peer_messages import BATCHES
from gosched.replication.replica_config import ReplicaConfig
from gosched.replication.snapshots.snapshot import FILE as SNAPSHOT
from gosched.replication.snapshots.snapshot import ends, header_of
from gosched.wire.batch import decode_batch


class CannotRestore(Exception):
    """One line that says why, and what to do."""


def restore(source: Path, config: ReplicaConfig) -> int:
    """Fill the directory that the config names; return the last entry's index. Raises CannotRestore, DamagedLog,
    InUse, DiskFailed."""
    folder = _folder(source)
    if config.folder.is_dir() and any(name != LOCK for name in os.listdir(config.folder)):
        raise CannotRestore(f"{config.folder} is not empty: move it away first")
    old = PosixDisk(folder)
    lock = old.lock()  # its master must have ended
    try:
        return _copy(old, config)
    finally:
        os.close(lock)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """What one master's data directory holds of its cluster."""

    cluster_id: str
    revision: int
    last_index: int
    #: The last entry that this master knew to be committed.
    commit_index: int


def remains(source: Path) -> Remains:
    """Return what the directory holds; it is only read. Raises CannotRestore, DamagedLog, DiskFailed."""
    old = PosixDisk(_folder(source))
    found, data = read_log(old), old.read(SNAPSHOT)
    if found.loaded is None or not found.loaded.entries:
        raise CannotRestore(f"the log in {old.folder} is empty")
    header = None if data is None else header_of(data)
    revision, first = (0, 0) if header is None else (header.revision, header.last.index)
    later = [entry for entry in found.loaded.entries if entry[1] > first and entry[0][:1] in BATCHES]
    known = stamped.read(old, IDENTITY, if_lost="the cluster's id is read from the log") or {}
    return Remains(
        cluster_id=str(known.get("cluster_id", "")) or (header.cluster_id if header is not None else ""),
        revision=revision + sum(len(decode_batch(entry[0][1:]).commands) for entry in later),
        last_index=max(found.loaded.entries[-1][1], first),
        commit_index=max(found.loaded.stamp.commit, first),
    )


def _folder(source: Path) -> Path:
    folder = source / "raft" if (source / "raft").is_dir() else source
    if not (folder / JOURNAL).is_file():
        raise CannotRestore(f"{source} is no master's data directory: it has no raft/{JOURNAL}")
    return folder


def _copy(old: PosixDisk, config: ReplicaConfig) -> int:
    found, data = read_log(old), old.read(SNAPSHOT)
    if found.loaded is None or found.vote is None or not found.loaded.entries:
        raise CannotRestore(f"the log in {old.folder} is empty")
    entries = found.loaded.entries
    if data is not None:
        previous, last = ends(data)
        if not found.old:
            check_fit(found.loaded, previous, last)
        later = [entry for entry in entries if entry[1] > last[1]]
        entries = [previous, last, *later]
    elif entries[0][1] > 1:
        raise CannotRestore(f"{old.folder} has no {SNAPSHOT}, but its log starts at {entries[0][1]}: take another copy")
    cluster_id = _cluster_id(old, config)
    entries = named_anew(entries, data, config, beyond=found.vote.record.term)
    new = PosixDisk(config.folder)
    lock = new.lock()
    try:
        term = max(found.vote.record.term, entries[-1][2]) + 1
        snapshot = None if data is None else [data]
        return fill(new, config, entries, snapshot, term=term, commit=found.loaded.stamp.commit, cluster_id=cluster_id)
    finally:
        new.close()
        os.close(lock)


def fill(
    disk: PosixDisk,
    config: ReplicaConfig,
    entries: list[Entry],
    snapshot: Iterable[bytes] | None,
    *,
    term: int,
    commit: int,
    cluster_id: str,
) -> int:
    """Make all files of a member in an empty directory, the identity last; return the last entry's index. `joined`: the
    other members accept a disk that took the place of one they knew. Raises DiskFailed."""
    VoteFile.create(disk, Vote(term=term, votes=1))
    journal = Journal(disk)
    if snapshot is not None:
        disk.replace(SNAPSHOT, snapshot)
    journal.take_over(entries, commit=commit)
    KnownDisks(disk).save(journal.boot)
    identity = Identity(
        cluster=config.cluster,
        member=config.member,
        disk=secrets.token_hex(8),
        joining=False,
        joined=True,
        cluster_id=cluster_id,
        boot=journal.boot,
    )
    save_identity(disk, identity)
    journal.started()
    return journal.last_index


def _cluster_id(old: PosixDisk, config: ReplicaConfig) -> str:
    known = stamped.read(old, IDENTITY, if_lost="the copy gets the cluster's id from the log") or {}
    if known.get("cluster", config.cluster) != config.cluster and not known.get("settled"):
        theirs = known["cluster"]
        raise CannotRestore(f"{old.folder} is of a cluster of {theirs}, the config names {config.cluster}: correct it")
    return str(known.get("cluster_id", ""))
