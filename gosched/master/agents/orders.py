"""Orders for agents: a task's start order, whole, and its stop order, from the state alone.

Invariant: the same allocation gives the same order from every leader, so that an order sent twice is the same order.
"""

from __future__ import annotations

from dataclasses import fields, replace
from hashlib import blake2b

from gosched.core.orders import StopOrder, TaskOrder
from gosched.core.reasons import Reason
from gosched.core.records.allocation import Allocation
from gosched.core.records.job import Job, JobIntent
from gosched.core.records.task import Task, allocation_id
from gosched.core.resources import MILLI
from gosched.core.spec.job_spec import OnDisconnect
from gosched.core.spec.task_group import Framework, TaskGroup
from gosched.core.state.cluster_state import ClusterState

# MASTER_PORT of a distributed job: below the ports that the kernel gives out for outgoing connections (32768 and up).
FIRST_PORT = 20_000
PORTS = 10_000
MAX_GANGS_REMEMBERED = 64

# Fields of an order that hold what the task's group has in the field of the same name.
_AS_IN_THE_GROUP = {each.name for each in fields(TaskOrder)} & {each.name for each in fields(TaskGroup)}
_AS_IN_THE_GROUP -= {"env", "resources"}


class Orders:
    """Makes start orders. It remembers the hosts of the last gangs it made orders for, since all members share them."""

    def __init__(self) -> None:
        self._hosts: dict[tuple[str, int, int], str] = {}

    def start(self, state: ClusterState, allocation: Allocation) -> TaskOrder:
        """Return the order to start an allocation."""
        job = state.jobs[allocation.job_id]
        task = state.tasks[allocation.task_id]
        group = next(g for g in job.spec.groups if g.name == task.group)
        env = (
            dict(group.env)
            | element_variables(state, job)
            | environment(job, task, group, self._hosts_of(state, job, task))
        )
        return TaskOrder(
            allocation_id=allocation.id,
            task_id=task.id,
            job_id=job.id,
            env=tuple(sorted(env.items())),
            resources=allocation.resources,
            gpus=allocation.gpus,
            cpus=allocation.cpus,
            stop_alone=job.spec.on_disconnect is OnDisconnect.STOP,
            stop_grace_ms=job.spec.stop_grace_ms,
            **{name: getattr(group, name) for name in _AS_IN_THE_GROUP},
        )

    def _hosts_of(self, state: ClusterState, job: Job, task: Task) -> str:
        key = (job.id, task.attempt, task.placed_at_ms)
        if key not in self._hosts:
            if len(self._hosts) >= MAX_GANGS_REMEMBERED:
                self._hosts.pop(next(iter(self._hosts)))
            self._hosts[key] = ",".join(hosts_by_rank(state, task))
        return self._hosts[key]


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


def environment(job: Job, task: Task, group: TaskGroup, hosts: str) -> dict[str, str]:
    """Return what gosched adds to the task's own environment. The index is the rank: it points into GOSCHED_HOSTS."""
    env = {
        "GOSCHED_JOB_ID": job.id,
        "GOSCHED_JOB_NAME": job.spec.name,
        "GOSCHED_TASK_ID": task.id,
        "GOSCHED_TASK_INDEX": str(task.rank),
        "GOSCHED_TASK_COUNT": str(job.spec.task_count),
        "GOSCHED_NODE": task.node_id,
        "GOSCHED_HOSTS": hosts,
        "GOSCHED_ATTEMPT": str(task.attempt),
        "CUDA_VISIBLE_DEVICES": ",".join(str(gpu) for gpu in task.gpus),
        "TRACEPARENT": traceparent(job, task),
    }
    if task.cpus:
        env["GOSCHED_CPUS"] = task.cpus
    if group.framework is not Framework.NONE:
        env |= _distributed(job, task, group, hosts.partition(",")[0])
    return env


def hosts_by_rank(state: ClusterState, task: Task) -> list[str]:
    """Return the host of each member's agent, as others reach it. Empty for elastic members that had no place yet when
    this task was placed: the list is the same whenever the order is made."""
    return [_host_of(state, member, task) for member in state.tasks_of(state.jobs[task.job_id])]


def rendezvous_port(job: Job) -> int:
    """Return the same port for all members; another one for another attempt, whose port may still be in use."""
    seed = f"{job.id}.{job.attempt}".encode()
    return FIRST_PORT + int.from_bytes(blake2b(seed, digest_size=8).digest(), "big") % PORTS


def traceparent(job: Job, task: Task) -> str:
    """Return the W3C trace context: a job is one trace, each start of a task a span of it."""
    trace = blake2b(job.id.encode(), digest_size=16).hexdigest()
    span = blake2b(task.allocation_id.encode(), digest_size=8).hexdigest()
    return f"00-{trace}-{span}-01"


def _distributed(job: Job, task: Task, group: TaskGroup, master: str) -> dict[str, str]:
    """Return the variables of one process per task (RANK ...), and the same facts for torchrun, which reads its flags
    from PET_*."""
    port, count = str(rendezvous_port(job)), str(job.spec.task_count)
    floor = str(job.spec.gang.min_tasks)
    env = {
        "MASTER_ADDR": master,
        "MASTER_PORT": port,
        "RANK": str(task.rank),
        "LOCAL_RANK": "0",
        "WORLD_SIZE": count,
        "PET_NNODES": count if floor == count else f"{floor}:{count}",
        "PET_NODE_RANK": str(task.rank),
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
