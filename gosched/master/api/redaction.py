"""What callers read who do not see all jobs: other tenants' jobs lose their names.

Invariant: how much of what others hold stays told, since why a job waits and until when depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from gosched.api.details import JobDetail, WaitLine
from gosched.api.explanation import Holder, JobExplanation, JobWait, Victim, WaitExplanation
from gosched.api.forecast import JobPlan, PlannedJob, Reserved
from gosched.api.job_row import JobRow
from gosched.core.records.job import Job
from gosched.master.base.access import HIDDEN, Wording

#: Whether the caller sees the job of an id; None: it sees all.
Seen = Callable[[str], bool] | None

W = TypeVar("W", bound=WaitExplanation)


def job_for(job: Job, seen: Seen, words: Wording) -> Job:
    """Return the job without the names and ids of jobs that the caller does not see."""
    if seen is None:
        return job
    return replace(
        job, detail=words(job.detail), evicted_for=tuple([other for other in job.evicted_for if seen(other)])
    )


def detail_for(detail: JobDetail, seen: Seen, words: Wording) -> JobDetail:
    """Return the same of a job with its tasks."""
    if seen is None:
        return detail
    why = detail.explanation
    return replace(
        detail,
        job=job_for(detail.job, seen, words),
        explanation=WaitLine(why.code, words(why.message)) if why is not None else None,
    )


def row_for(row: JobRow, words: Wording) -> JobRow:
    """Return the same of a row."""
    return replace(row, detail=words(row.detail), wait_message=words(row.wait_message))


def wait_for(wait: JobWait, words: Wording) -> JobWait:
    """Return the same of why a job waits."""
    return replace(wait, message=words(wait.message))


def explanation_for(explanation: W, seen: Seen, words: Wording) -> W:
    """Return the same of an explanation."""
    if seen is None:
        return explanation
    if isinstance(explanation, JobExplanation):
        explanation = replace(explanation, job=job_for(explanation.job, seen, words))
    return replace(
        explanation,
        holders=tuple([_holder(one, seen) for one in explanation.holders]),
        victims=tuple([_victim(one, seen) for one in explanation.victims]),
        message=words(explanation.message),
        start_from=words(explanation.start_from),
        change=words(explanation.change),
        nearest=words(explanation.nearest),
    )


def plan_for(plan: JobPlan, seen: Seen, words: Wording) -> JobPlan:
    """Return the same of a plan."""
    if seen is None:
        return plan
    moved = tuple([one for one in plan.moved if seen(one.job_id)])
    return replace(plan, jobs=tuple([_planned(job, seen, words) for job in plan.jobs]), moved=moved)


def reserved_for(reserved: Reserved, seen: Seen) -> Reserved:
    """Return the windows, and the reservations and fences of jobs that the caller sees."""
    if seen is None:
        return reserved
    return replace(
        reserved,
        reservations=tuple([one for one in reserved.reservations if seen(one.job_id)]),
        fences=tuple([one for one in reserved.fences if seen(one.job_id)]),
    )


def _planned(job: PlannedJob, seen: Callable[[str], bool], words: Wording) -> PlannedJob:
    why: JobExplanation | None = explanation_for(job.explanation, seen, words) if job.explanation is not None else None
    return replace(job, victims=tuple([_victim(one, seen) for one in job.victims]), explanation=why)


def _holder(holder: Holder, seen: Callable[[str], bool]) -> Holder:
    return holder if seen(holder.job_id) else replace(holder, job_id="", name=HIDDEN)


def _victim(victim: Victim, seen: Callable[[str], bool]) -> Victim:
    return victim if seen(victim.job_id) else replace(victim, job_id="", name=HIDDEN)
