"""What the rest of gosched sees of replication: one log, one role, one copy of the state.

All methods and callbacks run on the event loop of the front; that loop's thread owns `state`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from gosched.core.commands.command import Command
from gosched.core.events import Event
from gosched.core.outcome import Outcome
from gosched.core.state.cluster_state import ClusterState


class Part(Enum):
    """The part a member plays in Raft."""

    LEADER = "leader"
    FOLLOWER = "follower"
    CANDIDATE = "candidate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """`leader` is a member id, empty while there is none. `connected`: other members that this one hears;
    `newest_levels`: the newest feature level that each of these knows."""

    part: Part = Part.FOLLOWER
    term: int = 0
    leader: str = ""
    commit_index: int = 0
    applied_index: int = 0
    connected: tuple[str, ...] = ()
    newest_levels: Mapping[str, int] = field(default_factory=dict)
    log_bytes: int = 0
    last_index: int = 0
    #: On the leader: how far each member has the log, as it said.
    acknowledged: Mapping[str, int] = field(default_factory=dict)
    #: Masters that ask to be added, and where their replicas listen.
    applicants: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedCommand:
    """`revision` is the state's after this command."""

    revision: int
    command: Command
    outcome: Outcome
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedBatch:
    """One log entry, applied to the front's own state. `reset`: a snapshot replaced the whole state instead."""

    index: int
    commands: tuple[AppliedCommand, ...] = ()
    reset: bool = False


class ChangeRefused(Exception):
    """A change of the members did not begin. `again`: it may when it is asked again."""

    def __init__(self, detail: str, *, again: bool) -> None:
        super().__init__(detail)
        self.again = again


class ProposalFailed(Exception):
    """`definite`: it was not and will not be committed. Otherwise ask again with the same request id."""

    def __init__(self, detail: str, *, definite: bool) -> None:
        super().__init__(detail)
        self.definite = definite


class Replication(Protocol):
    """A member of the replicated log."""

    @property
    def state(self) -> ClusterState: ...

    @property
    def role(self) -> Role: ...

    @property
    def member_id(self) -> str: ...

    @property
    def silent_s(self) -> float:
        """Seconds since the replica was heard; it speaks twice a second once it has started."""
        ...

    @property
    def failure(self) -> str:
        """Why it ended by itself, or empty."""
        ...

    async def start(self) -> None:
        """Returns once the log on disk is loaded. Raises ReplicaFailed with one line that says what to do."""
        ...

    async def close(self) -> None: ...

    async def propose(self, commands: Sequence[Command], *, timeout_s: float = 10.0) -> list[Outcome]:
        """Commits the commands together and returns once they are applied to `state`, with an outcome for each.

        Raises ProposalFailed. On any member but the leader it fails at once, definitely.
        """
        ...

    async def barrier(self, *, timeout_s: float = 10.0) -> int:
        """Returns a revision at which everything committed before the call is applied. Shared between callers."""
        ...

    def follow(self, listener: Callable[[AppliedBatch], None]) -> None:
        """Calls the listener after each applied batch, before any `propose` that waits for it returns."""
        ...

    def watch_role(self, listener: Callable[[Role], None]) -> None: ...

    async def transfer_leadership(self) -> None:
        """Asks the most caught-up follower to take over; best effort."""
        ...

    async def take_snapshot(self) -> None: ...

    async def change_members(self, member: str, address: str, *, timeout_s: float = 5.0) -> None:
        """Add a member as a learner at this address, or remove it where the address is empty; on the leader alone. The
        change has begun when this returns: it shows in `state.configuration` once it is committed. Raises
        ChangeRefused."""
        ...


class ReplicaFailed(Exception):
    """The replica could not start, or ended: the message says why and what to do."""
