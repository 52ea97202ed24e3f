"""What would become of jobs if they were submitted now.

Rule: nothing is committed; a spec is refused here for the same reasons, in the same words, as at its submission.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from gosched.core.spec.array import Array
from gosched.core.spec.job_spec import JobSpec, OnMiss
from gosched.core.state.cluster_state import ClusterState
from gosched.master.api.explanation import fill_explanation
from gosched.master.api.victims import fill_victims
from gosched.master.jobs.admission import Admissions, refusal
from gosched.master.planning.cycles import Cycles
from gosched.scheduling.queries.what_if import WhatIf, what_if
from gosched.state_machine.queues import submission_refusal
from gosched.state_machine.specs import spec_problem
from gosched.wire.v1 import scheduler_pb2

MAX_SPECS = 100
REFUSED = "refused"


async def forecast(
    state: ClusterState, cycles: Cycles, admissions: Admissions, specs: Sequence[JobSpec]
) -> scheduler_pb2.PlanJobResponse:
    """Each deadline is looked at by itself. Raises ApiError when the planner has no time for it."""
    problems = [_problem(state, spec) for spec in specs]
    unmet = ["" if problem else await admissions.obstacle(s) for s, problem in zip(specs, problems, strict=True)]
    problems = [
        refusal(why) if why and spec.on_miss is OnMiss.REFUSE else problem
        for spec, problem, why in zip(specs, problems, unmet, strict=True)
    ]
    planned = tuple([_as_planned(spec) for spec, problem in zip(specs, problems, strict=True) if not problem])
    found = await cycles.questions.ask(lambda view, policy, at_ms, seed: what_if(view, policy, planned, at_ms, seed))
    answers = iter(found.jobs)
    response = scheduler_pb2.PlanJobResponse(revision=state.revision)
    for spec, problem, why in zip(specs, problems, unmet, strict=True):
        job = response.jobs.add(name=spec.name)
        if problem:
            job.outcome = REFUSED
            job.explanation.message = problem
        else:
            _fill(state, next(answers), job)
            job.warnings.extend([*_left_out(spec), *([why] if why else []), *cycles.warnings(spec)])
    for job_id, before_ms, after_ms in found.moved:
        name = state.jobs[job_id].spec.name if job_id in state.jobs else ""
        response.moved.add(job_id=job_id, name=name, before_ms=before_ms, after_ms=after_ms)
    return response


def _problem(state: ClusterState, spec: JobSpec) -> str:
    problem = spec_problem(spec)
    if problem:
        return problem
    refused = submission_refusal(state, spec)
    return refused.detail if refused is not None else ""


def _as_planned(spec: JobSpec) -> JobSpec:
    """One run of it, as if all that holds it were gone."""
    return replace(spec, hold=False, after=(), array=Array(), cron="")


def _left_out(spec: JobSpec) -> list[str]:
    lines = []
    if spec.hold:
        lines.append("it would be held: planned as if it were released at once")
    if spec.after:
        lines.append("it would wait for other jobs: planned as if they had ended")
    if spec.array.size:
        lines.append(f"planned is one of its {spec.array.size} elements")
    elif spec.cron:
        lines.append("planned is one run of the schedule, now")
    return lines


def _fill(state: ClusterState, found: WhatIf, job: scheduler_pb2.PlannedJob) -> None:
    job.outcome, job.start_ms = found.outcome, found.start_ms
    if found.placement is not None:
        for node_id, tasks in sorted(Counter(task.node_id for task in found.placement.tasks).items()):
            job.nodes.add(node_id=node_id, tasks=tasks)
        fill_victims(state, found.placement.evictions, state.clock_ms, job.victims)
    if found.explanation is not None:
        fill_explanation(found.explanation, job.explanation)
