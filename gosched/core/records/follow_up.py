"""Follow-ups: what a command leaves for later ones, so that no command holds the log's application up.

A job that ends may have thousands of dependents, an array thousands of children. What is to be done for them is kept in
the state, by the job it follows from, and each command does a bounded part of it (`state_machine/follow_ups.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class FollowUpKind(IntEnum):
    """DEPENDENTS: release or cancel the jobs that waited for its end. FILL: make children of an array. The others:
    do to each live child what was done to its parent."""

    UNSPECIFIED = 0
    DEPENDENTS = 1
    FILL = 2
    CANCEL = 3
    SUSPEND = 4
    FREEZE = 5
    RESUME = 6
    REQUEUE = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUpStep:
    kind: FollowUpKind
    #: Sequence number of the last child that it was done to; 0: none yet.
    after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """All that is left to do for a job's dependents and children, in order."""

    job_id: str
    #: Never empty; each kind once.
    steps: tuple[FollowUpStep, ...]
