"""Fences: capacity kept for a job whose victims have not ended yet."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.allocation import TaskPlacement


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Where a job starts as soon as the last allocation that leaves for it has ended. Nobody else gets that room: what
    the fence holds and what still runs there count both, but for what leaves for it."""

    job_id: str
    attempt: int
    tasks: tuple[TaskPlacement, ...]
    made_at_ms: int
    until_ms: int = 0  # as in Job, once it has started
    by_ms: int = 0  # when the last victim has gone, at the latest
