"""Jobs that have ended and are still kept, by tenant and by parent, the one that ended first at the front.

Invariant: derived from the jobs alone, so it is the same on every master, and after a restore.
"""

from __future__ import annotations

import heapq
from collections import Counter
from enum import IntEnum
from typing import NamedTuple

from gosched.core.records.job import Job, JobState


class KeptKind(IntEnum):
    """What a group is of: elements of arrays (a tenant's), all its other jobs, or one array's elements."""

    ELEMENTS = 1
    OTHERS = 2
    SUCCEEDED = 3  # of one array: those that did not fail
    FAILED = 4  # of one array


class KeptGroup(NamedTuple):
    kind: KeptKind
    #: A tenant's name, or the array's job id.
    id: str


class _Entry(NamedTuple):
    kept_since_ms: int
    sequence: int
    job_id: str


class KeptJobs:
    """Heaps with stale entries; those are dropped when they come up."""

    def __init__(self) -> None:
        #: Tenant -> how many of its jobs are kept.
        self.by_tenant: Counter[str] = Counter()
        self._entries: dict[str, _Entry] = {}  # by job id
        self._sizes: Counter[KeptGroup] = Counter()
        self._heaps: dict[KeptGroup, list[_Entry]] = {}

    def add(self, job: Job) -> None:
        """Add a job that has just ended; once more changes nothing."""
        if job.id in self._entries:
            return
        entry = self._entries[job.id] = _Entry(job.kept_since_ms, job.sequence, job.id)
        self.by_tenant[job.spec.tenant] += 1
        for group in groups_of(job):
            self._sizes[group] += 1
            heapq.heappush(self._heaps.setdefault(group, []), entry)

    def drop(self, job: Job) -> None:
        if self._entries.pop(job.id, None) is None:
            return
        self.by_tenant[job.spec.tenant] -= 1
        if not self.by_tenant[job.spec.tenant]:
            del self.by_tenant[job.spec.tenant]
        for group in groups_of(job):
            self._sizes[group] -= 1
            if not self._sizes[group]:
                del self._sizes[group], self._heaps[group]
            elif len(self._heaps[group]) > 2 * self._sizes[group] + 64:  # mostly stale
                self._heaps[group] = sorted(e for e in self._heaps[group] if self._is_fresh(e))

    def size(self, group: KeptGroup) -> int:
        return self._sizes[group]

    def oldest(self, group: KeptGroup) -> str:
        """Return the id of the job that ended first; empty: there is none."""
        heap = self._heaps.get(group, [])
        while heap and not self._is_fresh(heap[0]):
            heapq.heappop(heap)
        return heap[0].job_id if heap else ""

    def newest(self, group: KeptGroup, count: int) -> list[str]:
        """Return the ids of the jobs that ended last, the last one first."""
        fresh = [entry for entry in self._heaps.get(group, []) if self._is_fresh(entry)]
        return [entry.job_id for entry in heapq.nlargest(count, fresh)]

    def _is_fresh(self, entry: _Entry) -> bool:
        return self._entries.get(entry.job_id) == entry


def groups_of(job: Job) -> tuple[KeptGroup, ...]:
    """Return the groups that a job is in once it has ended."""
    if not job.is_element:
        return (KeptGroup(KeptKind.OTHERS, job.spec.tenant),)
    own = KeptKind.FAILED if job.state is JobState.FAILED else KeptKind.SUCCEEDED
    return (KeptGroup(KeptKind.ELEMENTS, job.spec.tenant), KeptGroup(own, job.parent))
