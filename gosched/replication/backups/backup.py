"""The content of a backup: a state, without the log that made it; and a new cluster that begins with it.

All masters of the new cluster are filled from the same backup, each by itself. Invariant: equal backups, choices and
names give equal files but for the member's own identity, and any difference gives another cluster id, so that masters
that do not begin alike refuse each other.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from hashlib import blake2b
from socket import create_connection

from gosched.core.commands.command import Command
from gosched.core.commands.nodes import MarkNodeDead
from gosched.core.features import NEWEST_LEVEL
from gosched.core.limits import MAX_LINEAGE
from gosched.core.outcome import Rejected
from gosched.core.records.node import NodeState
from gosched.core.state.cluster_state import ClusterState
from gosched.replication.backups.restore import CannotRestore, fill
from gosched.replication.disk.disk import LOCK, InUse, PosixDisk
from gosched.replication.disk.journal_format import Entry
from gosched.replication.peer_messages import NO_OP
from gosched.replication.replica_config import ReplicaConfig, split_address
from gosched.replication.snapshots.snapshot import Snapshot, decode, encode, restored
from gosched.state_machine import apply

_FIRST_INDEX = 1000  # at least: an empty member must never take the first entries for its own
_KNOCK_S = 1.0
_LOST = "restored from a backup: what ran is declared lost"


class RunningTasks(Enum):
    """What becomes of tasks that ran when the backup was made."""

    ADOPT = "adopt"  # agents that still have them, or know how they ended, say so
    LOST = "lost"  # agents end them; their jobs restart or fail by their own policy


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCluster:
    """What a backup was made into."""

    cluster_id: str
    #: The one that the backup is of; empty: it had no id.
    continues: str
    revision: int
    live_jobs: int
    #: Of tasks, and kept by the choice of `adopt`.
    allocations: int


def content(state: ClusterState) -> Iterator[bytes]:
    """Return the state as it is now, in chunks that are encoded as they are taken, by any thread."""
    return encode(Snapshot(state.freeze(), *_base(state.revision)))


def state_in(data: bytes) -> ClusterState:
    """Return the state in a backup. Raises DamagedLog."""
    return restored(decode(data))


def continued(state: ClusterState, tasks: RunningTasks, cluster_id: str) -> ClusterState:
    """Return the state that a new cluster of this id begins with; the given one is used up."""
    before = state.cluster_id
    if state.feature_level < NEWEST_LEVEL:
        state.raise_level(NEWEST_LEVEL)  # as every new cluster
    if tasks is RunningTasks.LOST:
        _lose_all(state)
    lineage = (*state.lineage, before)[-MAX_LINEAGE:] if before else state.lineage
    # Who the masters were, who led, and where they listened, counts no more: each of the new ones says it of itself.
    found = replace(state.freeze(), lineage=lineage, masters={}, leader="", configuration=None, cluster_id=cluster_id)
    return restored(Snapshot(found, *_base(state.revision)))


def new_id(name: str, data: bytes, tasks: RunningTasks) -> str:
    """Return the id of the cluster of this name that is made of this backup, with this choice."""
    return f"{name}-{blake2b(data + tasks.value.encode(), digest_size=4).hexdigest()}"


def found_from_backup(config: ReplicaConfig, state: ClusterState) -> NewCluster:
    """Fill this member's empty data directory. Raises CannotRestore, DiskFailed."""
    disk = PosixDisk(config.folder)
    try:
        lock = disk.lock()
    except InUse as error:
        raise CannotRestore(f"a backup is never restored into a cluster that runs: {error}") from error
    try:
        if any(file != LOCK for file in os.listdir(config.folder)):
            raise CannotRestore(
                f"{config.folder} is not empty, and a backup makes a new cluster: it is never restored into one that "
                "is there. Stop all masters and move their data directories away first"
            )
        _check_nobody_runs(config)
        entries = list(_base(state.revision))
        chunks = encode(Snapshot(state.freeze(), *_base(state.revision)))
        fill(disk, config, entries, chunks, term=1, commit=entries[-1][1], cluster_id=state.cluster_id)
    finally:
        disk.close()
        os.close(lock)
    return NewCluster(
        cluster_id=state.cluster_id,
        continues=state.lineage[-1] if state.lineage else "",
        revision=state.revision,
        live_jobs=sum(state.counts.live_by_tenant.values()),
        allocations=len(state.allocations),
    )


def random_name() -> str:
    return f"c{secrets.token_hex(3)}"


def _base(revision: int) -> tuple[Entry, Entry]:
    """Return the entries that a log begins with after such a state; they are never applied."""
    last = _FIRST_INDEX + revision
    return (NO_OP, last - 1, 1), (NO_OP, last, 1)


def _lose_all(state: ClusterState) -> None:
    for node_id in sorted(state.nodes):
        while (node := state.nodes[node_id]).state is not NodeState.DEAD:
            dead = MarkNodeDead(node_id=node_id, incarnation=node.incarnation, reason=_LOST)
            outcome, _ = apply(state, Command(body=dead, at_ms=state.clock_ms))
            if isinstance(outcome, Rejected):
                raise CannotRestore(f"node {node_id} cannot be declared dead: {outcome.detail}")


def _check_nobody_runs(config: ReplicaConfig) -> None:
    for member, address in config.peers.items():
        try:
            create_connection(split_address(address), _KNOCK_S).close()
        except OSError:
            continue
        raise CannotRestore(
            f"{member} runs at {address}, and a backup makes a new cluster: it is never restored into one that runs. "
            "Stop all masters, move their data directories away, and restore on each of them"
        )
