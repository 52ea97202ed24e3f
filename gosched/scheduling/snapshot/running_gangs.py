"""Gangs that hold a place, as the planner sees them: what they hold, until when, and what it would cost to evict them.

Invariant: a record is made once for each change of its job, from the state alone; views share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gosched.core.preemption_rules import may_restart, restarts_in_place
from gosched.core.records.allocation import Allocation
from gosched.core.records.fence import Fence
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.records.task import Task, TaskState
from gosched.core.replace import quickly_made
from gosched.core.resources import AmountMap, Resources
from gosched.core.run_times import RunTimes
from gosched.core.sharing import Amounts, add_to, as_map, charge_of
from gosched.core.spec.job_spec import group_of
from gosched.core.spec.policies import RetryCause
from gosched.core.state.cluster_state import ClusterState

NEVER_MS = 1 << 62


class Holding(NamedTuple):
    """The place of one task."""

    rank: int
    #: Index of the task's group.
    group: int
    node_id: str
    #: Numbers of its GPUs that work.
    gpus: tuple[int, ...]
    #: CPUs that it owns, such as "0-3"; empty if it owns none.
    cpus: str
    #: Empty if it holds no GPUs.
    gpu_model: str


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class RunningGang:
    """A gang that holds a place, or a fence around one."""

    job_id: str
    name: str
    queue: str
    tenant: str
    priority: int
    sequence: int
    attempt: int
    #: What a task of each group holds.
    each: tuple[Resources, ...]
    holdings: tuple[Holding, ...]
    #: Ranks of elastic tasks beyond the floors, in the order in which they may be evicted alone.
    surplus: tuple[int, ...]
    is_preemptible: bool
    #: It is not evicted before.
    evictable_from_ms: int
    #: An eviction loses the work since then: its last checkpoint, or its start; ...
    saved_at_ms: int
    #: ... unless little is lost by it.
    is_cheap: bool
    #: How long it takes to end when it is evicted.
    grace_ms: int
    #: When it ends as far as is known; NEVER_MS if that is not known.
    end_ms: int
    #: Whether a timeout ends it at `end_ms`, which is an estimate otherwise.
    is_bounded: bool
    #: From then on it may be evicted for any job; 0: no such condition.
    until_ms: int
    #: As in Job.
    preemptions: int
    #: As in Job.
    evicted_for: tuple[str, ...]
    #: The deadline that it was promised to meet; 0: none.
    deadline_ms: int
    #: As in PendingGang.
    span_ms: int
    #: Whether its tasks are being stopped already.
    is_stopping: bool
    #: What it holds, while it stops, that is evicted for no fence: by resource name.
    leaving: AmountMap
    #: Whether it holds only a fence, and no place yet.
    fenced: bool
    #: When it was placed, or will be from its fence at the latest.
    placed_at_ms: int
    #: Of jobs like it; None: nothing is known, or it is frozen.
    run_times: RunTimes | None

    @property
    def median_ms(self) -> int:
        """Return what half of the jobs like it ran no longer than; 0: not known."""
        return self.run_times.expected_ms if self.run_times is not None else 0

    @property
    def likely_ms(self) -> int:
        """Return what nine of ten jobs like it ran no longer than; 0: not known."""
        return self.run_times.likely_ms if self.run_times is not None else 0

    def ends_ms(self, now_ms: int) -> int:
        """Return when its place will be free, later than `now_ms`.

        A gang that has overrun its estimate is taken to run on for as long as it has overrun, a minute at least.
        """
        if self.is_stopping:
            return now_ms + max(self.grace_ms, 1)
        end = self.end_ms
        if end <= now_ms:
            end = now_ms + 1 if self.is_bounded else _overrun_ms(end, now_ms)
        if self.until_ms:
            end = min(end, max(self.until_ms, now_ms + 1))
        return end

    def likely_ends_ms(self, now_ms: int) -> int:
        """Return the same; one of which neither a limit nor an estimate is known ends when nine of ten like it do that
        have run for as long already."""
        end = self.ends_ms(now_ms)
        if end < NEVER_MS or self.run_times is None:
            return end
        likely = self.placed_at_ms + self.run_times.likely_after(now_ms - self.placed_at_ms)
        return likely if likely > now_ms else _overrun_ms(likely, now_ms)

    def guessed_ends_ms(self, now_ms: int) -> int:
        """Return the same as `likely_ends_ms`, but of a gang of which nothing is known that it runs for as long again
        as it has run."""
        likely = self.likely_ends_ms(now_ms)
        return likely if likely < NEVER_MS else now_ms + max(now_ms - self.placed_at_ms, 60_000)

    def charge(self, ranks: tuple[int, ...] = ()) -> Amounts:
        """Return what the tasks of these ranks hold, by resource name; without ranks all tasks."""
        total: Amounts = {}
        chosen = frozenset(ranks)
        for held in self.holdings:
            if not chosen or held.rank in chosen:
                add_to(total, charge_of(self.each[held.group], held.gpu_model))
        return total

    def lost_ms(self, now_ms: int, tasks: int) -> int:
        """Return how much work, in task milliseconds, an eviction of so many tasks loses."""
        return 0 if self.is_cheap else max(now_ms - self.saved_at_ms, 0) * tasks


def _overrun_ms(end_ms: int, now_ms: int) -> int:
    return now_ms + max(60_000, now_ms - end_ms)


def running_gang(state: ClusterState, job: Job, run_times: RunTimes | None = None) -> RunningGang | None:
    """Return the job as a running gang; None if it holds nothing. `run_times`: of jobs like it."""
    fence = state.fences.get(job.id)
    if not job.active and fence is None:
        return None
    groups = {group.name: index for index, group in enumerate(job.spec.groups)}
    tasks = [task for task in state.tasks_of(job) if task.state.is_active] if job.active else []
    held = [(task, state.allocations[task.allocation_id]) for task in tasks]
    if job.intent is JobIntent.RUN or restarts_in_place(job):
        # what is evicted alone belongs to the fence that it is evicted for
        own = ("", job.id)
        held = [(task, allocation) for task, allocation in held if allocation.evicted_for_fence in own]
    holdings = [_holding(state, task, allocation, groups[task.group]) for task, allocation in held]
    fenced = not job.active and fence is not None
    if fenced and fence is not None:
        holdings = _fenced_holdings(fence, state, job)
    spec, preemption = job.spec, job.spec.preemption
    span_ms = spec.timeout_ms if job.frozen else spec.span_ms  # an estimate says nothing of a frozen job
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
        is_cheap=preemption.is_cheap,
        grace_ms=spec.eviction_ms,
        end_ms=placed + span_ms if span_ms else NEVER_MS,
        is_bounded=bool(spec.timeout_ms),
        until_ms=fence.until_ms if fenced and fence is not None else job.until_ms,
        preemptions=job.preemptions,
        evicted_for=job.evicted_for,
        deadline_ms=job.deadline_ms if job.deadline_promised else 0,
        span_ms=spec.span_ms,
        is_stopping=job.intent is not JobIntent.RUN,
        leaving=_leaving(held) if job.intent is not JobIntent.RUN else (),
        fenced=fenced,
        placed_at_ms=placed,
        run_times=None if job.frozen else run_times,
    )


def _leaving(held: list[tuple[Task, Allocation]]) -> AmountMap:
    total: Amounts = {}
    for _, allocation in held:
        if not allocation.evicted_for_fence:
            add_to(total, charge_of(allocation.resources, allocation.gpu_model))
    return as_map(total)


def places_of(state: ClusterState, job: Job) -> tuple[Holding, ...]:
    """Return where the attempt of a gang that starts again stood, or stands, by rank: on nodes that may be gone by now,
    without what it has given to others."""
    found = []
    rank = 0
    for group, spec in enumerate(job.spec.groups):
        for task in state.tasks_of(job)[rank : rank + spec.count]:
            held = state.allocations.get(task.allocation_id) if task.state.is_active else None
            given = held is not None and held.evicted_for_fence not in ("", job.id)
            if task.node_id and task.state is not TaskState.LOST and not given:
                found.append(Holding(task.rank, group, task.node_id, task.gpus, task.cpus, ""))
        rank += spec.count
    return tuple(found)


def _surplus(job: Job, active: list[Task]) -> tuple[int, ...]:
    """Return the last ranks of each group beyond its floor: those that may be evicted without the gang."""
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
    """Return those of the GPUs that work: a bad one that comes free is given to no task."""
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
