"""Reservations: starts that are reserved for pending jobs."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.primitives import added


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Some tasks of a group on one node."""

    group: str
    node_id: str
    #: Above 0.
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A start that is reserved for a pending job."""

    #: Job that it is reserved for.
    job_id: str
    #: Attempt that it is for; the job is at this one.
    attempt: int
    #: When the job starts, at the latest.
    start_ms: int
    #: When the job is expected to end; 0: not known.
    end_ms: int = 0
    #: Where its tasks start; each group and node once.
    shares: tuple[Share, ...]
    #: It was made at submission, to keep the deadline.
    for_deadline: bool = False
    #: When it was made, or changed last.
    made_at_ms: int
    #: Its nodes are kept for it as they drain: when what runs there ends is not known, and the start is a guess.
    standing: bool = added(False, 4)

    @property
    def why(self) -> str:
        """Return a few words for people about what it is; empty for a start that is reserved for its place in the
        queue."""
        if self.for_deadline:
            return "deadline"
        return "a guess: what runs there tells no end" if self.standing else ""
