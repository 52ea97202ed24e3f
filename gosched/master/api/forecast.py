"""What would become of jobs if they were submitted now.

Invariant: nothing is committed; a spec is refused here for the same reasons and in the same words as at its submission.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gosched.api.explanation import WaitExplanation
from gosched.api.forecast import JobPlan, MovedStart, PlannedJob
from gosched.core.records.job import Job
from gosched.core.rules.jobs import check_begin_in_time, check_job
from gosched.core.spec.array import Array
from gosched.core.spec.job_spec import JobSpec, OnMiss
from gosched.core.state.cluster_state import ClusterState
from gosched.master.api.evicted_jobs import victims_of
from gosched.master.api.explanation import node_tasks
from gosched.master.base.clock import utc
from gosched.master.jobs.admission import Admissions, refusal
from gosched.master.jobs.expected_ends import end_of_start
from gosched.master.planning.cycles import Cycles
from gosched.scheduling.queries.what_if import WhatIf, what_if
from gosched.state_machine.queues import submission_refusal
from gosched.wire.codec import to_record
from gosched.wire.v1 import types_pb2

MAX_SPECS = 100
REFUSED = "refused"
_NO_JOB = to_record(types_pb2.Job(), Job)  # what is planned is no job yet


async def forecast(
    state: ClusterState,
    cycles: Cycles,
    admissions: Admissions,
    specs: Sequence[JobSpec],
    caller: str,
    user: str = "",
) -> JobPlan:
    """Return what would become of each job; each deadline is looked at by itself. `user`: whose the jobs would be, if
    that is certain. Raises ApiError when the planner has no time for it."""
    problems = [_problem(state, spec) for spec in specs]
    unmet = [
        "" if problem else await admissions.obstacle(s, caller) for s, problem in zip(specs, problems, strict=True)
    ]
    problems = [
        refusal(why) if why and spec.on_miss is OnMiss.REFUSE else problem
        for spec, problem, why in zip(specs, problems, unmet, strict=True)
    ]
    planned = tuple([_as_planned(spec) for spec, problem in zip(specs, problems, strict=True) if not problem])
    found = await cycles.queries.ask(
        lambda view, policy, at_ms, seed: what_if(view, policy, planned, at_ms, seed), caller
    )
    answers = iter(found.jobs)
    jobs = []
    for spec, problem, why in zip(specs, problems, unmet, strict=True):
        if problem:
            refused = WaitExplanation(message=problem).of_job(_NO_JOB)
            jobs.append(PlannedJob(name=spec.name, outcome=REFUSED, explanation=refused))
        else:
            warnings = (*_left_out(state, spec), *([why] if why else []), *cycles.warnings(spec))
            job = replace(_NO_JOB, spec=_as_planned(spec), user=user, authenticated=bool(user))
            jobs.append(_planned(state, next(answers), job, warnings))
    moved = [
        MovedStart(job_id=job_id, name=_name(state, job_id), before_ms=before_ms, after_ms=after_ms)
        for job_id, before_ms, after_ms in found.moved
    ]
    return JobPlan(jobs=tuple(jobs), moved=tuple(moved), revision=state.revision)


def _problem(state: ClusterState, spec: JobSpec) -> str:
    found = check_job(spec, state.feature_level) or check_begin_in_time(spec, state.clock_ms)
    if found:
        return str(found)
    refused = submission_refusal(state, spec)
    return refused.detail if refused is not None else ""


def _as_planned(spec: JobSpec) -> JobSpec:
    """Return one run of the job, without what would hold it back."""
    return replace(spec, hold=False, after=(), array=Array(), cron="", begin_at_ms=0, begin_in_ms=0)


def _left_out(state: ClusterState, spec: JobSpec) -> list[str]:
    lines = []
    if spec.hold:
        lines.append("it would be held: planned as if it were released at once")
    begin_ms = spec.begin_ms(state.clock_ms)
    if begin_ms > state.clock_ms:
        lines.append(f"it would not begin before {utc(begin_ms)}: planned as if it began now")
    if spec.after:
        lines.append("it would wait for other jobs: planned as if they had ended")
    if spec.array.size:
        lines.append(f"one of its {spec.array.size} elements is planned")
    elif spec.cron:
        lines.append("one run of the schedule is planned, as if it were due now")
    return lines


def _planned(state: ClusterState, found: WhatIf, job: Job, warnings: tuple[str, ...]) -> PlannedJob:
    placement, why = found.placement, found.explanation
    end = end_of_start(state, job, found.start_ms)
    return PlannedJob(
        name=job.spec.name,
        outcome=found.outcome,
        nodes=node_tasks(task.node_id for task in placement.tasks) if placement else (),
        victims=victims_of(state, placement.evictions, state.clock_ms) if placement else (),
        start_ms=found.start_ms,
        explanation=why.of_job(_NO_JOB) if why else None,
        warnings=tuple([line for line in warnings if why is None or line != why.message]),
        expected_end_ms=end.expected_ms,
        likely_end_ms=end.likely_ms,
    )


def _name(state: ClusterState, job_id: str) -> str:
    return state.jobs[job_id].spec.name if job_id in state.jobs else ""
