"""Orders for agents: a task's start order, whole, and its stop order, from the state alone.

Invariant: the same allocation gives the same order from every leader, so that an order sent twice is the same order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from hashlib import blake2b

from gosched.core.limits import FIRST_PORT
from gosched.core.orders import StopOrder, TaskOrder
from gosched.core.reasons import Reason
from gosched.core.records.allocation import Allocation
from gosched.core.records.job import Job, JobIntent
from gosched.core.records.task import Task, allocation_id
from gosched.core.replace import replace
from gosched.core.resources import MILLI
from gosched.core.spec.job_spec import JobSpec, OnDisconnect
from gosched.core.spec.task_group import Framework, TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.core.trace_context import JobTrace, TraceContext, job_trace, run_span_id
from gosched.state_machine.ports import preferred
from gosched.state_machine.unix_accounts import account_number

MAX_GANGS_REMEMBERED = 64

# Fields of an order that hold what the task's group has in the field of the same name.
_AS_IN_THE_GROUP = {each.name for each in fields(TaskOrder)} & {each.name for each in fields(TaskGroup)}
_AS_IN_THE_GROUP -= {"env", "resources"}


@dataclass(frozen=True, slots=True)
class _Gang:
    """What the members are told alike that got their places together: once for all, and once for each group."""

    spec: JobSpec  # that it was made of
    variables: Mapping[str, str]
    groups: dict[str, _Group]


@dataclass(frozen=True, slots=True)
class _Group:
    """What the members of one group are told alike, `_Gang.variables` among it."""

    variables: Mapping[str, str]
    framework: Framework
    order: TaskOrder  # but for what is a member's own
    trace: JobTrace


class Orders:
    """Makes start orders. It remembers what the members of the last gangs that it made orders for are told alike."""

    def __init__(self) -> None:
        self._gangs: dict[tuple[str, int, int], _Gang] = {}

    def start(self, state: ClusterState, allocation: Allocation) -> TaskOrder:
        """Return the order to start an allocation."""
        job = state.jobs[allocation.job_id]
        task = state.tasks[allocation.task_id]
        gang = self._gang_of(state, job, task)
        alike = gang.groups.get(task.group)
        if alike is None:
            alike = gang.groups[task.group] = _group_of(state, job, task, gang)
        env = {**alike.variables, **member_variables(task, alike)}
        return replace(
            alike.order,
            allocation_id=allocation.id,
            task_id=task.id,
            env=tuple(sorted(env.items())),
            resources=allocation.resources,
            gpus=allocation.gpus,
            cpus=allocation.cpus,
            port=0 if task.rank else job.port,
        )

    def _gang_of(self, state: ClusterState, job: Job, task: Task) -> _Gang:
        key = (job.id, task.attempt, task.placed_at_ms)
        gang = self._gangs.get(key)
        if gang is None or gang.spec is not job.spec:
            if len(self._gangs) >= MAX_GANGS_REMEMBERED:
                self._gangs.pop(next(iter(self._gangs)))
            gang = self._gangs[key] = _Gang(job.spec, gang_variables(state, job, task), {})
        return gang


def _group_of(state: ClusterState, job: Job, task: Task, gang: _Gang) -> _Group:
    group = next(g for g in job.spec.groups if g.name == task.group)
    order = TaskOrder(
        allocation_id="",
        task_id="",
        job_id=job.id,
        stop_alone=job.spec.on_disconnect is OnDisconnect.STOP,
        stop_grace_ms=job.spec.stop_grace_ms,
        account_number=account_number(state, job),
        tenant=job.spec.tenant,
        user=job.user if job.authenticated else "",
        **{name: getattr(group, name) for name in _AS_IN_THE_GROUP},
    )
    variables = dict(group.env) | element_variables(state, job) | group_variables(job, task, group, gang.variables)
    return _Group(variables, group.framework, order, job_trace(job))


def stop_order(state: ClusterState, allocation: Allocation) -> StopOrder:
    """Return the order to stop an allocation."""
    job, task = state.jobs[allocation.job_id], state.tasks[allocation.task_id]
    spec = job.spec
    # A task that is being evicted when its job is cancelled has no time to save itself any more.
    reason = job.reason if job.intent is JobIntent.CANCEL else task.reason
    order = StopOrder(allocation_id=allocation.id, grace_ms=spec.stop_grace_ms, reason=reason)
    if not may_save(job, task):
        return order
    preemption = spec.preemption
    if preemption.checkpoint_signal:
        return replace(order, checkpoint_signal=preemption.checkpoint_signal, checkpoint_ms=preemption.grace_ms)
    return replace(order, grace_ms=preemption.grace_ms or spec.stop_grace_ms)


def may_save(job: Job, task: Task) -> bool:
    """Return whether a task that is STOPPING may save itself first: nothing is wrong with its gang, and it goes on
    later. Otherwise the job is at its end, or has failed and starts again."""
    goes_on = job.intent in (JobIntent.RUN, JobIntent.RESTART, JobIntent.SUSPEND)
    return goes_on and task.reason != Reason.GANG_MEMBER_FAILED


def element_variables(state: ClusterState, job: Job) -> dict[str, str]:
    """Return what tells an array's element from the others: its index, and the values of the matrix."""
    parent = state.jobs.get(job.parent)
    if parent is None or not parent.spec.array.size:
        return {}
    return {**dict(parent.spec.array.values(job.element)), "GOSCHED_ARRAY_INDEX": str(job.element)}


def gang_variables(state: ClusterState, job: Job, task: Task) -> dict[str, str]:
    """Return what all tasks are told that got their places together with this one: where each member is, by rank and by
    group, and what they share. The lists of a group come with more than one, else they would say it twice."""
    hosts = hosts_by_rank(state, task)
    shared = {"GOSCHED_HOSTS": ",".join(hosts)}
    if job.port:
        shared["GOSCHED_PORT"] = str(job.port)
    if state.task_key:
        shared["GOSCHED_SECRET"] = shared_secret(state.task_key, job, task)
    first = 0
    for group in job.spec.groups if len(job.spec.groups) > 1 else ():
        suffix = re.sub(r"[^A-Z0-9]", "_", group.name.upper())
        shared.setdefault(f"GOSCHED_HOSTS_{suffix}", ",".join(hosts[first : first + group.count]))
        shared.setdefault(f"GOSCHED_COUNT_{suffix}", str(group.count))
        first += group.count
    return shared


def shared_secret(task_key: str, job: Job, task: Task) -> str:
    """Return what all tasks of the attempt know, and no other program."""
    attempt = f"{job.id}.{task.attempt}".encode()
    return blake2b(attempt, key=task_key.encode(), digest_size=16).hexdigest()


def group_variables(job: Job, task: Task, group: TaskGroup, gang: Mapping[str, str]) -> dict[str, str]:
    """Return what the members of the task's group are told alike, `gang` among it."""
    env = {
        **gang,
        "GOSCHED_JOB_ID": job.id,
        "GOSCHED_JOB_NAME": job.spec.name,
        "GOSCHED_TASK_COUNT": str(job.spec.task_count),
        "GOSCHED_GROUP": group.name,
        "GOSCHED_GROUP_COUNT": str(group.count),
        "GOSCHED_ATTEMPT": str(task.attempt),
    }
    if group.framework is not Framework.NONE:
        env |= _distributed(job, group, gang["GOSCHED_HOSTS"].partition(",")[0])
    return env


def member_variables(task: Task, alike: _Group) -> dict[str, str]:
    """Return what one task alone is told. The index is the rank: it points into GOSCHED_HOSTS."""
    trace = alike.trace
    run = TraceContext(trace_id=trace.trace_id, span_id=run_span_id(task.allocation_id), sampled=trace.sampled)
    rank = str(task.rank)
    env = {
        "GOSCHED_TASK_ID": task.id,
        "GOSCHED_TASK_INDEX": rank,
        "GOSCHED_GROUP_INDEX": str(task.index),
        "GOSCHED_NODE": task.node_id,
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, task.gpus)),
        "TRACEPARENT": run.traceparent,  # what the task records is below the span that is its run
    }
    if task.cpus:
        env["GOSCHED_CPUS"] = task.cpus
    if task.gpus:
        env["GOSCHED_GPUS"] = env["CUDA_VISIBLE_DEVICES"]  # the agent makes the latter UUIDs
    if alike.framework is not Framework.NONE:
        env |= {"RANK": rank, "PET_NODE_RANK": rank}
    return env


def hosts_by_rank(state: ClusterState, task: Task) -> list[str]:
    """Return the host of each member's agent, as others reach it. Empty for elastic members that had no place yet when
    this task was placed: the list is the same whenever the order is made."""
    return [_host_of(state, member, task) for member in state.tasks_of(state.jobs[task.job_id])]


def rendezvous_port(job: Job) -> int:
    """Return the same port for all members. One that no other job on the node has, but for a gang that was placed at a
    feature level without ports."""
    return job.port or FIRST_PORT + preferred(job.id, job.attempt)


def _distributed(job: Job, group: TaskGroup, master: str) -> dict[str, str]:
    """Return the variables of one process per task (WORLD_SIZE ...), and the same facts for torchrun, which reads its
    flags from PET_*. A member's rank comes beside them."""
    port, count = str(rendezvous_port(job)), str(job.spec.task_count)
    floor = str(job.spec.gang.min_tasks)
    env = {
        "MASTER_ADDR": master,
        "MASTER_PORT": port,
        "LOCAL_RANK": "0",
        "WORLD_SIZE": count,
        "PET_NNODES": count if floor == count else f"{floor}:{count}",
        "PET_NPROC_PER_NODE": str(max(1, group.resources.gpu_millis // MILLI)),
        "PET_MASTER_ADDR": master,
        "PET_MASTER_PORT": port,
        "PET_RDZV_ENDPOINT": f"{master}:{port}",
        "PET_RDZV_ID": f"{job.id}.{job.attempt}",
    }
    if floor != count:
        env["PET_RDZV_BACKEND"] = "c10d"  # torchrun's own, static, waits for a fixed number
    return env


def _host_of(state: ClusterState, member: Task, task: Task) -> str:
    node = state.nodes.get(member.node_id)
    of_this_attempt = member.allocation_id == allocation_id(member.id, task.attempt, member.moves)
    was_there = of_this_attempt and member.placed_at_ms <= task.placed_at_ms
    return _host(node.address) if node is not None and was_there else ""


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")
