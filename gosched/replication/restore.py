"""Fills an empty data directory from another master's, to restore a cluster that lost its majority.

The log and the snapshot are copied, the identity is a new one. Invariant: the source is locked and read, and the new
member begins in a term of its own, so that it cannot vote again in one in which the source has voted.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from gosched.replication import stamped
from gosched.replication.damage import DamagedLog
from gosched.replication.disk import LOCK, DiskFailed, InUse, PosixDisk
from gosched.replication.identity import IDENTITY, Identity, KnownDisks, save_identity
from gosched.replication.interface import ReplicaFailed
from gosched.replication.journal import Journal
from gosched.replication.journal_format import FILE as JOURNAL
from gosched.replication.log_files import check_fit, read_log
from gosched.replication.replica_config import ReplicaConfig
from gosched.replication.restore_members import named_anew
from gosched.replication.snapshot import FILE as SNAPSHOT
from gosched.replication.snapshot import ends
from gosched.replication.vote import Vote, VoteFile

if TYPE_CHECKING:
    from gosched.config import MasterSettings


def restore_data_dir(source: str, settings: MasterSettings) -> str:
    """Return what was done, in one line. Raises ReplicaFailed."""
    config = ReplicaConfig.from_settings(settings)
    try:
        last = restore(Path(source), config)
    except (CannotRestore, DamagedLog, InUse, DiskFailed) as error:
        raise ReplicaFailed(f"nothing is restored: {error}") from error
    return f"{config.folder} holds the log of {source} up to entry {last}. Start this master once all are restored"


class CannotRestore(Exception):
    """One line that says why, and what to do."""


def restore(source: Path, config: ReplicaConfig) -> int:
    """Fill the directory that the config names; return the last entry's index. Raises CannotRestore, DamagedLog,
    InUse, DiskFailed."""
    folder = source / "raft" if (source / "raft").is_dir() else source
    if not (folder / JOURNAL).is_file():
        raise CannotRestore(f"{source} is no master's data directory: it has no raft/{JOURNAL}")
    if config.folder.is_dir() and any(name != LOCK for name in os.listdir(config.folder)):
        raise CannotRestore(f"{config.folder} is not empty: move it away first")
    old = PosixDisk(folder)
    lock = old.lock()  # its master must have ended
    try:
        return _copy(old, config)
    finally:
        os.close(lock)


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
    entries = named_anew(entries, data, config, beyond=found.vote.record.term)
    new = PosixDisk(config.folder)
    lock = new.lock()
    try:
        term = max(found.vote.record.term, entries[-1][2]) + 1
        VoteFile.create(new, Vote(term=term, votes=1))
        journal = Journal(new)
        if data is not None:
            new.replace(SNAPSHOT, [data])
        journal.take_over(entries, commit=found.loaded.stamp.commit)
        KnownDisks(new).save(journal.boot)
        save_identity(new, _identity(old, config, journal.boot))
        journal.started()
        return journal.last_index
    finally:
        new.close()
        os.close(lock)


def _identity(old: PosixDisk, config: ReplicaConfig, boot: int) -> Identity:
    """`joined`: the other members accept a disk that took the place of one they knew."""
    known = stamped.read(old, IDENTITY, if_lost="the copy gets the cluster's id from the log") or {}
    if known.get("cluster", config.cluster) != config.cluster and not known.get("settled"):
        theirs = known["cluster"]
        raise CannotRestore(f"{old.folder} is of a cluster of {theirs}, the config names {config.cluster}: correct it")
    return Identity(
        cluster=config.cluster,
        member=config.member,
        disk=secrets.token_hex(8),
        joining=False,
        joined=True,
        cluster_id=known.get("cluster_id", ""),
        boot=boot,
    )
