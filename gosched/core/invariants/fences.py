"""Fences: of jobs that wait, with capacity for each, and their indexes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gosched.core.cpulist import parse_cpulist
from gosched.core.preemption_rules import restarts_in_place
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.job import JobState, wants_placement
from gosched.core.records.node import NodeState
from gosched.core.records.task import TaskState
from gosched.core.resources import MILLI, ZERO, Resources
from gosched.core.spec.job_spec import group_of
from gosched.core.state.cluster_state import ClusterState


def fence_problems(state: ClusterState) -> Iterator[str]:
    """Yield fences of jobs that do not wait for just this start, and are not about to."""
    for job_id, fence in state.fences.items():
        job = state.jobs.get(job_id)
        if job is None or fence.job_id != job_id:
            yield f"the fence of job {job_id} is in the wrong place, or its job is gone"
            continue
        stops = job.state is JobState.RUNNING and restarts_in_place(job)
        waits = wants_placement(job) and job.attempt == fence.attempt
        if not (waits or (stops and job.attempt + 1 == fence.attempt)):
            yield f"job {job_id} is {job.state.name} at attempt {job.attempt}, and has a fence for {fence.attempt}"
        ranks = [placement.rank for placement in fence.tasks]
        if not ranks or ranks != sorted(dict.fromkeys(ranks)) or not 0 <= ranks[0] <= ranks[-1] < job.spec.task_count:
            yield f"the fence of job {job_id} is of ranks {ranks}"
        for node in dict.fromkeys(placement.node_id for placement in fence.tasks):
            if node not in state.nodes or state.nodes[node].state is not NodeState.READY:
                yield f"the fence of job {job_id} is on node {node}, which takes no work"


def fenced_capacity_problems(state: ClusterState) -> Iterator[str]:
    """Yield the nodes that lack capacity or devices for their fences, once all tasks that stop have stopped."""
    held = dict.fromkeys(state.nodes, ZERO)
    gpus: Counter[tuple[str, int]] = Counter()
    cpus: list[tuple[str, str]] = []
    for allocation in state.allocations.values():
        task = state.tasks.get(allocation.task_id)
        if task is not None and task.state is not TaskState.STOPPING:
            held[allocation.node_id] = held.get(allocation.node_id, ZERO) + allocation.resources
            gpus.update({(allocation.node_id, g): min(allocation.resources.gpu_millis, MILLI) for g in allocation.gpus})
            cpus.append((allocation.node_id, allocation.cpus))
    fences = [(state.jobs[job], fence) for job, fence in state.fences.items() if job in state.jobs]
    fenced = [(p, group_of(job.spec, p.rank)) for job, f in fences for p in f.tasks if p.node_id in state.nodes]
    for placement, group in fenced:
        held[placement.node_id] = held[placement.node_id] + group.resources
        gpus.update({(placement.node_id, g): min(group.resources.gpu_millis, MILLI) for g in placement.gpus})
        cpus.append((placement.node_id, placement.cpus))
    owned: dict[str, int] = {}
    for node, text in cpus:
        mask = parse_cpulist(text)
        if mask & owned.get(node, 0):
            yield f"CPUs {text} of node {node} will have two owners"
        owned[node] = owned.get(node, 0) | mask
    for node in dict.fromkeys(placement.node_id for placement, _ in fenced):
        if not held[node].fits_in(state.nodes[node].capacity):
            yield f"node {node} will hold {held[node]}, more than it has"
    for (node, gpu), millis in gpus.items():
        if millis > MILLI:
            yield f"GPU {gpu} of node {node} will be held {millis} thousandths"


def fence_index_problems(state: ClusterState) -> Iterator[str]:
    by_node: dict[str, dict[str, tuple[TaskPlacement, ...]]] = {}
    fenced: dict[str, Resources] = {}
    for job_id, fence in state.fences.items():
        for placement in fence.tasks:
            own = by_node.setdefault(placement.node_id, {})
            own[job_id] = (*own.get(job_id, ()), placement)
            asked = group_of(state.jobs[job_id].spec, placement.rank).resources if job_id in state.jobs else ZERO
            fenced[placement.node_id] = fenced.get(placement.node_id, ZERO) + asked
    if state.fenced.placements != by_node:
        yield "node_fences is not what the fences say"
    if state.fenced.resources != {node: asked for node, asked in fenced.items() if asked != ZERO}:
        yield "fenced is not what the fences ask for"
    leaving: dict[str, Resources] = {}
    awaited: Counter[str] = Counter()
    for allocation in state.allocations.values():
        if allocation.evicted_for_fence:
            awaited[allocation.evicted_for_fence] += 1
            leaving[allocation.node_id] = leaving.get(allocation.node_id, ZERO) + allocation.resources
    if state.fenced.evicting != {node: held for node, held in leaving.items() if held != ZERO}:
        yield "leaving is not what the allocations say"
    if state.fenced.awaited != awaited:
        yield "awaited is not what the allocations say"
    if any(job_id not in state.fences for job_id in awaited):
        yield "allocations leave for a job that has no fence"
