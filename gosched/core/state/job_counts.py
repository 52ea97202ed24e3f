"""How many jobs live and run, by tenant and queue. No zeros are kept."""

from __future__ import annotations

from typing import TypeVar

from gosched.core.records.job import Job, JobState

K = TypeVar("K")


class JobCounts:
    """Counts of jobs."""

    def __init__(self) -> None:
        #: Tenant -> its jobs that have not ended.
        self.live_by_tenant: dict[str, int] = {}
        #: Tenant -> the tasks of its jobs that have not ended.
        self.tasks_by_tenant: dict[str, int] = {}
        #: Queue path -> its jobs that have not ended.
        self.live_by_queue: dict[str, int] = {}
        #: (queue, tenant) -> gangs that are RUNNING; arrays and schedules do not count.
        self.running: dict[tuple[str, str], int] = {}

    def put(self, before: Job | None, job: Job) -> None:
        """Count a job in the place of the one before."""
        if before is not None and before.state is job.state and before.spec is job.spec:  # as with most puts
            return
        change = _runs(job) - _runs(before)
        if change:
            _add(self.running, (job.spec.queue, job.spec.tenant), change)
        change = (not job.state.is_final) - (before is not None and not before.state.is_final)
        if change:
            _add(self.live_by_tenant, job.spec.tenant, change)
            _add(self.live_by_queue, job.spec.queue, change)
        change = _live_tasks(job) - _live_tasks(before)
        if change:
            _add(self.tasks_by_tenant, job.spec.tenant, change)


def _runs(job: Job | None) -> bool:
    return job is not None and job.state is JobState.RUNNING and not job.spec.is_parent


def _live_tasks(job: Job | None) -> int:
    return 0 if job is None or job.state.is_final else job.spec.task_count


def _add(counts: dict[K, int], key: K, change: int) -> None:
    count = counts[key] = counts.get(key, 0) + change
    if not count:
        del counts[key]
