"""Indexes over jobs and nodes, kept jobs, masters and answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gosched.core.features import FeatureLevel
from gosched.core.limits import (
    ANSWERS_KEPT_MS,
    FEW_ANSWERS_PER_CLIENT,
    MAX_CLIENTS_REMEMBERED,
    MAX_CLOCK_STEP_MS,
    MAX_MASTERS,
)
from gosched.core.records.job import Job, wants_placement
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.kept_jobs import KeptGroup, groups_of


def index_problems(state: ClusterState) -> Iterator[str]:
    placed: dict[str, list[str]] = {node: [] for node in state.nodes}
    for allocation in state.allocations.values():
        placed.setdefault(allocation.node_id, []).append(allocation.id)
    if {n: sorted(own) for n, own in state.node_allocations.items()} != {n: sorted(own) for n, own in placed.items()}:
        yield "node_allocations is not what the allocations say"
    if sorted(state.usage) != sorted(state.nodes):
        yield "usage has other nodes than there are"
    ports = sorted((job.port, job.id) for job in state.jobs.values() if job.port)
    if sorted((port, job) for port, jobs in state.port_jobs.items() for job in jobs) != ports:
        yield "port_jobs is not what the jobs say"
    waiting = [job.id for job in state.jobs.values() if wants_placement(job) and job.id not in state.fences]
    if sorted(state.pending) != sorted(waiting):
        yield "pending is not the jobs that want a place"
    ends = [state.jobs[j].kept_since_ms for j in state.finished if j in state.jobs]
    if sorted(state.finished) != sorted(job.id for job in state.jobs.values() if job.state.is_final):
        yield "finished is not the jobs that have ended"
    if ends != sorted(ends):
        yield "finished is not in order of end"
    named: dict[tuple[str, str], list[Job]] = {}
    for job in state.jobs.values():
        named.setdefault((job.spec.tenant, job.spec.name), []).append(job)
    newest: dict[str, list[str]] = {}
    for (_, name), own in named.items():
        newest.setdefault(name, []).append(max(own, key=lambda job: job.sequence).id)
    indexed = {name: sorted(state.names.ids_of(name)) for name in state.names.newest}
    if indexed != {name: sorted(ids) for name, ids in newest.items()}:
        yield "names does not lead to the newest jobs"
    for (tenant, name), own in named.items():
        if [*state.names.namesakes(tenant, name)] != [job.id for job in sorted(own, key=lambda j: -j.sequence)]:
            yield f"names does not have all jobs of tenant {tenant} that are named {name}"


def kept_job_problems(state: ClusterState) -> Iterator[str]:
    live = [job.spec for job in state.jobs.values() if not job.state.is_final]
    counts = state.counts
    if counts.live_by_tenant != Counter(spec.tenant for spec in live) or counts.live_by_queue != Counter(
        spec.queue for spec in live
    ):
        yield "live is not the count of jobs that have not ended"
    tasks = Counter[str]()
    for spec in live:
        tasks[spec.tenant] += spec.task_count
    if counts.tasks_by_tenant != +tasks:
        yield "tasks_by_tenant is not the count of the tasks of jobs that have not ended"
    ended = [job for job in state.jobs.values() if job.state.is_final]
    if state.kept.by_tenant != Counter(job.spec.tenant for job in ended):
        yield "kept is not the count of jobs that have ended"
    oldest: dict[KeptGroup, Job] = {}
    for job in sorted(ended, key=lambda job: (job.kept_since_ms, job.sequence)):
        for group in groups_of(job):
            oldest.setdefault(group, job)
    if any(state.kept.oldest(group) != job.id for group, job in oldest.items()):
        yield "kept does not begin with the job that ended first"


def registry_problems(state: ClusterState) -> Iterator[str]:
    if state.leader and state.leader not in state.masters:  # nobody: a state that a backup began, until one leads
        yield f"the leader {state.leader} of epoch {state.epoch} is not among the masters"
    if len(state.masters) > MAX_MASTERS or len(state.answers) > MAX_CLIENTS_REMEMBERED:
        yield "more masters or clients are remembered than allowed"
    for client, own in state.answers.items():
        if not 0 < len(own) <= FEW_ANSWERS_PER_CLIENT:
            yield f"{len(own)} answers are remembered for client {client!r}"
        if any((a.client_id, a.request_id) != (client, request) for request, a in own.items()):
            yield f"an answer of client {client!r} is in the wrong place"
    is_bounded = state.feature_level >= FeatureLevel.BOUNDED
    if state.answers if is_bounded else state.answered:
        yield f"what is remembered of requests is in the wrong table for feature level {state.feature_level}"
    latest_ms = state.clock_ms + ANSWERS_KEPT_MS + MAX_CLOCK_STEP_MS
    if any(answered.until_ms > latest_ms for answered in state.answered.values()):
        yield "a request is remembered for too long"
    oldest = state.answered.oldest()
    if (oldest.key if oldest is not None else None) != next(iter(state.answered), None):
        yield "the oldest request that is remembered is another one"
