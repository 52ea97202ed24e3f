"""Dependencies: which jobs a job waits for, and what the end of one means for those that wait.

Invariant: a job waits only for jobs that were there before it, so there is never a circle. A job that waits is released
or cancelled in the step in which the other job ends, or (where many wait) in one of those after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from gosched.core.events import Event, JobUpdated
from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.outcome import Code, Rejected
from gosched.core.reasons import Reason
from gosched.core.records.job import Job, JobState
from gosched.core.replace import replace
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.job_spec import JobSpec
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import units
from gosched.state_machine.children import add_children, cancel

MAX_DEPENDENTS = 10_000  # that wait for one job


def unmet(
    state: ClusterState, spec: JobSpec, job_id: str, unseen: Sequence[str] = ()
) -> tuple[Dependency, ...] | Rejected:
    """Return what of `spec.after` the new job has to wait for, by id; or why it can never start. `unseen`: jobs that
    count as not there."""
    waits_for: dict[Dependency, None] = {}
    for wanted in spec.after:
        if wanted.job in (spec.name, f"{spec.tenant}/{spec.name}", job_id):
            return Rejected(code=Code.INVALID, detail=f"after names the job itself, {wanted.job}: name another job")
        other = None if wanted.job in unseen else state.find_job(wanted.job, spec.tenant)
        if other is None:
            return Rejected(code=Code.INVALID, detail=_no_such_job(state.feature_level, spec, wanted))
        if not other.state.is_final:
            waits_for[Dependency(job=other.id, condition=wanted.condition)] = None
            if len(state.relatives.dependents.get(other.id, ())) >= MAX_DEPENDENTS:
                detail = f"{MAX_DEPENDENTS} jobs wait for {other.spec.name} already: wait for a job that waits for it"
                return Rejected(code=Code.EXHAUSTED, detail=detail)
        elif not _is_met(wanted.condition, other.state):
            ended = f"{other.spec.name} has ended {other.state.name}, and the job is to start after its "
            detail = f"{ended}{wanted.condition.name.lower()}: submit {other.spec.name} again first"
            return Rejected(code=Code.CONFLICT, detail=detail)
    return tuple(waits_for)


def _no_such_job(level: int, spec: JobSpec, wanted: Dependency) -> str:
    advice = "submit it first"
    if level >= FeatureLevel.BOUNDED:
        advice = f"submit it first; a name without a tenant is one of {spec.tenant}, TENANT/NAME is another tenant's"
    return f"after names {wanted.job[:MAX_NAME_LENGTH]!a}, and there is no such job: {advice}"


def job_ended(state: ClusterState, events: list[Event], job: Job) -> None:
    """Release the jobs that waited for this one, and cancel those that can never start now."""
    waiting = [state.jobs[j] for j in state.relatives.dependents.get(job.id, ())]
    for dependent in sorted(waiting, key=lambda dependent: dependent.sequence):
        dependency_ended(state, events, dependent, job)


def dependency_ended(state: ClusterState, events: list[Event], dependent: Job, job: Job) -> None:
    """Release or cancel a job after the end of one that it waited for."""
    conditions = [wanted.condition for wanted in dependent.waits_for if wanted.job == job.id]
    if all(_is_met(condition, job.state) for condition in conditions):
        _release(state, events, dependent, job)
    else:
        why = f" ({job.reason})" if job.reason else ""
        name = units.job_name(state.feature_level, job, dependent)
        cancel(state, events, dependent, Reason.DEPENDENCY_FAILED, f"{name} ended {job.state.name}{why}")


def _release(state: ClusterState, events: list[Event], dependent: Job, job: Job) -> None:
    left = tuple(wanted for wanted in dependent.waits_for if wanted.job != job.id)
    if left:
        state.put_job(replace(dependent, waits_for=left))
        return
    could_start_ms = 0 if dependent.spec.is_parent else state.clock_ms
    if dependent.begins_later(state.clock_ms):
        could_start_ms = dependent.begin_ms
    state.put_job(replace(dependent, waits_for=(), not_before_ms=could_start_ms))
    events.append(JobUpdated(job_id=dependent.id))
    if dependent.spec.is_parent:
        add_children(state, events, dependent.id)


def _is_met(condition: Condition, ended: JobState) -> bool:
    match condition:
        case Condition.SUCCESS:
            return ended is JobState.SUCCEEDED
        case Condition.FAILURE:
            return ended in (JobState.FAILED, JobState.CANCELLED)
        case _:
            return True
