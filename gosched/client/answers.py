"""What the client's calls return beside the records of `gosched.api`: mostly what became of a change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gosched.core.records.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReset:
    """What the state's clock was and is."""

    from_ms: int
    to_ms: int
    #: It was right already.
    unchanged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded:
    """The cluster's feature level."""

    feature_level: int
    #: It was so already.
    unchanged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A job that was taken."""

    job_id: str
    warnings: tuple[str, ...]
    #: A live job of this name and spec was there already.
    unchanged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSubmitted:
    """A job of a batch that was not taken."""

    #: As gRPC names it: INVALID_ARGUMENT; ABORTED: another job of the batch was refused.
    code: str
    #: In one line.
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Controlled:
    """A job that was held, released, suspended, resumed, requeued, frozen or cancelled."""

    job_id: str
    #: It was so already; of a cancellation: it has ended, or is about to.
    unchanged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeControlled:
    """A node that was cordoned, uncordoned, drained or removed."""

    node_id: str
    #: It was so already.
    unchanged: bool
    #: Of a drain: ids of jobs that cannot start again elsewhere. They stay until they end, or the drain's deadline.
    staying: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSet:
    """A window that was made or changed."""

    #: With the nodes that were chosen.
    window: Window
    #: Ids of running jobs that may not have ended by its start, and cannot be evicted.
    in_the_way: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTime:
    """When the output from an offset on was read from its task."""

    #: Since the start of the stream.
    offset: int
    #: By the clock of the task's node.
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Bytes that one task wrote to one stream, a note for people, or both."""

    task_id: str
    allocation_id: str
    #: stdout or stderr; empty: of a note.
    stream: str
    #: Of the first byte, since the start of the stream.
    offset: int
    data: bytes
    note: str = ""
    #: Nothing (more) of this log can be had; `note` says why.
    missing: bool = False
    #: Of the first byte of `data` (or of one before), and of each later one that differs. Empty: not asked for, or not
    #: known.
    times: tuple[LogTime, ...] = ()
    #: Of an array or a schedule that was asked for as a whole: the name of the job whose task it is.
    job_name: str = ""

    @property
    def text(self) -> str:
        """The bytes as text; what is no UTF-8 is replaced. A character may be cut where a chunk ends."""
        return self.data.decode("utf-8", "replace")
