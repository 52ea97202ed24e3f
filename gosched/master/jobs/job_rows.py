"""Rows of listings: jobs with why they wait, and since when.

Invariant: it is read from the state, the newest cycle and the history's notes alone, at a cost that does not grow with
the number of jobs.
"""

from __future__ import annotations

from collections.abc import Mapping

from gosched.api.job_row import JobRow, row_of
from gosched.core.reasons import WaitReason
from gosched.core.records.job import Job
from gosched.core.state.cluster_state import ClusterState
from gosched.master.history.recorder import NotedReason
from gosched.master.jobs.wait_reasons import wait_reason
from gosched.scheduling import Explanation

_NO_WAITS = (WaitReason.ARRAY, WaitReason.SCHEDULE)  # a parent is at work then


def job_row(
    state: ClusterState, job: Job, explanations: Mapping[str, Explanation], noted: Mapping[str, NotedReason]
) -> JobRow:
    """Return the row of a job. `explanations`: of the leader's newest cycle; a master that does not lead has none, and
    says what was noted last."""
    if job.state.is_final:
        return row_of(job)
    note = noted.get(job.id)
    if job.id in state.pending:
        if (why := explanations.get(job.id)) is not None:
            since_ms = note.at_ms if note is not None and note.code == why.code else 0
            return _row(job, why.code, why.message, since_ms, why.start_ms)
        if note is not None:
            return _row(job, note.code, note.message, note.at_ms)
    known = wait_reason(state, job)
    if known is None or known[0] in _NO_WAITS:
        return row_of(job)
    start_ms = job.begin_ms if known[0] is WaitReason.BEGIN else 0
    return _row(job, *known, _since_ms(job, known[0], note), start_ms)


def _row(job: Job, code: str, message: str, since_ms: int, start_ms: int = 0) -> JobRow:
    return row_of(job, wait_code=code, wait_message=message, waits_since_ms=since_ms, start_ms=start_ms)


def _since_ms(job: Job, code: WaitReason, note: NotedReason | None) -> int:
    """Return since when a job waits that the planner does not look at; 0: not known."""
    if note is not None and note.code == code:
        return note.at_ms
    from_the_beginning = (job.spec.hold and code is WaitReason.HELD) or code in (
        WaitReason.BEGIN,
        WaitReason.DEPENDENCY,
    )
    return job.submitted_at_ms if from_the_beginning and not job.shown_attempt else 0
