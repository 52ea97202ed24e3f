"""`gosched-master --restore FILE`, `--restore-from DIR` and `--skip-command MARK`: a data directory is filled, or one
command of its log skipped, and nothing is run.

Invariant: a directory is filled only if it is empty, and the operator has named what may be lost.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from gosched.config import MasterSettings
from gosched.master.base.channels import own_certificate
from gosched.replication.backups.backup import RunningTasks, continued, found_from_backup, new_id, random_name, state_in
from gosched.replication.backups.restore import CannotRestore, remains, restore
from gosched.replication.disk.damage import DamagedLog
from gosched.replication.disk.disk import DiskFailed, InUse
from gosched.replication.interface import ReplicaFailed
from gosched.replication.replica_config import ReplicaConfig
from gosched.replication.skipping import CannotSkip, skip
from gosched.wire.backup_file import read_from
from gosched.wire.backup_seal import BadBackup, read_secret
from gosched.wire.batch import UnknownSchema

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """The flags of the master's command line that belong to a restoration."""

    FLAGS: ClassVar = ("restore", "tasks", "new_cluster", "passphrase_file", "key_file", "restore_from", "yes_i_lost")

    restore: str | None = None
    tasks: str | None = None
    new_cluster: str | None = None
    passphrase_file: str | None = None
    key_file: str | None = None
    restore_from: str | None = None
    yes_i_lost: str | None = None

    @property
    def is_wanted(self) -> bool:
        return any(getattr(self, name) for name in self.FLAGS)

    def carry_out(self, settings: MasterSettings) -> str:
        """Return what was done, in one line. Raises ReplicaFailed."""
        try:
            if self.restore and not self.restore_from and not self.yes_i_lost:
                return self._from_backup(settings, self.restore)
            if self.restore_from and not (self.restore or self.tasks or self.new_cluster):
                return self._from_directory(settings, Path(self.restore_from))
            raise CannotRestore(
                "say --restore FILE --tasks adopt|lost [--new-cluster NAME] for a backup, or --restore-from DIR for "
                "another master's data directory"
            )
        except (CannotRestore, BadBackup, DamagedLog, InUse, DiskFailed) as error:
            raise ReplicaFailed(f"nothing is restored: {error}") from error

    def _from_backup(self, settings: MasterSettings, path: str) -> str:
        if self.tasks is None:
            raise CannotRestore(
                "say what becomes of the tasks that ran: --tasks adopt (agents that have them keep them) or --tasks "
                "lost (agents end them; their jobs restart or fail by their policy)"
            )
        config = ReplicaConfig.from_settings(settings)
        try:
            with Path(path).open("rb") as file:
                backup = read_from(file, read_secret(self.passphrase_file, self.key_file))
                data = b"".join(backup.chunks())
        except (OSError, BadBackup) as error:
            what = error.strerror if isinstance(error, OSError) else error
            raise CannotRestore(f"{path}: {what}") from error
        tasks = RunningTasks(self.tasks)
        cluster_id = self._new_id(settings, data, tasks, alone=not config.peers)
        if cluster_id == backup.info.cluster_id:
            raise CannotRestore(
                f"tls.cert is of cluster {cluster_id}, which the backup is of, and a new cluster needs an id of its "
                "own: make certificates for it, or some that name no cluster (docs/operations/certificates.md)"
            )
        made = found_from_backup(config, continued(state_in(data), tasks, cluster_id))
        others = (
            f". Do the same on {', '.join(sorted(config.peers))}, with the same file, --tasks and --new-cluster; then "
            "start all masters"
            if config.peers
            else ". Start this master"
        )
        return (
            f"{config.folder} holds cluster {made.cluster_id}, which continues "
            f"{made.continues or 'a cluster without an id'} at revision {made.revision}, of {backup.info.taken_at}: "
            f"jobs that have not ended: {made.live_jobs}, tasks to adopt: {made.allocations}{others}"
        )

    def _new_id(self, settings: MasterSettings, data: bytes, tasks: RunningTasks, *, alone: bool) -> str:
        certified = own_certificate(settings.tls, settings.raft.node_id).cluster
        if certified:
            return certified
        if self.new_cluster is None and not alone:
            raise CannotRestore(
                "the masters of the new cluster must know each other: choose a name that no cluster had before, and "
                f"give it to all of them, such as --new-cluster {random_name()}"
            )
        name = self.new_cluster or random_name()
        if not _NAME.fullmatch(name):
            raise CannotRestore(f"--new-cluster {name!a}: use at most 40 lower-case letters, digits and '-'")
        return new_id(name, data, tasks)

    def _from_directory(self, settings: MasterSettings, source: Path) -> str:
        held = remains(source)
        words = f"what came after revision {held.revision} of cluster {held.cluster_id or 'without an id'}"
        shown = (
            f"{source} holds cluster {held.cluster_id or 'without an id'} up to revision {held.revision} (entry "
            f"{held.last_index}; up to {held.commit_index} they are known to be committed). What a majority had "
            "acknowledged after that is lost for good"
        )
        said = self.yes_i_lost
        if said is None and sys.stdin.isatty():
            said = click.prompt(f"{shown}. Type what is lost: {words}\n", err=True, default="", show_default=False)
        if said != words:
            raise CannotRestore(f'{shown}. Say that you know it: --yes-i-lost "{words}"')
        config = ReplicaConfig.from_settings(settings)
        last = restore(source, config)
        return f"{config.folder} holds the log of {source} up to entry {last}. Start this master once all are restored"


def skip_command(settings: MasterSettings, mark: str) -> str:
    """Skip the command of a mark in this master's log; return what was done, in one line. Raises ReplicaFailed."""
    try:
        return skip(ReplicaConfig.from_settings(settings), mark)
    except (CannotSkip, DamagedLog, UnknownSchema, InUse, DiskFailed) as error:
        raise ReplicaFailed(f"nothing is skipped: {error}") from error
