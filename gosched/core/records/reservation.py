"""Reservations: starts that are reserved for pending jobs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """`count` tasks of a group on a node."""

    group: str
    node_id: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The start that a pending job was promised: not later than `start_ms`, on these nodes, until `end_ms` (0: open).
    `for_deadline`: promised when it was submitted."""

    job_id: str
    attempt: int
    start_ms: int
    end_ms: int = 0
    shares: tuple[Share, ...]
    for_deadline: bool = False
    made_at_ms: int
