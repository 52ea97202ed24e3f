"""What the members of a run share: its settings, its counts, and the simulation that runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from gosched.core.outcome import Outcome
from gosched.replication.raft.timing import Timing

M = TypeVar("M", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is the same for all members of a run."""

    timing: Timing
    #: Entries of the log beyond which a member writes a snapshot and cuts the log.
    compact_entries: int
    #: Of one message with entries.
    batch_bytes: int
    #: The part of the crashes at which the disk forgets what was not synced; the others only kill the process.
    power_loss_share: float
    #: Seconds that a sync may take beyond the usual.
    slow_sync: float
    #: The longest time that it takes to write a snapshot, in seconds.
    snapshot_s: float


@dataclass(slots=True)
class Counts:
    """How often something happened in a run: a check that never met a snapshot proves nothing about snapshots."""

    crashes: int = 0
    crashes_in_replace: int = 0
    crashes_in_turn: int = 0
    torn_tails: int = 0
    snapshots_taken: int = 0
    snapshots_installed: int = 0
    #: Members that were added and vote by now.
    members_added: int = 0
    members_removed: int = 0
    disks_full: int = 0
    wiped_and_joined: int = 0
    transfers: int = 0


class Owner(Protocol[M]):
    """What runs the members."""

    def answered(self, proposal: tuple[str, int], outcomes: list[Outcome]) -> None:
        """Hear that a proposal of this boot of a member was applied there."""
        ...

    def removed(self, member: M) -> None:
        """Hear of a member that knows it was removed, and ends for good."""
        ...

    def turned(self, member: M) -> None: ...

    def ended(self, member: M) -> None: ...
