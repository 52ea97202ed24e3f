"""What is learned from jobs: how long they ran, and whether what was predicted of them was kept.

An attempt teaches when it has succeeded, has failed by itself, or has reached its timeout: then it would have run for
at least as long. One that others ended (an eviction, a cancellation, the loss of a node) says nothing, and neither does
the rest of a job that went on from a checkpoint.

Invariant: there are MAX_RUN_HISTORIES at most; the one that was taught longest ago is forgotten first.
"""

from __future__ import annotations

from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_RUN_HISTORIES
from gosched.core.reasons import Reason
from gosched.core.records.job import Job, JobIntent
from gosched.core.records.run_history import RunHistory
from gosched.core.replace import replace
from gosched.core.run_times import judged, keys_of, predict, taught
from gosched.core.state.cluster_state import ClusterState


def likely_ms(state: ClusterState, job: Job) -> int:
    """Return what nine of ten jobs like this one run no longer than; 0: it is not known."""
    if state.feature_level < FeatureLevel.BOUNDED or not state.run_histories:
        return 0
    found = predict(state.run_histories, keys_of(job), job.spec.timeout_ms)
    return found.likely_ms if found is not None else 0


def learn(state: ClusterState, job: Job, ended_at_ms: int) -> None:
    """Learn from an attempt that ended then, if it teaches."""
    if state.feature_level < FeatureLevel.BOUNDED or not job.placed_at_ms or not _teaches(job):
        return
    run_ms = max(ended_at_ms - job.placed_at_ms, 1)
    limit_ms = job.spec.timeout_ms
    run_ms = min(run_ms, limit_ms) if limit_ms else run_ms
    keys = keys_of(job)
    histories = [taught(state.run_histories.get(key) or RunHistory(key=key), run_ms) for key in keys]
    if job.likely_ms and job.reason != Reason.TIMEOUT:
        histories[-1] = judged(histories[-1], kept=run_ms <= job.likely_ms)
    for history in histories:
        state.put_run_history(history)
    while len(state.run_histories) > MAX_RUN_HISTORIES:
        state.drop_run_history(next(iter(state.run_histories)))


def overran(state: ClusterState, job: Job) -> Job:
    """Return the job, which has run for longer than was likely. That is counted now, and not at its end: else what is
    learned would be what short jobs say until the long ones have ended."""
    known = state.run_histories.get(keys_of(job)[-1])
    if known is not None:
        state.put_run_history(judged(known, kept=False))
    return replace(job, likely_ms=0)


def _teaches(job: Job) -> bool:
    """Return whether the attempt, which is over, ended by itself, and ran from the beginning of the work."""
    if job.preemptions and job.spec.preemption.checkpoint_signal:
        return False
    return job.intent in (JobIntent.RUN, JobIntent.SUCCEED) or job.reason == Reason.TIMEOUT or job.failed_at_ms > 0
