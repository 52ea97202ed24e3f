"""Fences: capacity kept for a job whose victims have not ended yet."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.primitives import added
from gosched.core.records.allocation import TaskPlacement


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Where a job starts as soon as the last allocation that is evicted for it has ended. The capacity is kept for it:
    what the fence holds and what still runs there both count, but for its victims."""

    #: Job that starts.
    job_id: str
    #: Attempt that starts.
    attempt: int
    #: In order of rank; never empty.
    tasks: tuple[TaskPlacement, ...]
    #: When its victims were ordered to stop.
    made_at_ms: int
    #: As in Job, once it has started.
    until_ms: int = 0
    #: When the last victim has ended, at the latest.
    by_ms: int = 0
    #: Its job does not start before: the end of a backoff; 0: at once.
    not_before_ms: int = added(0)
