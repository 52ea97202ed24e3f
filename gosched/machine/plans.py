"""Plans: each gang is checked against the state as it is now, then taken or refused whole.

Rule: nothing that the planner believed is trusted; a plan may be old, or wrong.
"""

from __future__ import annotations

from dataclasses import replace

from gosched.core.cluster import Allocation, Node, NodeState
from gosched.core.command import CommitPlan, GangPlacement, TaskPlacement
from gosched.core.job import Job, JobState, TaskGroup, TaskState, allocation_id, task_id
from gosched.core.outcome import Accepted, Event, Outcome, Refusal
from gosched.core.resources import GPU, ZERO, Resources
from gosched.core.state import ClusterState, wants_placement
from gosched.machine.changes import change_job, change_task


def commit(state: ClusterState, command: CommitPlan, events: list[Event]) -> Outcome:
    """Takes the gangs that can be taken, in the plan's order; the answer names the others and why."""
    refusals: list[Refusal] = []
    for gang in command.gangs:
        problem = _job_problem(state, gang) or _gang_problem(state, state.jobs[gang.job_id], gang)
        if problem:
            refusals.append(Refusal(job_id=gang.job_id, detail=problem))
        else:
            _place(state, events, state.jobs[gang.job_id], gang)
    return Accepted(refusals=tuple(refusals))


def _job_problem(state: ClusterState, gang: GangPlacement) -> str:
    job = state.jobs.get(gang.job_id)
    if job is None:
        return "there is no such job"
    if not wants_placement(job):
        return f"the job is {job.state.name} and does not wait for a place"
    if gang.attempt != job.attempt:
        return f"the job is at attempt {job.attempt}, the plan at {gang.attempt}"
    if job.not_before_ms > state.clock_ms:
        return f"the job waits another {job.not_before_ms - state.clock_ms} ms before its next attempt"
    if len(gang.tasks) != job.spec.task_count:
        return f"the job has {job.spec.task_count} tasks, the plan places {len(gang.tasks)}"
    return ""


def _gang_problem(state: ClusterState, job: Job, gang: GangPlacement) -> str:
    wanted: dict[str, Resources] = {}
    gpus: dict[str, dict[int, None]] = {}
    rank = 0
    for group in job.spec.groups:
        for placement in gang.tasks[rank : rank + group.count]:
            if placement.rank != rank:
                return f"rank {placement.rank} stands where rank {rank} belongs"
            rank += 1
            problem = _task_problem(state, group, placement, gpus)
            if problem:
                return problem
            node = placement.node_id
            wanted[node] = wanted.get(node, ZERO) + group.resources
    for node, resources in wanted.items():
        if not (state.usage[node] + resources).fits_in(state.nodes[node].capacity):
            return f"node {node} has no room for it any more"
    return ""


def _task_problem(
    state: ClusterState, group: TaskGroup, placement: TaskPlacement, taken: dict[str, dict[int, None]]
) -> str:
    node = state.nodes.get(placement.node_id)
    if node is None:
        return f"there is no node {placement.node_id!a}"
    if node.state is not NodeState.READY:
        return f"node {node.id} is {node.state.name}"
    for pair in group.node_selector:
        if pair not in node.labels:
            return f"node {node.id} lacks the label {pair[0]}={pair[1]}"
    if group.gpu_model and group.gpu_model != node.gpu_model:
        return f"node {node.id} has no {group.gpu_model} GPUs"
    if len(placement.gpus) * GPU != group.resources.gpu_millis:
        return f"{len(placement.gpus)} GPUs are placed on node {node.id} for a task of group {group.name}"
    if placement.gpus:
        return _gpu_problem(state, node, placement.gpus, taken)
    return ""


def _gpu_problem(state: ClusterState, node: Node, gpus: tuple[int, ...], taken: dict[str, dict[int, None]]) -> str:
    """Takes the GPUs, or says which one it cannot take."""
    if node.id not in taken:
        taken[node.id] = dict.fromkeys(state.node_gpus_held(node.id))
    for gpu in gpus:
        if not 0 <= gpu < node.capacity.gpu_millis // GPU:
            return f"node {node.id} has no GPU {gpu}"
        if gpu in taken[node.id]:
            return f"GPU {gpu} of node {node.id} is taken"
        taken[node.id][gpu] = None
    return ""


def _place(state: ClusterState, events: list[Event], job: Job, gang: GangPlacement) -> None:
    now = state.clock_ms
    rank = 0
    for group in job.spec.groups:
        for index in range(group.count):
            placement = gang.tasks[rank]
            rank += 1
            task = state.tasks[task_id(job.id, group.name, index)]
            allocation = Allocation(
                id=allocation_id(task.id, job.attempt),
                task_id=task.id,
                job_id=job.id,
                node_id=placement.node_id,
                resources=group.resources,
                gpus=placement.gpus,
                placed_at_ms=now,
            )
            state.put_allocation(allocation)
            placed = replace(
                task,
                state=TaskState.PLACED,
                allocation_id=allocation.id,
                node_id=placement.node_id,
                gpus=placement.gpus,
                placed_at_ms=now,
            )
            change_task(state, events, task, placed)
    first = job.attempt == 1
    running = replace(
        job,
        state=JobState.RUNNING,
        reason="",
        detail="",
        active=rank,
        started_at_ms=now if first else job.started_at_ms,
    )
    change_job(state, events, job, running, wait_ms=now - job.submitted_at_ms if first else None)
