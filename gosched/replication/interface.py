"""What the rest of gosched sees of replication: one log, one role, one copy of the state.

All methods and callbacks run on the event loop of the front; that loop's thread owns `state`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ParamSpec, Protocol

from gosched.core.commands.command import Command
from gosched.core.events import Event
from gosched.core.outcome import Outcome
from gosched.core.state.cluster_state import ClusterState

P = ParamSpec("P")


class Part(Enum):
    """The part a member plays in Raft."""

    LEADER = "leader"
    FOLLOWER = "follower"
    CANDIDATE = "candidate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What a member is in Raft now, and how far it has come."""

    part: Part = Part.FOLLOWER
    term: int = 0
    #: A member id; empty while there is no leader.
    leader: str = ""
    #: The last entry that is known to be committed.
    commit_index: int = 0
    #: The last entry that the front's state holds.
    applied_index: int = 0
    #: Other members that this one hears.
    connected: tuple[str, ...] = ()
    #: The newest feature level that each connected member knows.
    newest_levels: Mapping[str, int] = field(default_factory=dict)
    #: What the log's file takes, with the padding of its sectors.
    log_bytes: int = 0
    #: The last entry of the log, committed or not.
    last_index: int = 0
    #: On the leader: how far each member has the log, as it said.
    acknowledged: Mapping[str, int] = field(default_factory=dict)
    #: Masters that ask to be added, and where their replicas listen.
    applicants: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedCommand:
    """A command of the log and what became of it."""

    #: The state's, after this command.
    revision: int
    #: The clock of the state then, in ms since 1970.
    at_ms: int = 0
    command: Command
    outcome: Outcome
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedBatch:
    """One log entry, applied to the front's own state."""

    index: int
    commands: tuple[AppliedCommand, ...] = ()
    #: A snapshot replaced the whole state instead.
    reset: bool = False


#: Is told of each applied command, with the state as that command left it. It may not change the state.
Observer = Callable[["ClusterState", AppliedCommand], None]


def listening(listener: Callable[P, None], on_fault: Callable[[str, Exception], None]) -> Callable[P, None]:
    """Return the listener so that its exceptions cost nobody but itself: the log is applied, whoever cannot follow."""
    name = f"listener {getattr(listener, '__qualname__', type(listener).__name__)}"

    def listen(*args: P.args, **named: P.kwargs) -> None:
        try:
            listener(*args, **named)
        except Exception as error:  # of whatever kind: it is a bug of the listener, and is told
            on_fault(name, error)

    return listen


class ChangeRefused(Exception):
    """A change of the members did not begin; with `again` it may when it is asked again."""

    def __init__(self, detail: str, *, again: bool) -> None:
        super().__init__(detail)
        self.again = again


class ProposalFailed(Exception):
    """A proposal failed: for certain (`definite`), or it may yet be committed; ask again with the same request id."""

    def __init__(self, detail: str, *, definite: bool) -> None:
        super().__init__(detail)
        self.definite = definite


class Replication(Protocol):
    """A member of the replicated log."""

    #: Is told what listeners and observers raise: the listener's name, and the exception.
    on_fault: Callable[[str, Exception], None]

    @property
    def state(self) -> ClusterState: ...

    @property
    def role(self) -> Role: ...

    @property
    def member_id(self) -> str: ...

    @property
    def silent_s(self) -> float:
        """Return the seconds since the replica was heard; it speaks twice a second once it has started."""
        ...

    @property
    def failure(self) -> str:
        """Return why it ended by itself, or nothing."""
        ...

    async def start(self) -> None:
        """Return once the log on disk is loaded. Raises ReplicaFailed with one line that says what to do."""
        ...

    async def close(self) -> None: ...

    async def propose(self, commands: Sequence[Command], *, timeout_s: float = 10.0) -> list[Outcome]:
        """Commit the commands together; return once they are applied to `state`, with an outcome for each.

        Raises ProposalFailed. On any member but the leader it fails at once, definitely.
        """
        ...

    async def barrier(self, *, timeout_s: float = 10.0) -> int:
        """Return a revision at which everything committed before the call is applied. Callers of one turn share it."""
        ...

    def follow(self, listener: Callable[[AppliedBatch], None]) -> None:
        """Call the listener after each applied batch, before any `propose` that waits for it returns."""
        ...

    def observe(self, observer: Observer) -> None:
        """Call the observer after each applied command, with the state as that command left it."""
        ...

    def watch_role(self, listener: Callable[[Role], None]) -> None: ...

    async def transfer_leadership(self) -> None:
        """Ask the most caught-up follower to take over, as far as it can."""
        ...

    def say_alive(self) -> None:
        """Say that this front is at work: before each call that is served, each slice of a list, each thing that keeps
        its loop for long. It costs next to nothing. A leader whose front stands still gives up the lead."""
        ...

    async def take_snapshot(self) -> None: ...

    def set_log_level(self, level: str) -> None:
        """Tell the replica from which level on it logs."""
        ...

    async def change_members(self, member: str, address: str, *, timeout_s: float = 5.0) -> None:
        """Add a member as a learner at this address, or remove it where the address is empty; on the leader alone. The
        change has begun when this returns: it shows in `state.configuration` once it is committed. Raises
        ChangeRefused."""
        ...


class ReplicaFailed(Exception):
    """The replica could not start, or ended: the message says why and what to do."""
