"""When jobs are expected to end, by the run times of jobs like them. Nothing is ever ended for it.

Invariant: no later than a timeout ends them.
"""

from __future__ import annotations

from typing import NamedTuple

from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.run_times import RunTimes, keys_of, predict
from gosched.core.state.cluster_state import ClusterState


class ExpectedEnd(NamedTuple):
    """When a job is expected to end, in ms since 1970."""

    #: As half of the jobs like it do; 0: not known, or all like it would have ended by now.
    expected_ms: int = 0
    #: As nine of ten do; 0: not known, or it is over.
    likely_ms: int = 0


def expected_end(state: ClusterState, job: Job) -> ExpectedEnd:
    """Return when a job ends that runs; nothing is known of one that is frozen or is being stopped."""
    if job.state is not JobState.RUNNING or job.intent is not JobIntent.RUN or job.frozen or not job.placed_at_ms:
        return ExpectedEnd()
    return _end(job.placed_at_ms, state.clock_ms, _run_times(state, job), job.spec.timeout_ms)


def end_of_start(state: ClusterState, job: Job, start_ms: int) -> ExpectedEnd:
    """Return when a job ends that starts then; 0: it is not known when."""
    return _end(start_ms, start_ms, _run_times(state, job), job.spec.timeout_ms) if start_ms else ExpectedEnd()


def _run_times(state: ClusterState, job: Job) -> RunTimes | None:
    return None if job.spec.is_parent else predict(state.run_histories, keys_of(job), job.spec.timeout_ms)


def _end(start_ms: int, now_ms: int, known: RunTimes | None, timeout_ms: int) -> ExpectedEnd:
    if known is None:
        return ExpectedEnd()
    age_ms = max(now_ms - start_ms, 0)
    expected_ms, likely_ms = known.expected_after(age_ms), known.likely_after(age_ms)
    if timeout_ms:
        expected_ms, likely_ms = min(expected_ms, timeout_ms), min(likely_ms, timeout_ms)
    return ExpectedEnd(
        expected_ms=start_ms + expected_ms if expected_ms >= age_ms and expected_ms else 0,
        likely_ms=start_ms + likely_ms if likely_ms >= age_ms else 0,
    )
