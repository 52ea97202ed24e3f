"""Reads the log of a master that need not run: the state at a past revision, and the plans that were made from it.

Invariant: the files are only read, and no lock is needed. Entries at the log's end that no majority had yet are
read like all others: the log does not tell them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gosched.core.commands.command import Command
from gosched.core.commands.plans import CommitPlan
from gosched.core.features import FeatureLevel
from gosched.core.state.cluster_state import ClusterState
from gosched.replication.disk.damage import DamagedLog
from gosched.replication.disk.journal_format import FILE as JOURNAL
from gosched.replication.disk.journal_format import Entry
from gosched.replication.disk.log_files import entries_in
from gosched.replication.peer_messages import BATCHES
from gosched.replication.snapshots.snapshot import FILE as SNAPSHOT
from gosched.replication.snapshots.snapshot import Snapshot, decode, restored
from gosched.state_machine import apply
from gosched.wire.batch import decode_batch


class NotInLog(Exception):
    """The revision that was asked for cannot be had. One line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A state of the past, and what was planned from it."""

    state: ClusterState
    #: The commands that committed the plan, in the order of the log; empty: the cycle committed nothing.
    plans: tuple[Command, ...] = ()


def past_of_log(data_dir: Path, revision: int | None) -> Past:
    """Return the past of a master's data directory at a revision; None: what the newest plan in the log was made from.

    Raises NotInLog, DamagedLog, UnknownSchema, MachineBug, OSError.
    """
    folder = data_dir / "raft"
    if not (folder / JOURNAL).is_file():
        raise NotInLog(f"{data_dir} is no master's data directory: it has no raft/{JOURNAL}")
    snapshot, commands = _read(folder)
    state = ClusterState(feature_level=FeatureLevel.FIRST) if snapshot is None else restored(snapshot)
    if revision is None:
        revision = next((body.revision for c in reversed(commands) if isinstance(body := c.body, CommitPlan)), None)
        if revision is None:
            raise NotInLog(f"no plan is in the log of {data_dir}: say --revision N")
    if not state.revision <= revision <= state.revision + len(commands):
        raise NotInLog(
            f"revision {revision} is not in the log of {data_dir}: it goes from {state.revision} to "
            f"{state.revision + len(commands)}"
        )
    ahead = revision - state.revision
    for command in commands[:ahead]:
        apply(state, command)
    return Past(state=state, plans=_plans(commands[ahead:], state))


def past_of_snapshot(path: Path, revision: int | None) -> Past:
    """Return the past of a snapshot alone, at its own revision. Raises NotInLog, DamagedLog, OSError."""
    state = restored(decode(path.read_bytes()))
    if revision not in (None, state.revision):
        raise NotInLog(f"{path} holds revision {state.revision}, not {revision}")
    return Past(state=state)


def _read(folder: Path) -> tuple[Snapshot | None, list[Command]]:
    """Read the snapshot, if there is one, and all commands after it."""
    files = {name: (folder / name).read_bytes() for name in (SNAPSHOT, JOURNAL) if (folder / name).is_file()}
    entries = entries_in(files[JOURNAL])
    snapshot = decode(files[SNAPSHOT]) if SNAPSHOT in files else None
    first = 1 if snapshot is None else snapshot.last[1] + 1
    if entries and entries[0][1] > first:  # the log of a master that runs was made shorter between the two reads
        raise DamagedLog(f"the log in {folder} begins after its snapshot: try again, or copy the folder first")
    return snapshot, [command for entry in entries if entry[1] >= first for command in _commands(entry)]


def _commands(entry: Entry) -> tuple[Command, ...]:
    return decode_batch(entry[0][1:]).commands if entry[0][:1] in BATCHES else ()


def _plans(commands: list[Command], state: ClusterState) -> tuple[Command, ...]:
    """Return the commands of the next plan.

    One plan may take several commands; a leader that was deposed meanwhile may have sent another one.
    """
    return tuple(
        [c for c in commands if isinstance(c.body, CommitPlan) and (c.body.revision, c.epoch) == _made_at(state)]
    )


def _made_at(state: ClusterState) -> tuple[int, int]:
    return state.revision, state.epoch
