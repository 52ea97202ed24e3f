"""Why the planner does not look at a live job: it is held, suspended, waits for others, or is about to start.

Invariant: it is read from the state alone, at a cost that does not grow with the number of jobs.
"""

from __future__ import annotations

from collections.abc import Sequence

from gosched.core.reasons import WaitReason
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.policies import RetryCause
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.job_names import name_beside
from gosched.master.base.clock import utc

NAMES_SHOWN = 5

_CONDITIONS = {Condition.SUCCESS: "must succeed", Condition.FAILURE: "must fail", Condition.ANY: "must end"}


def wait_reason(state: ClusterState, job: Job) -> tuple[WaitReason, str] | None:
    """Return a code and one line; None for a job that the planner looks at, that runs on whole, or that has ended."""
    name = job.spec.name
    if job.state.is_final:
        return None
    if job.state is not job.shown_state and job.intent is JobIntent.RUN:
        return WaitReason.SUSPENDED, f"it is frozen and keeps its resources: goschedctl job resume {name}"
    if job.state is JobState.SUSPENDED:
        return WaitReason.SUSPENDED, f"it is suspended: goschedctl job resume {name}"
    if job.spec.is_parent and not (job.held or job.waits_for):
        return _of_parent(state, job)
    if job.intent is not JobIntent.RUN:
        return WaitReason.STOPPING, f"{job.active} of its tasks still {'has' if job.active == 1 else 'have'} to stop"
    if job.state is JobState.RUNNING and job.failed and not job.may_join:
        return WaitReason.NOT_RETRIED, _not_retried(job)
    if job.state is not JobState.PENDING and not job.spec.is_parent:
        return None
    if job.held:
        return WaitReason.HELD, f"it is held: goschedctl job release {name}"
    if job.waits_for:
        return WaitReason.DEPENDENCY, "it waits for " + _listed([_awaited(state, job, d) for d in job.waits_for])
    if job.id in state.fences:
        return WaitReason.FENCE, _of_fence(state, job.id)
    return None


def _not_retried(job: Job) -> str:
    count = "1 of its tasks has" if job.failed == 1 else f"{job.failed} of its tasks have"
    why = f"retry.max is {job.spec.retry.max_restarts}, and so often members have been"
    if RetryCause.FAILED not in job.spec.retry.when:
        why = "retry.when does not name failed"
    return f"{count} failed and {'is' if job.failed == 1 else 'are'} not started again: {why}; the others run on"


def _of_parent(state: ClusterState, job: Job) -> tuple[WaitReason, str]:
    if job.begins_later(state.clock_ms):
        return WaitReason.BEGIN, f"it does not begin before {utc(job.begin_ms)}"
    children = job.children
    ended = f"{children.succeeded} succeeded, {children.failed} failed, {children.cancelled} cancelled"
    problem = f"; {job.detail}" if job.detail else ""
    if job.spec.cron:
        line = f"next run at {utc(children.next_run_at_ms)}; {children.made} runs so far: {children.live} live, {ended}"
        return WaitReason.SCHEDULE, line + problem
    size = job.spec.array.size
    line = f"{size} elements: {children.live} live, {ended}, {size - children.made} to come"
    return WaitReason.ARRAY, line + problem


def _awaited(state: ClusterState, waiting: Job, dependency: Dependency) -> str:
    job = state.jobs.get(dependency.job)
    name, now = (dependency.job, "forgotten") if job is None else (_name_of(job, waiting), job.shown_state.name)
    return f"{name} ({now}; {_CONDITIONS.get(dependency.condition, 'must end')})"


def _of_fence(state: ClusterState, job_id: str) -> str:
    nodes = sorted({placement.node_id for placement in state.fences[job_id].tasks})
    victims: dict[str, None] = {}
    for node in nodes:
        for allocation in [state.allocations[a] for a in state.node_allocations.get(node, ())]:
            if allocation.evicted_for_fence == job_id:
                victims[_name_of(state.jobs[allocation.job_id], state.jobs[job_id])] = None
    begins_ms = state.fences[job_id].not_before_ms
    if begins_ms > state.clock_ms and not victims:
        return f"it starts again on {_listed(nodes)} at {utc(begins_ms)}, after its backoff; its places there are kept"
    leaving = f"once its victims have ended ({_listed(list(victims))})" if victims else "once the last victim has ended"
    return f"it starts on {_listed(nodes)} {leaving}: {_tasks(state.fenced.awaited.get(job_id, 0))} left"


def _name_of(other: Job, job: Job) -> str:
    its, to = (other.spec.tenant, other.spec.queue), (job.spec.tenant, job.spec.queue)
    return name_beside(other.spec.name, other.id, its, to)


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
