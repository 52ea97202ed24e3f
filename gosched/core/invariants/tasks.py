"""Tasks agree with their jobs, allocations with their tasks."""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.cpulist import parse_cpulist
from gosched.core.records.node import NodeState
from gosched.core.records.task import TaskState, allocation_id
from gosched.core.resources import MILLI
from gosched.core.state.cluster_state import ClusterState


def allocation_problems(state: ClusterState) -> Iterator[str]:
    for allocation in state.allocations.values():
        task = state.tasks.get(allocation.task_id)
        if task is None or not task.state.is_active or task.allocation_id != allocation.id:
            yield f"allocation {allocation.id} is of no active task"
            continue
        if allocation.id != allocation_id(task.id, task.attempt, task.moves):
            yield f"allocation {allocation.id} is named for another attempt or move than its task's"
        if allocation.evicted_for_fence and task.state is not TaskState.STOPPING:
            yield f"allocation {allocation.id} leaves for {allocation.evicted_for_fence}, its task is {task.state.name}"
        place = (allocation.job_id, allocation.node_id, allocation.gpus, allocation.cpus)
        if place != (task.job_id, task.node_id, task.gpus, task.cpus):
            yield f"allocation {allocation.id} and its task disagree"
        if len(dict.fromkeys(allocation.gpus)) != -(-allocation.resources.gpu_millis // MILLI):
            yield f"allocation {allocation.id} has GPUs {allocation.gpus} for {allocation.resources}"
        if allocation.cpus and parse_cpulist(allocation.cpus).bit_count() * MILLI != allocation.resources.cpu_millis:
            yield f"allocation {allocation.id} has CPUs {allocation.cpus} for {allocation.resources}"
        node = state.nodes.get(allocation.node_id)
        if node is not None and node.state is NodeState.DEAD:
            yield f"allocation {allocation.id} is on a dead node"
        if node is not None and any(not 0 <= g < node.capacity.gpu_millis // MILLI for g in allocation.gpus):
            yield f"allocation {allocation.id} has a GPU that node {node.id} lacks"
        if node is not None and allocation.gpu_model != (node.gpu_model if allocation.gpus else ""):
            yield f"allocation {allocation.id} names the GPU model {allocation.gpu_model!r}"


def task_problems(state: ClusterState) -> Iterator[str]:
    for task in state.tasks.values():
        if task.moves < 0 or task.state.is_active != (task.allocation_id in state.allocations):
            yield f"task {task.id} is {task.state.name}, allocation {task.allocation_id!r} disagrees"
        job = state.jobs.get(task.job_id)
        if job is None:
            yield f"task {task.id} has no job"
        elif task.attempt != job.attempt:
            yield f"task {task.id} is at attempt {task.attempt}, its job at {job.attempt}"
    if len(state.tasks) != sum(job.spec.task_count for job in state.jobs.values()):
        yield "there are more or fewer tasks than the jobs have"
