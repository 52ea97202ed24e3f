"""Explanations and plans for callers who do not see all jobs: other tenants' jobs lose their names.

Invariant: how much of what others hold stays told, since why a job waits and until when depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from gosched.api.explanation import Holder, JobExplanation, Victim, WaitExplanation
from gosched.api.forecast import JobPlan, PlannedJob, Reserved

HIDDEN = "a job of another tenant"

#: Whether the caller sees the job of an id; None: it sees all.
Seen = Callable[[str], bool] | None

W = TypeVar("W", bound=WaitExplanation)


def explanation_for(explanation: W, seen: Seen) -> W:
    """Return the explanation without the names and ids of jobs that the caller does not see."""
    if seen is None:
        return explanation
    others: list[Holder | Victim] = [*explanation.holders, *explanation.victims]
    hidden = [one.name for one in others if not seen(one.job_id)]
    return replace(
        explanation,
        holders=tuple([_holder(one, seen) for one in explanation.holders]),
        victims=tuple([_victim(one, seen) for one in explanation.victims]),
        message=_without(explanation.message, hidden),
        start_from=_without(explanation.start_from, hidden),
        change=_without(explanation.change, hidden),
        nearest=_without(explanation.nearest, hidden),
    )


def plan_for(plan: JobPlan, seen: Seen) -> JobPlan:
    """Return the plan without the names and ids of jobs that the caller does not see."""
    if seen is None:
        return plan
    moved = tuple([one for one in plan.moved if seen(one.job_id)])
    return replace(plan, jobs=tuple([_planned(job, seen) for job in plan.jobs]), moved=moved)


def reserved_for(reserved: Reserved, seen: Seen) -> Reserved:
    """Return the windows, and the reservations and fences of jobs that the caller sees."""
    if seen is None:
        return reserved
    return replace(
        reserved,
        reservations=tuple([one for one in reserved.reservations if seen(one.job_id)]),
        fences=tuple([one for one in reserved.fences if seen(one.job_id)]),
    )


def _planned(job: PlannedJob, seen: Callable[[str], bool]) -> PlannedJob:
    why: JobExplanation | None = explanation_for(job.explanation, seen) if job.explanation is not None else None
    return replace(job, victims=tuple([_victim(one, seen) for one in job.victims]), explanation=why)


def _holder(holder: Holder, seen: Callable[[str], bool]) -> Holder:
    return holder if seen(holder.job_id) else replace(holder, job_id="", name=HIDDEN)


def _victim(victim: Victim, seen: Callable[[str], bool]) -> Victim:
    return victim if seen(victim.job_id) else replace(victim, job_id="", name=HIDDEN)


def _without(text: str, names: list[str]) -> str:
    if not names:
        return text
    either = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    return re.sub(rf"(?:\bjobs? )?(?<![\w.-])(?:{either})(?![\w.-])", HIDDEN, text)
