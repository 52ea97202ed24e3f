"""Jobs: their counters, their sequence numbers, their children and dependents."""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.records.job import Job, JobIntent
from gosched.core.records.task import Task, TaskState
from gosched.core.sharing import parent_of
from gosched.core.state.cluster_state import ClusterState


def job_problems(state: ClusterState) -> Iterator[str]:
    sequences = [job.sequence for job in state.jobs.values()]
    if len(dict.fromkeys(sequences)) != len(sequences) or max(sequences, default=0) >= state.next_sequence:
        yield "sequence numbers repeat or run ahead"
    live: dict[tuple[str, str], str] = {}
    parents = dict.fromkeys(parent_of(path) for path in state.queues)
    for job in state.jobs.values():
        tasks = [state.tasks[t] for t in job.task_ids() if t in state.tasks]
        yield from _counters(job, tasks)
        if [t.rank for t in tasks] != list(range(job.spec.task_count)):
            yield f"job {job.id} lacks tasks, or their ranks are out of order"
        if job.spec.tenant not in state.tenants:
            yield f"job {job.id} has no tenant"
        if job.intent is JobIntent.UNSPECIFIED or not 0 <= job.restarts <= job.attempt:
            yield f"job {job.id} has no intent, or more restarts than attempts"
        if job.state.is_final != (job.ended_at_ms > 0):
            yield f"job {job.id} is {job.state.name} and ended at {job.ended_at_ms}"
        if job.end_known_at_ms and not job.ended_at_ms:
            yield f"the end of job {job.id} is known, and it has none"
        if job.state.is_final:
            continue
        if job.spec.queue not in state.queues:
            yield f"live job {job.id} is in queue {job.spec.queue}, which does not exist"
        if job.spec.queue in parents:
            yield f"live job {job.id} is in queue {job.spec.queue}, which has queues below it"
        if live.setdefault((job.spec.tenant, job.spec.name), job.id) != job.id:
            yield f"two live jobs of tenant {job.spec.tenant} are named {job.spec.name}"


def _counters(job: Job, tasks: list[Task]) -> Iterator[str]:
    counted = (
        sum(t.state.is_active for t in tasks),
        sum(t.state is TaskState.RUNNING for t in tasks),
        sum(t.state is TaskState.SUCCEEDED for t in tasks),
        sum(t.state.is_failure for t in tasks),
    )
    if counted != (job.active, job.running, job.succeeded, job.failed):
        yield f"job {job.id} counts {(job.active, job.running, job.succeeded, job.failed)}, its tasks {counted}"


def relative_problems(state: ClusterState) -> Iterator[str]:
    """Yield follow-ups of jobs that are gone, and relatives that are not in order of sequence."""
    for job_id, follow_up in state.follow_ups.items():
        kinds = [step.kind for step in follow_up.steps]
        if follow_up.job_id != job_id or job_id not in state.jobs:
            yield f"the follow-up of job {job_id} is in the wrong place, or its job is gone"
        if not kinds or len(dict.fromkeys(kinds)) != len(kinds):
            yield f"the follow-up of job {job_id} is {kinds}"
    waiting: dict[str, list[str]] = {}
    offspring: dict[str, list[str]] = {}
    for job in sorted(state.jobs.values(), key=lambda job: job.sequence):
        if not job.state.is_final:
            for other in dict.fromkeys(wanted.job for wanted in job.waits_for):
                waiting.setdefault(other, []).append(job.id)
            if job.parent:
                offspring.setdefault(job.parent, []).append(job.id)
    if {job: [*own] for job, own in state.relatives.dependents.items()} != waiting:
        yield "dependents is not what the jobs wait for, in their order"
    if {job: [*own] for job, own in state.relatives.children.items()} != offspring:
        yield "offspring is not the live children, in their order"
