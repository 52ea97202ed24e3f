"""Wakes those that watch a job.

Invariant: a slow watcher misses no change, only the states in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gosched.core.events import DeadlineMissed, Event, FenceChanged, JobChanged, JobEvicted, JobUpdated, TaskChanged

_OF_A_JOB = JobChanged | TaskChanged | JobUpdated | JobEvicted | FenceChanged | DeadlineMissed


class JobChanges:
    def __init__(self) -> None:
        self._watchers: dict[str, set[asyncio.Event]] = {}

    @contextmanager
    def of(self, job_id: str) -> Iterator[asyncio.Event]:
        """Give an event that is set at each change of the job; the watcher clears it."""
        changed = asyncio.Event()
        self._watchers.setdefault(job_id, set()).add(changed)
        try:
            yield changed
        finally:
            watchers = self._watchers[job_id]
            watchers.discard(changed)
            if not watchers:
                del self._watchers[job_id]

    @property
    def watched(self) -> list[str]:
        return list(self._watchers)

    def take(self, events: Iterable[Event]) -> None:
        if self._watchers:
            self.touch({event.job_id for event in events if isinstance(event, _OF_A_JOB)})

    def touch(self, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            for changed in self._watchers.get(job_id, ()):
                changed.set()

    def touch_all(self) -> None:
        self.touch(self.watched)
