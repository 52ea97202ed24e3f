"""When something is due by the passing of time alone: for a job its timeout, its deadline, the end of its patience, of
what was likely of its run time, for a node the end of its drain, for a fence the end of a backoff.

Invariant: derived from jobs and nodes alone, so it is the same on every master, and after a restore.
"""

from __future__ import annotations

import heapq
from enum import IntEnum
from typing import NamedTuple

from gosched.core.records.fence import Fence
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.records.node import Node


def due_ms(job: Job) -> int:
    """Return the earliest moment at which something is due; 0: nothing is."""
    spec = job.spec
    has_limits = spec.timeout_ms or spec.gang.wait_ms or spec.deadline_at_ms or spec.deadline_in_ms or job.not_before_ms
    if not (has_limits or job.likely_ms) or job.state.is_final:  # as with most puts
        return 0
    moments = (timeout_ms(job), patience_ms(job), deadline_ms(job), refill_ms(job), overrun_ms(job))
    return min((moment for moment in moments if moment), default=0)


def timeout_ms(job: Job) -> int:
    """Return when this attempt has run for too long; 0: never, or it does not run."""
    runs = job.state is JobState.RUNNING and job.intent is JobIntent.RUN and not job.spec.is_parent
    return job.placed_at_ms + job.spec.timeout_ms if runs and job.spec.timeout_ms else 0


def patience_ms(job: Job) -> int:
    """Return when a gang that could start, and never has, waits no longer; 0: never."""
    may_start = job.state is JobState.PENDING and not (job.held or job.waits_for or job.spec.is_parent)
    if not may_start or job.started_at_ms or not job.spec.gang.wait_ms:
        return 0
    return max(job.submitted_at_ms, job.not_before_ms) + job.spec.gang.wait_ms


def deadline_ms(job: Job) -> int:
    """Return when the deadline is missed; 0: there is none, or it has been. Each run of a schedule has its own."""
    return 0 if job.deadline_missed or job.spec.cron else job.deadline_ms


def refill_ms(job: Job) -> int:
    """Return when an array that could not make its next child looks again; 0: it need not."""
    return job.not_before_ms if job.spec.is_parent else 0


def overrun_ms(job: Job) -> int:
    """Return when this attempt has run for longer than was likely; 0: not known, or a timeout ends it before."""
    runs = job.state is JobState.RUNNING and job.intent is JobIntent.RUN and not job.frozen
    is_short = not job.spec.timeout_ms or job.likely_ms < job.spec.timeout_ms
    return job.placed_at_ms + job.likely_ms + 1 if runs and job.likely_ms and is_short else 0


class TimerKind(IntEnum):
    """What a timer is of."""

    JOB = 1
    NODE = 2
    FENCE = 3


class TimerSubject(NamedTuple):
    kind: TimerKind
    id: str


class Timers:
    """What is due when, for the jobs and nodes that were put. A heap with stale entries; those are dropped when they
    come up."""

    def __init__(self) -> None:
        self._due: dict[TimerSubject, int] = {}
        self._heap: list[tuple[int, TimerSubject]] = []

    def put_job(self, job: Job) -> None:
        self._put(TimerSubject(TimerKind.JOB, job.id), due_ms(job))

    def put_node(self, node: Node) -> None:
        self._put(TimerSubject(TimerKind.NODE, node.id), node.drain_by_ms)

    def put_fence(self, fence: Fence) -> None:
        self._put(TimerSubject(TimerKind.FENCE, fence.job_id), fence.not_before_ms)

    def drop_fence(self, job_id: str) -> None:
        self._drop(TimerSubject(TimerKind.FENCE, job_id))

    def drop_job(self, job_id: str) -> None:
        self._drop(TimerSubject(TimerKind.JOB, job_id))

    def drop_node(self, node_id: str) -> None:
        self._drop(TimerSubject(TimerKind.NODE, node_id))

    def next_ms(self) -> int:
        """Return when the next thing is due; 0: nothing is."""
        self._skip_stale()
        return self._heap[0][0] if self._heap else 0

    def due(self, now_ms: int) -> list[TimerSubject]:
        """Return that for which something is due, in no order."""
        return [subject for subject, moment in self._due.items() if moment <= now_ms]

    def pop_due(self, now_ms: int) -> TimerSubject | None:
        """Return that for which something has been due for longest, or None; it is to be put again, with what is due
        next."""
        self._skip_stale()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, subject = heapq.heappop(self._heap)
        del self._due[subject]
        return subject

    def _put(self, subject: TimerSubject, moment: int) -> None:
        if moment != self._due.get(subject, 0):
            self._drop(subject)
            if moment:
                self._due[subject] = moment
                heapq.heappush(self._heap, (moment, subject))

    def _drop(self, subject: TimerSubject) -> None:
        self._due.pop(subject, None)
        if len(self._heap) > 2 * len(self._due) + 64:  # mostly stale
            self._heap = sorted((moment, subject) for subject, moment in self._due.items())

    def _skip_stale(self) -> None:
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
