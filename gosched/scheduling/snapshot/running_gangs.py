"""Gangs that hold a place, as the planner sees them: what they hold, until when, and what it would cost to evict them.

Rule: made once for each change of a job, from its records alone; a view shares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gosched.core.cluster import Allocation, Fence
from gosched.core.force import may_restart
from gosched.core.job import (
    Job,
    JobIntent,
    JobState,
    Task,
    TaskState,
)
from gosched.core.resources import Resources
from gosched.core.sharing import Amounts, add_to, charge_of
from gosched.core.spec import RetryCause
from gosched.core.state import ClusterState, group_of

NEVER_MS = 1 << 62


class Holding(NamedTuple):
    """One task's place. `gpus`: those that are good. `cpus`: a list such as "0-3"."""

    rank: int
    group: int
    node_id: str
    gpus: tuple[int, ...]
    cpus: str
    gpu_model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningGang:
    """`each`: what a task of each group holds. `surplus`: ranks of elastic tasks, in the order in which they may go.
    `end_ms`: when it ends as far as is known, NEVER_MS if that is nothing; `is_bounded`: it ends then at the latest.
    `until_ms`: it may be evicted then, whoever wants the room; 0: no such condition. `saved_at_ms`: what ran before
    that is not lost. `preemptions`, `evicted_for`: as in Job. `deadline_ms`: if it was promised. `is_stopping`: it is on
    its way out already. `lost_member`: it starts anew because a node was lost. `fenced`: it has no place yet, but a
    fence around one.
    """

    job_id: str
    name: str
    queue: str
    tenant: str
    priority: int
    sequence: int
    attempt: int
    each: tuple[Resources, ...]
    holdings: tuple[Holding, ...]
    surplus: tuple[int, ...]
    is_preemptible: bool
    evictable_from_ms: int
    saved_at_ms: int
    grace_ms: int
    end_ms: int
    is_bounded: bool
    until_ms: int
    preemptions: int
    evicted_for: tuple[str, ...]
    deadline_ms: int
    span_ms: int
    is_stopping: bool
    lost_member: bool
    fenced: bool

    def ends_ms(self, now_ms: int) -> int:
        """When its room is free, later than `now_ms`. An estimate that has passed is not to be trusted: it is taken to
        run on for as long as it has overrun, a minute at least."""
        if self.is_stopping:
            return now_ms + max(self.grace_ms, 1)
        end = self.end_ms
        if end <= now_ms:
            end = now_ms + (1 if self.is_bounded else max(60_000, now_ms - end))
        if self.until_ms:
            end = min(end, max(self.until_ms, now_ms + 1))
        return end

    def charge(self, ranks: tuple[int, ...] = ()) -> Amounts:
        """What it holds; of these tasks only, if any are named."""
        total: Amounts = {}
        for held in self.holdings:
            if not ranks or held.rank in ranks:
                add_to(total, charge_of(self.each[held.group], held.gpu_model))
        return total

    def lost_ms(self, now_ms: int, tasks: int) -> int:
        """Work that an eviction of so many tasks loses."""
        return max(now_ms - self.saved_at_ms, 0) * tasks


def running_gang(state: ClusterState, job: Job) -> RunningGang | None:
    """None for a job that holds nothing."""
    fence = state.fences.get(job.id)
    if not job.active and fence is None:
        return None
    groups = {group.name: index for index, group in enumerate(job.spec.groups)}
    tasks = [task for task in state.tasks_of(job) if task.state.is_active] if job.active else []
    held = [(task, state.allocations[task.allocation_id]) for task in tasks]
    if job.intent is JobIntent.RUN:  # what leaves alone belongs to the fence that it leaves for
        held = [(task, allocation) for task, allocation in held if not allocation.leaves_for]
    holdings = [_holding(state, task, allocation, groups[task.group]) for task, allocation in held]
    fenced = not job.active and fence is not None
    if fenced and fence is not None:
        holdings = _fenced_holdings(fence, state, job)
    spec, preemption = job.spec, job.spec.preemption
    span_ms = spec.timeout_ms if job.frozen else spec.span_ms  # an estimate says nothing of who stands still
    placed = job.placed_at_ms or job.started_at_ms
    if fenced and fence is not None:
        placed = fence.by_ms
    return RunningGang(
        job_id=job.id,
        name=spec.name,
        queue=spec.queue,
        tenant=spec.tenant,
        priority=spec.priority,
        sequence=job.sequence,
        attempt=job.attempt,
        each=tuple([group.resources for group in spec.groups]),
        holdings=tuple(holdings),
        surplus=_surplus(job, tasks),
        is_preemptible=preemption.preemptible and not fenced and may_restart(job, RetryCause.PREEMPTED),
        evictable_from_ms=placed + preemption.min_runtime_ms,
        saved_at_ms=max(placed, job.checkpoint_at_ms),
        grace_ms=spec.leave_ms,
        end_ms=placed + span_ms if span_ms else NEVER_MS,
        is_bounded=bool(spec.timeout_ms),
        until_ms=fence.until_ms if fenced and fence is not None else job.until_ms,
        preemptions=job.preemptions,
        evicted_for=job.evicted_for,
        deadline_ms=job.deadline_ms if job.deadline_promised else 0,
        span_ms=spec.span_ms,
        is_stopping=job.intent is not JobIntent.RUN,
        lost_member=job.intent is JobIntent.RESTART and job.reason == "NODE_LOST",
        fenced=fenced,
    )


def _surplus(job: Job, active: list[Task]) -> tuple[int, ...]:
    """The last ranks of each group beyond its floor, those that may go without the gang."""
    found: list[int] = []
    if job.state is JobState.RUNNING and job.intent is JobIntent.RUN:
        for group in job.spec.groups:
            own = [task for task in active if task.group == group.name]
            staying = [task for task in own if task.state is not TaskState.STOPPING]
            found += [task.rank for task in staying[group.floor :]]
    return tuple(sorted(found, reverse=True))


def _holding(state: ClusterState, task: Task, allocation: Allocation, group: int) -> Holding:
    gpus = _working_gpus(state, allocation.node_id, allocation.gpus)
    return Holding(task.rank, group, allocation.node_id, gpus, allocation.cpus, allocation.gpu_model)


def _working_gpus(state: ClusterState, node_id: str, gpus: tuple[int, ...]) -> tuple[int, ...]:
    """Of these GPUs: nobody gets a bad one once it is free."""
    bad = state.nodes[node_id].hardware.bad_gpus
    return tuple([gpu for gpu in gpus if gpu not in bad]) if bad else gpus


def _fenced_holdings(fence: Fence, state: ClusterState, job: Job) -> list[Holding]:
    groups = {group.name: index for index, group in enumerate(job.spec.groups)}
    found = []
    for placement in fence.tasks:
        group = group_of(job.spec, placement.rank)
        model = state.nodes[placement.node_id].gpu_model if group.resources.gpu_millis else ""
        gpus = _working_gpus(state, placement.node_id, placement.gpus)
        found.append(Holding(placement.rank, groups[group.name], placement.node_id, gpus, placement.cpus, model))
    return found
