"""What would become of jobs if they were submitted now: the same planner, with them and without.

Invariant: nothing is committed, and what is compared was planned from the same view, time and seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gosched.core.commands.plans import GangPlacement
from gosched.core.records.job import Job
from gosched.core.sharing import add_to
from gosched.core.spec.job_spec import JobSpec
from gosched.scheduling.cycle import schedule
from gosched.scheduling.explain.explanation import Explanation
from gosched.scheduling.plan import Plan
from gosched.scheduling.policy import ALL, Policy
from gosched.scheduling.queries.explain_on_request import FITS_NOW, explain_on_request
from gosched.scheduling.snapshot.task_requests import PendingGang, pending_gang
from gosched.scheduling.snapshot.view import View

STARTS, AFTER_EVICTIONS, WAITS = "starts", "starts_after_evictions", "waits"

_LAST = 1 << 60  # sequences of jobs that are not submitted yet


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What would become of one job."""

    name: str
    #: STARTS, AFTER_EVICTIONS or WAITS.
    outcome: str
    #: None: it waits.
    placement: GangPlacement | None = None
    #: Now, or the estimated start; 0: none is in sight.
    start_ms: int = 0
    #: Why it waits; None: it starts.
    explanation: Explanation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfPlan:
    """What would become of several jobs that are submitted together."""

    jobs: tuple[WhatIf, ...]
    #: Starts of other jobs that would change: job id, before, after; 0: no start is reserved.
    moved: tuple[tuple[str, int, int], ...]


def what_if(view: View, policy: Policy, specs: Sequence[JobSpec], now_ms: int, seed: int) -> WhatIfPlan:
    """Return what would become of the jobs if they were submitted now, in this order."""
    policy = replace(policy, max_tasks=ALL)
    gangs = [pending_gang(_job(spec, number, now_ms)) for number, spec in enumerate(specs)]
    fuller = _with(view, gangs)
    without, with_them = schedule(view, policy, now_ms, seed), schedule(fuller, policy, now_ms, seed)
    placed = {gang.job_id: gang for gang in with_them.gangs}
    jobs = []
    for gang in gangs:
        placement = placed.get(gang.job_id)
        if placement is not None:
            outcome = AFTER_EVICTIONS if placement.evictions else STARTS
            jobs.append(WhatIf(name=gang.name, outcome=outcome, placement=placement, start_ms=now_ms))
        else:
            why = explain_on_request(fuller, policy, gang.job_id, now_ms, seed)
            reserved = with_them.explanations[gang.job_id]
            if why is None or why == FITS_NOW:  # it fits but for jobs of its own file that come before it
                why = reserved
            why = replace(why, victims=reserved.victims)
            start = reserved.start_ms or why.start_ms
            jobs.append(WhatIf(name=gang.name, outcome=WAITS, start_ms=start, explanation=why))
    return WhatIfPlan(jobs=tuple(jobs), moved=_moved(view, without, with_them, now_ms))


def _job(spec: JobSpec, number: int, now_ms: int) -> Job:
    return Job(id=f"planned.{number}", spec=spec, sequence=_LAST + number, submitted_at_ms=now_ms)


def _with(view: View, gangs: Sequence[PendingGang]) -> View:
    demand = {queue: dict(amounts) for queue, amounts in view.demand.items()}
    for gang in gangs:
        add_to(demand.setdefault(gang.queue, {}), dict(gang.charge))
    return replace(view, pending=(*view.pending, *gangs), demand=demand)


def _moved(view: View, without: Plan, with_them: Plan, now_ms: int) -> tuple[tuple[str, int, int], ...]:
    before, after = _starts(view, without, now_ms), _starts(view, with_them, now_ms)
    found = [(gang.job_id, before.get(gang.job_id, 0), after.get(gang.job_id, 0)) for gang in view.pending]
    return tuple([(job_id, old, new) for job_id, old, new in found if old != new])


def _starts(view: View, plan: Plan, now_ms: int) -> dict[str, int]:
    """Return when each pending job starts, as far as the plan says."""
    starts = {job_id: reservation.start_ms for job_id, reservation in view.reservations.items()}
    for job_id in plan.withdrawn:
        starts.pop(job_id, None)
    starts.update({reservation.job_id: reservation.start_ms for reservation in plan.reservations})
    starts.update({gang.job_id: now_ms for gang in plan.gangs if gang.job_id})
    return starts
