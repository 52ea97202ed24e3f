"""What holds after every command. Rule: everything is recomputed from the tables, so no index vouches for itself.

For tests and simulations: `check` looks at the whole state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple

from gosched.core.accounting import half_life_of
from gosched.core.cluster import NodeState, TaskPlacement
from gosched.core.cpulist import parse_cpulist
from gosched.core.footprint_check import footprint_problems
from gosched.core.job import (
    Job,
    JobIntent,
    JobState,
    Task,
    TaskState,
    allocation_id,
    task_id,
)
from gosched.core.limits import (
    MAX_ANSWERS_PER_CLIENT,
    MAX_CLIENTS_REMEMBERED,
    MAX_FAILING_JOBS,
    MAX_MASTERS,
    MAX_WINDOWS,
)
from gosched.core.resources import MILLI, ZERO, Resources
from gosched.core.retention import Group, groups_of
from gosched.core.sharing import as_map, cluster_total, parent_of
from gosched.core.spec import MemberFailure
from gosched.core.state import ClusterState, account_key, group_of, wants_placement
from gosched.core.usage import NOTHING_SPENT, Spent


def check(state: ClusterState) -> list[str]:
    """The violations, one line each; an empty list for a sound state."""
    return [
        *_nodes(state),
        *_spent(state),
        *_capacity(state),
        *_devices(state),
        *_allocations(state),
        *_tasks(state),
        *_jobs(state),
        *_gangs(state),
        *_fences(state),
        *_fenced_room(state),
        *_promises(state),
        *_sharing(state),
        *_indexes(state),
        *_fence_indexes(state),
        *_sums(state),
        *_families(state),
        *_kept(state),
        *_registry(state),
        *footprint_problems(state),
    ]


def _nodes(state: ClusterState) -> Iterator[str]:
    """Who is closed has somebody who closed it; only who drains has something there that is to go by a moment."""
    for node in state.nodes.values():
        drains = node.state is NodeState.DRAINING
        if node.state is not NodeState.DEAD and (node.state is NodeState.READY) != (not node.closed_by):
            yield f"node {node.id} is {node.state.name}, closed by {node.closed_by.name}"
        if drains and not state.node_allocations[node.id]:
            yield f"node {node.id} is DRAINING, and empty"
        if node.drain_by_ms and not drains:
            yield f"node {node.id} is {node.state.name}, and is to be empty by {node.drain_by_ms}"
        if len(dict.fromkeys(node.failing)) != len(node.failing) or len(node.failing) > MAX_FAILING_JOBS:
            yield f"node {node.id} counts the jobs {node.failing} as failing"


def _spent(state: ClusterState) -> Iterator[str]:
    """A tenant pays for every job that there is, and those that are gone."""
    by_tenant: dict[str, Spent] = {}
    for job in state.jobs.values():
        if not job.spec.is_parent:
            by_tenant[job.spec.tenant] = by_tenant.get(job.spec.tenant, NOTHING_SPENT) + job.spent
    for name, spent in by_tenant.items():
        paid = state.tenants[name].spent if name in state.tenants else NOTHING_SPENT
        if any(a < b for a, b in zip(astuple(paid), astuple(spent), strict=True)):
            yield f"the jobs of tenant {name} have spent {spent}, it paid for {paid}"


def _capacity(state: ClusterState) -> Iterator[str]:
    held: dict[str, Resources] = {}
    for allocation in state.allocations.values():
        node = allocation.node_id
        held[node] = held.get(node, ZERO) + allocation.resources
    for node, resources in held.items():
        if node not in state.nodes:
            yield f"allocations on node {node}, which does not exist"
        elif (state.nodes[node].capacity - resources).is_negative():
            yield f"node {node} holds {resources}, more than it has"
    for node, resources in state.usage.items():
        if resources != held.get(node, ZERO):
            yield f"usage of node {node} is {resources}, its allocations hold {held.get(node, ZERO)}"


def _devices(state: ClusterState) -> Iterator[str]:
    """A GPU is one task's, or shared by parts that make no more than one; a named CPU is one task's."""
    gpus: dict[tuple[str, int], int] = {}
    cpus: dict[str, int] = {}
    for allocation in state.allocations.values():
        node = allocation.node_id
        for gpu in allocation.gpus:
            gpus[node, gpu] = gpus.get((node, gpu), 0) + min(allocation.resources.gpu_millis, MILLI)
        mask = parse_cpulist(allocation.cpus)
        if mask & cpus.get(node, 0):
            yield f"CPUs of {allocation.id} on node {node} have another owner too"
        cpus[node] = cpus.get(node, 0) | mask
    for (node, gpu), millis in gpus.items():
        if millis > MILLI:
            yield f"GPU {gpu} of node {node} is held {millis} thousandths"
    for node, mask in cpus.items():
        there = [parse_cpulist(text) for text in state.nodes[node].hardware.numa_cpus] if node in state.nodes else []
        if mask & ~sum(there):  # NUMA nodes share no CPU
            yield f"tasks own CPUs that node {node} lacks"


def _allocations(state: ClusterState) -> Iterator[str]:
    for allocation in state.allocations.values():
        task = state.tasks.get(allocation.task_id)
        if task is None or not task.state.is_active or task.allocation_id != allocation.id:
            yield f"allocation {allocation.id} is of no active task"
            continue
        if allocation.id != allocation_id(task.id, task.attempt, task.moves):
            yield f"allocation {allocation.id} is named for another attempt or move than its task's"
        if allocation.leaves_for and task.state is not TaskState.STOPPING:
            yield f"allocation {allocation.id} leaves for {allocation.leaves_for}, its task is {task.state.name}"
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


def _tasks(state: ClusterState) -> Iterator[str]:
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


def _jobs(state: ClusterState) -> Iterator[str]:
    sequences = [job.sequence for job in state.jobs.values()]
    if len(dict.fromkeys(sequences)) != len(sequences) or max(sequences, default=0) >= state.next_sequence:
        yield "sequence numbers repeat or run ahead"
    live: dict[str, str] = {}
    parents = dict.fromkeys(parent_of(path) for path in state.queues)
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
        if job.spec.queue in parents:
            yield f"live job {job.id} is in queue {job.spec.queue}, which has queues below it"
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
    """A gang's minimum is placed, or nothing of it; what is not to run any more is on its way out."""
    for job in state.jobs.values():
        if job.spec.is_parent:
            continue
        states = [state.tasks[t].state for t in job.task_ids() if t in state.tasks]
        pending = states.count(TaskState.PENDING)
        runs = job.state is JobState.RUNNING and job.intent is JobIntent.RUN
        if job.state is JobState.PENDING and (pending != len(states) or job.intent is not JobIntent.RUN):
            yield f"job {job.id} is PENDING with {job.intent.name}, and only {pending} of its tasks are"
        if job.state is JobState.SUSPENDED and pending != len(states):
            yield f"job {job.id} is SUSPENDED, and only {pending} of its tasks are PENDING"
        if job.unplaced != (pending if runs else 0):
            yield f"job {job.id} is {job.state.name} and counts {job.unplaced} tasks without a place, not {pending}"
        if job.state is JobState.RUNNING and not job.active:
            yield f"job {job.id} is RUNNING and holds nothing"
        if job.state.is_final and not all(s.is_final for s in states):
            yield f"job {job.id} is {job.state.name} and not all its tasks have ended"
        if job.intent is not JobIntent.RUN and any(s.is_active and s is not TaskState.STOPPING for s in states):
            yield f"job {job.id} is to {job.intent.name} and not all its tasks are stopping"
        if job.frozen and not runs:
            yield f"job {job.id} is {job.state.name} to {job.intent.name}, and frozen"
        if runs and job.failed and not _continues(job):
            yield f"job {job.id} runs on with a failed member"
        if job.state in (JobState.RUNNING, JobState.SUCCEEDED):
            yield from _minimum(state, job)


def _minimum(state: ClusterState, job: Job) -> Iterator[str]:
    for group in job.spec.groups:
        tasks = [state.tasks[t] for i in range(group.count) if (t := task_id(job.id, group.name, i)) in state.tasks]
        placed = [t for t in tasks if t.allocation_id == allocation_id(t.id, t.attempt, t.moves)]
        if _continues(job):
            runs = job.state is JobState.RUNNING and job.intent is JobIntent.RUN
            placed = [t for t in placed if not (runs and t.state.is_failure)]
        if len(placed) < group.floor:
            yield f"job {job.id} is {job.state.name}, {len(placed)} tasks of group {group.name} were placed"
        succeeded = sum(task.state is TaskState.SUCCEEDED for task in placed)
        needed = group.floor if _continues(job) else len(placed)
        if job.spec.gang.ends_with and job.spec.gang.ends_with != group.name and _all_succeeded(state, job):
            needed = 0
        if job.state is JobState.SUCCEEDED and succeeded < needed:
            yield f"job {job.id} SUCCEEDED, not all tasks of group {group.name} that were placed did"


def _all_succeeded(state: ClusterState, job: Job) -> bool:
    """Of the group with which the job ends."""
    own = [task for task in state.tasks_of(job) if task.group == job.spec.gang.ends_with]
    return all(task.state is TaskState.SUCCEEDED for task in own)


def _continues(job: Job) -> bool:
    return job.spec.gang.on_member_failure is MemberFailure.CONTINUE


def _fences(state: ClusterState) -> Iterator[str]:
    """A fence is of a job that waits for just this start, or is about to."""
    for job_id, fence in state.fences.items():
        job = state.jobs.get(job_id)
        if job is None or fence.job_id != job_id:
            yield f"the fence of job {job_id} is in the wrong place, or its job is gone"
            continue
        stops = job.state is JobState.RUNNING and job.intent is JobIntent.RESTART and not job.held
        waits = wants_placement(job) and job.attempt == fence.attempt
        if not (waits or (stops and job.attempt + 1 == fence.attempt)):
            yield f"job {job_id} is {job.state.name} at attempt {job.attempt}, and has a fence for {fence.attempt}"
        ranks = [placement.rank for placement in fence.tasks]
        if not ranks or ranks != sorted(dict.fromkeys(ranks)) or not 0 <= ranks[0] <= ranks[-1] < job.spec.task_count:
            yield f"the fence of job {job_id} is of ranks {ranks}"
        for node in dict.fromkeys(placement.node_id for placement in fence.tasks):
            if node not in state.nodes or state.nodes[node].state is not NodeState.READY:
                yield f"the fence of job {job_id} is on node {node}, which takes no work"


def _fenced_room(state: ClusterState) -> Iterator[str]:
    """Once all tasks that stop have stopped, every fence has its room and its devices."""
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


def _promises(state: ClusterState) -> Iterator[str]:
    for job_id, reservation in state.reservations.items():
        job = state.jobs.get(job_id)
        if job is None or reservation.job_id != job_id or job_id in state.fences:
            yield f"the reservation of job {job_id} is in the wrong place, or its job is gone or has a fence"
            continue
        if job.state is not JobState.PENDING or job.held or job.attempt != reservation.attempt:
            yield f"job {job_id} is {job.state.name} at attempt {job.attempt} and has a reservation"
        groups = {group.name: group.count for group in job.spec.groups}
        for name, count in groups.items():
            if sum(share.count for share in reservation.shares if share.group == name) > count:
                yield f"the reservation of job {job_id} holds too many tasks of group {name}"
        if any(s.node_id not in state.nodes or s.group not in groups or s.count < 1 for s in reservation.shares):
            yield f"the reservation of job {job_id} names nodes or groups that are not there"
    if len(state.windows) > MAX_WINDOWS:
        yield f"there are {len(state.windows)} windows"
    for name, window in state.windows.items():
        if window.name != name or 0 < window.end_ms <= window.start_ms:
            yield f"window {name} is in the wrong place, or ends before it starts"
        if any(node not in state.nodes for node in window.nodes):
            yield f"window {name} is of nodes that are not there"


def _sharing(state: ClusterState) -> Iterator[str]:
    for path in state.queues:
        if parent_of(path) and parent_of(path) not in state.queues:
            yield f"queue {path} lacks its parent"
    for tenant, quota in state.quotas.items():
        if quota.tenant != tenant or not (quota.limit or quota.max_running_jobs):
            yield f"the quota of {tenant} is in the wrong place, or limits nothing"
    for key, account in state.accounts.items():
        if key != account_key(account.queue, account.tenant) or account.at_ms > state.clock_ms:
            yield f"account {key} is in the wrong place, or ahead of the clock"
        elif account.queue not in state.queues or not half_life_of(state.queues, account.queue):
            yield f"account {key} is of no queue with a half-life"
        if any(amount <= 0 for _, amount in account.used):
            yield f"account {key} has amounts that are not positive"
    for queue, tenant, _ in state.charges:
        free = queue not in state.queues or not half_life_of(state.queues, queue)
        if not free and account_key(queue, tenant) not in state.accounts:
            yield f"tenant {tenant} holds something in queue {queue}, which has a half-life, and has no account"


def _indexes(state: ClusterState) -> Iterator[str]:
    placed: dict[str, list[str]] = {node: [] for node in state.nodes}
    for allocation in state.allocations.values():
        placed.setdefault(allocation.node_id, []).append(allocation.id)
    if {n: sorted(own) for n, own in state.node_allocations.items()} != {n: sorted(own) for n, own in placed.items()}:
        yield "node_allocations is not what the allocations say"
    if sorted(state.usage) != sorted(state.nodes):
        yield "usage has other nodes than there are"
    waiting = [job.id for job in state.jobs.values() if wants_placement(job) and job.id not in state.fences]
    if sorted(state.pending) != sorted(waiting):
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


def _fence_indexes(state: ClusterState) -> Iterator[str]:
    by_node: dict[str, dict[str, tuple[TaskPlacement, ...]]] = {}
    fenced: dict[str, Resources] = {}
    for job_id, fence in state.fences.items():
        for placement in fence.tasks:
            own = by_node.setdefault(placement.node_id, {})
            own[job_id] = (*own.get(job_id, ()), placement)
            asked = group_of(state.jobs[job_id].spec, placement.rank).resources if job_id in state.jobs else ZERO
            fenced[placement.node_id] = fenced.get(placement.node_id, ZERO) + asked
    if state.node_fences != by_node:
        yield "node_fences is not what the fences say"
    if state.fenced != {node: asked for node, asked in fenced.items() if asked != ZERO}:
        yield "fenced is not what the fences ask for"
    leaving: dict[str, Resources] = {}
    awaited: Counter[str] = Counter()
    for allocation in state.allocations.values():
        if allocation.leaves_for:
            awaited[allocation.leaves_for] += 1
            leaving[allocation.node_id] = leaving.get(allocation.node_id, ZERO) + allocation.resources
    if state.leaving != {node: held for node, held in leaving.items() if held != ZERO}:
        yield "leaving is not what the allocations say"
    if state.awaited != awaited:
        yield "awaited is not what the allocations say"
    if any(job_id not in state.fences for job_id in awaited):
        yield "allocations leave for a job that has no fence"


def _sums(state: ClusterState) -> Iterator[str]:
    charges: dict[tuple[str, str, str], Resources] = {}
    for allocation in state.allocations.values():
        if allocation.job_id in state.jobs:
            spec = state.jobs[allocation.job_id].spec
            payer = (spec.queue, spec.tenant, allocation.gpu_model)
            charges[payer] = charges.get(payer, ZERO) + allocation.resources
    if state.charges != {payer: held for payer, held in charges.items() if held != ZERO}:
        yield "charges are not what the allocations hold"
    gangs = [j.spec for j in state.jobs.values() if j.state is JobState.RUNNING and not j.spec.is_parent]
    running = Counter((spec.queue, spec.tenant) for spec in gangs)
    if state.running != running:
        yield "running is not the count of RUNNING jobs"
    living = cluster_total((n.usable, n.gpu_model) for n in state.nodes.values() if n.state is not NodeState.DEAD)
    if as_map(state.total) != as_map(living):
        yield "total is not what the living nodes can give"


def _families(state: ClusterState) -> Iterator[str]:
    """What is left to do is for jobs that are there; relatives are in order of sequence."""
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
    if {job: [*own] for job, own in state.dependents.items()} != waiting:
        yield "dependents is not what the jobs wait for, in their order"
    if {job: [*own] for job, own in state.offspring.items()} != offspring:
        yield "offspring is not the live children, in their order"


def _kept(state: ClusterState) -> Iterator[str]:
    live = [job.spec for job in state.jobs.values() if not job.state.is_final]
    if state.live != Counter(spec.tenant for spec in live) or state.live_in != Counter(spec.queue for spec in live):
        yield "live is not the count of jobs that have not ended"
    ended = [job for job in state.jobs.values() if job.state.is_final]
    if state.kept.by_tenant != Counter(job.spec.tenant for job in ended):
        yield "kept is not the count of jobs that have ended"
    oldest: dict[Group, Job] = {}
    for job in sorted(ended, key=lambda job: (job.ended_at_ms, job.sequence)):
        for group in groups_of(job):
            oldest.setdefault(group, job)
    if any(state.kept.oldest(group) != job.id for group, job in oldest.items()):
        yield "kept does not begin with the job that ended first"


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
