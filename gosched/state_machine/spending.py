"""What tasks have used and held, charged to their job and its tenant when they end.

Invariant: the figures and the clock of an agent are not trusted further than they can be true: nothing is negative, no
task held anything before its placement or after now, and no sum leaves 64 bits.
"""

from __future__ import annotations

from gosched.core.events import TaskWork
from gosched.core.limits import MAX_AMOUNT
from gosched.core.reasons import EVICTED
from gosched.core.records.allocation import Allocation
from gosched.core.records.job import Job
from gosched.core.records.task import Task, TaskState
from gosched.core.records.usage import MIB, NO_USAGE, NOTHING_SPENT, Spent, Usage
from gosched.core.replace import replace
from gosched.core.state.cluster_state import ClusterState


def sane(usage: Usage) -> Usage:
    """Return usage that can be true. Nothing of a task that has ended is in memory any more."""
    if usage == NO_USAGE:
        return NO_USAGE
    return Usage(
        cpu_ms=_bounded(usage.cpu_ms),
        throttled_ms=_bounded(usage.throttled_ms),
        memory_peak_bytes=_bounded(usage.memory_peak_bytes),
        read_bytes=_bounded(usage.read_bytes),
        written_bytes=_bounded(usage.written_bytes),
        oom_kills=_bounded(usage.oom_kills),
        cpu_stalled_ms=_bounded(usage.cpu_stalled_ms),
        memory_stalled_ms=_bounded(usage.memory_stalled_ms),
        io_stalled_ms=_bounded(usage.io_stalled_ms),
    )


def charge(state: ClusterState, tenant: str, spent: Spent) -> None:
    """Charge a tenant for what a task of its has spent."""
    if spent != NOTHING_SPENT:
        known = state.tenants[tenant]
        state.put_tenant(replace(known, spent=known.spent + spent))


def spent_by(state: ClusterState, task: Task, allocation: Allocation) -> Spent:
    """Return what a task that has ended, as given, has spent. One that never started held nothing."""
    started = max(task.started_at_ms, allocation.placed_at_ms) if task.started_at_ms else state.clock_ms
    held_ms = max(min(task.ended_at_ms, state.clock_ms) - started, 0)
    resources = allocation.resources
    return Spent(
        cpu_ms=task.usage.cpu_ms,
        gpu_milli_s=resources.gpu_millis * held_ms // 1000,
        memory_mib_s=resources.memory_bytes // MIB * held_ms // 1000,
    )


def work_of(before: Task, after: Task, job: Job, allocation: Allocation) -> TaskWork:
    """Return what a task did from its placement to its end, and what of that an eviction undid."""
    placed_ms, ended_ms = allocation.placed_at_ms, max(after.ended_at_ms, allocation.placed_at_ms)
    held_ms = ended_ms - placed_ms
    useful_ms = lost_ms = 0
    if after.state is TaskState.SUCCEEDED:
        useful_ms = held_ms
    elif before.state is TaskState.STOPPING and before.reason in EVICTED:
        useful_ms = min(max(job.checkpoint_at_ms - placed_ms, 0), held_ms)
        lost_ms = held_ms - useful_ms
    return TaskWork(
        queue=job.spec.queue,
        resources=allocation.resources,
        held_ms=held_ms,
        useful_ms=useful_ms,
        lost_ms=lost_ms,
    )


def _bounded(amount: int) -> int:
    return min(max(amount, 0), MAX_AMOUNT)
