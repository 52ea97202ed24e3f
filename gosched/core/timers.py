"""When something is due for a job by the passing of time alone: its timeout, its deadline, the end of its patience.

Rule: derived from the jobs alone, so it is the same on every master, and after a restore.
"""

from __future__ import annotations

import heapq

from gosched.core.job import Job, JobIntent, JobState


def due_ms(job: Job) -> int:
    """The earliest moment; 0: nothing is."""
    spec = job.spec
    if job.state.is_final:
        return 0
    moments = []
    if spec.timeout_ms and job.state is JobState.RUNNING and job.intent is JobIntent.RUN and not spec.is_parent:
        moments.append(job.placed_at_ms + spec.timeout_ms)
    if spec.gang.wait_ms and job.state is JobState.PENDING and not job.started_at_ms and not spec.is_parent:
        moments.append(job.submitted_at_ms + spec.gang.wait_ms)
    if job.deadline_ms and not job.deadline_missed and not spec.cron:
        moments.append(job.deadline_ms)
    return min(moments, default=0)


class Timers:
    """Of the jobs that were put. A heap with stale entries; those are dropped when they come up."""

    def __init__(self) -> None:
        self._due: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def put(self, job: Job) -> None:
        moment = due_ms(job)
        if moment != self._due.get(job.id, 0):
            self.drop(job.id)
            if moment:
                self._due[job.id] = moment
                heapq.heappush(self._heap, (moment, job.id))

    def drop(self, job_id: str) -> None:
        self._due.pop(job_id, None)
        if len(self._heap) > 2 * len(self._due) + 64:  # mostly stale
            self._heap = sorted((moment, job) for job, moment in self._due.items())

    def next_ms(self) -> int:
        """When the next thing is due; 0: nothing is."""
        self._skip_stale()
        return self._heap[0][0] if self._heap else 0

    def pop_due(self, now_ms: int) -> str | None:
        """The job for which something has been due for longest; it is to be put again, with what is due next."""
        self._skip_stale()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, job_id = heapq.heappop(self._heap)
        del self._due[job_id]
        return job_id

    def _skip_stale(self) -> None:
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
