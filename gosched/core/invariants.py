"""What holds after every command. Rule: everything is recomputed from the tables, so no index vouches for itself.

For tests and simulations: `check` looks at the whole state.
"""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.cluster import NodeState
from gosched.core.job import Job, JobIntent, JobState, Task, TaskState, allocation_id
from gosched.core.limits import MAX_ANSWERS_PER_CLIENT, MAX_CLIENTS_REMEMBERED, MAX_MASTERS
from gosched.core.resources import GPU, ZERO, Resources
from gosched.core.state import ClusterState, wants_placement


def check(state: ClusterState) -> list[str]:
    """The violations, one line each; an empty list for a sound state."""
    return [
        *_capacity(state),
        *_allocations(state),
        *_tasks(state),
        *_jobs(state),
        *_gangs(state),
        *_indexes(state),
        *_registry(state),
    ]


def _capacity(state: ClusterState) -> Iterator[str]:
    held: dict[str, Resources] = {}
    gpus: dict[tuple[str, int], str] = {}
    for allocation in state.allocations.values():
        node = allocation.node_id
        held[node] = held.get(node, ZERO) + allocation.resources
        for gpu in allocation.gpus:
            other = gpus.setdefault((node, gpu), allocation.id)
            if other != allocation.id:
                yield f"GPU {gpu} of node {node} is held by {other} and {allocation.id}"
    for node, resources in held.items():
        if node not in state.nodes:
            yield f"allocations on node {node}, which does not exist"
        elif (state.nodes[node].capacity - resources).is_negative():
            yield f"node {node} holds {resources}, more than it has"
    for node, resources in state.usage.items():
        if resources != held.get(node, ZERO):
            yield f"usage of node {node} is {resources}, its allocations hold {held.get(node, ZERO)}"


def _allocations(state: ClusterState) -> Iterator[str]:
    for allocation in state.allocations.values():
        task = state.tasks.get(allocation.task_id)
        if task is None or not task.state.is_active or task.allocation_id != allocation.id:
            yield f"allocation {allocation.id} is of no active task"
            continue
        if allocation.id != allocation_id(task.id, task.attempt):
            yield f"allocation {allocation.id} is named for another attempt than its task's"
        if (allocation.job_id, allocation.node_id, allocation.gpus) != (task.job_id, task.node_id, task.gpus):
            yield f"allocation {allocation.id} and its task disagree"
        if len(dict.fromkeys(allocation.gpus)) * GPU != allocation.resources.gpu_millis:
            yield f"allocation {allocation.id} has GPUs {allocation.gpus} for {allocation.resources}"
        node = state.nodes.get(allocation.node_id)
        if node is not None and node.state is NodeState.DEAD:
            yield f"allocation {allocation.id} is on a dead node"
        if node is not None and any(not 0 <= g < node.capacity.gpu_millis // GPU for g in allocation.gpus):
            yield f"allocation {allocation.id} has a GPU that node {node.id} lacks"


def _tasks(state: ClusterState) -> Iterator[str]:
    for task in state.tasks.values():
        if task.state.is_active != (task.allocation_id in state.allocations):
            yield f"task {task.id} is {task.state.name}, allocation {task.allocation_id!r} disagrees"
        job = state.jobs.get(task.job_id)
        if job is None:
            yield f"task {task.id} has no job"
        elif task.attempt != job.attempt:
            yield f"task {task.id} is at attempt {task.attempt}, its job at {job.attempt}"
    if len(state.tasks) != sum(job.spec.task_count for job in state.jobs.values()):
        yield "there are more or fewer tasks than the jobs have"


def _jobs(state: ClusterState) -> Iterator[str]:
    sequences = [job.sequence for job in state.jobs.values()]
    if len(dict.fromkeys(sequences)) != len(sequences) or max(sequences, default=0) >= state.next_sequence:
        yield "sequence numbers repeat or run ahead"
    live: dict[str, str] = {}
    for job in state.jobs.values():
        tasks = [state.tasks[t] for t in job.task_ids() if t in state.tasks]
        yield from _counters(job, tasks)
        if [t.rank for t in tasks] != list(range(job.spec.task_count)):
            yield f"job {job.id} lacks tasks, or their ranks are out of order"
        if job.spec.tenant not in state.tenants:
            yield f"job {job.id} has no tenant"
        if job.intent is JobIntent.UNSPECIFIED or job.restarts > job.attempt:
            yield f"job {job.id} has no intent, or more restarts than attempts"
        if job.state.is_final != (job.ended_at_ms > 0):
            yield f"job {job.id} is {job.state.name} and ended at {job.ended_at_ms}"
        if job.state.is_final:
            continue
        if job.spec.queue not in state.queues:
            yield f"live job {job.id} is in queue {job.spec.queue}, which does not exist"
        if live.setdefault(job.spec.name, job.id) != job.id:
            yield f"two live jobs are named {job.spec.name}"


def _counters(job: Job, tasks: list[Task]) -> Iterator[str]:
    counted = (
        sum(t.state.is_active for t in tasks),
        sum(t.state is TaskState.RUNNING for t in tasks),
        sum(t.state is TaskState.SUCCEEDED for t in tasks),
        sum(t.state.is_failure for t in tasks),
    )
    if counted != (job.active, job.running, job.succeeded, job.failed):
        yield f"job {job.id} counts {(job.active, job.running, job.succeeded, job.failed)}, its tasks {counted}"


def _gangs(state: ClusterState) -> Iterator[str]:
    """All of a gang is placed, or none; what is not to run any more is on its way out."""
    for job in state.jobs.values():
        states = [state.tasks[t].state for t in job.task_ids() if t in state.tasks]
        pending = states.count(TaskState.PENDING)
        if job.state is JobState.PENDING and (pending != len(states) or job.intent is not JobIntent.RUN):
            yield f"job {job.id} is PENDING with {job.intent.name}, and only {pending} of its tasks are"
        if job.state is JobState.RUNNING and (pending or not job.active):
            yield f"job {job.id} is RUNNING with {pending} tasks not placed and {job.active} active"
        if job.state.is_final and not all(s.is_final for s in states):
            yield f"job {job.id} is {job.state.name} and not all its tasks have ended"
        if job.state is JobState.SUCCEEDED and job.succeeded != len(states):
            yield f"job {job.id} SUCCEEDED, {job.succeeded} of its {len(states)} tasks did"
        if job.intent is not JobIntent.RUN and any(s.is_active and s is not TaskState.STOPPING for s in states):
            yield f"job {job.id} is to {job.intent.name} and not all its tasks are stopping"
        if job.state is JobState.RUNNING and job.intent is JobIntent.RUN and job.failed:
            yield f"job {job.id} runs on with a failed member"


def _indexes(state: ClusterState) -> Iterator[str]:
    placed: dict[str, list[str]] = {node: [] for node in state.nodes}
    for allocation in state.allocations.values():
        placed.setdefault(allocation.node_id, []).append(allocation.id)
    if {n: sorted(own) for n, own in state.node_allocations.items()} != {n: sorted(own) for n, own in placed.items()}:
        yield "node_allocations is not what the allocations say"
    if sorted(state.usage) != sorted(state.nodes):
        yield "usage has other nodes than there are"
    if sorted(state.pending) != sorted(job.id for job in state.jobs.values() if wants_placement(job)):
        yield "pending is not the jobs that want a place"
    ends = [state.jobs[j].ended_at_ms for j in state.finished if j in state.jobs]
    if sorted(state.finished) != sorted(job.id for job in state.jobs.values() if job.state.is_final):
        yield "finished is not the jobs that have ended"
    if ends != sorted(ends):
        yield "finished is not in order of end"
    newest: dict[str, Job] = {}
    for job in state.jobs.values():
        if job.spec.name not in newest or newest[job.spec.name].sequence < job.sequence:
            newest[job.spec.name] = job
    if state.names != {name: job.id for name, job in newest.items()}:
        yield "names does not lead to the newest jobs"


def _registry(state: ClusterState) -> Iterator[str]:
    if state.epoch and state.leader not in state.masters:
        yield f"the leader {state.leader} of epoch {state.epoch} is not among the masters"
    if len(state.masters) > MAX_MASTERS or len(state.answers) > MAX_CLIENTS_REMEMBERED:
        yield "more masters or clients are remembered than allowed"
    for client, own in state.answers.items():
        if not 0 < len(own) <= MAX_ANSWERS_PER_CLIENT:
            yield f"{len(own)} answers are remembered for client {client!r}"
        if any((a.client_id, a.request_id) != (client, request) for request, a in own.items()):
            yield f"an answer of client {client!r} is in the wrong place"
