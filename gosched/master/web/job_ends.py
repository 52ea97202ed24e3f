"""When running jobs end, as the planner sees it: by their limit, by the estimate of their users, or unknown.

Invariant: an estimate that has passed counts as the planner counts it: the job runs on for as long as it has overrun.
"""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """When an attempt ends."""

    #: When it is stopped at the latest, or must give way; 0: it has no limit.
    limit_ms: int
    #: When it is expected to end; 0: not known.
    expected_ms: int

    @property
    def known_ms(self) -> int:
        """Return the earlier one that is known; 0: neither is."""
        return min([at_ms for at_ms in (self.limit_ms, self.expected_ms) if at_ms], default=0)


def job_end(job: Job, now_ms: int) -> JobEnd:
    """Return the end of a job that holds a place."""
    begun_ms, spec = job.placed_at_ms, job.spec
    if not begun_ms:
        return JobEnd(limit_ms=job.until_ms, expected_ms=0)
    limits = [at_ms for at_ms in (spec.timeout_ms and begun_ms + spec.timeout_ms, job.until_ms) if at_ms]
    limit_ms = min(limits, default=0)
    expected_ms = begun_ms + spec.estimate_ms if spec.estimate_ms else 0
    if 0 < expected_ms < now_ms:
        expected_ms = now_ms + (now_ms - expected_ms)
    if limit_ms and expected_ms > limit_ms:
        expected_ms = limit_ms
    return JobEnd(limit_ms=limit_ms, expected_ms=expected_ms)
