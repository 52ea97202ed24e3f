"""Fences: capacity that victims free is kept for the gang that they are evicted for.

Invariant: a fence ends in a start on exactly its places, or is dropped with a reason; its job then waits as any other.
"""

from __future__ import annotations

from collections.abc import Iterable

from gosched.core.commands.plans import GangPlacement
from gosched.core.events import Event, FenceChanged, JobUpdated
from gosched.core.features import FeatureLevel
from gosched.core.preemption_rules import restarts_in_place
from gosched.core.records.fence import Fence
from gosched.core.records.job import Job, JobState, wants_placement
from gosched.core.records.task import TaskState
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import reservations
from gosched.state_machine.gang_fit import GangFit, HeldByEach
from gosched.state_machine.gang_start import by_group, place


def make(state: ClusterState, events: list[Event], gang: GangPlacement, released: Iterable[str]) -> None:
    """Make a fence for the gang, whose victims are ordered to stop already. `released`: their allocations."""
    slowest = [state.jobs[eviction.job_id].spec.eviction_ms for eviction in gang.evictions]
    not_before_ms = state.jobs[gang.job_id].not_before_ms if state.feature_level >= FeatureLevel.BOUNDED else 0
    fence = Fence(
        job_id=gang.job_id,
        attempt=gang.attempt,
        tasks=gang.tasks,
        made_at_ms=state.clock_ms,
        until_ms=gang.until_ms,
        by_ms=max(state.clock_ms + max(slowest), not_before_ms),
        not_before_ms=not_before_ms if not_before_ms > state.clock_ms else 0,
    )
    state.put_fence(fence)
    victims_on = tuple(dict.fromkeys([state.allocations[allocation].node_id for allocation in released]))
    events.append(FenceChanged(job_id=fence.job_id, node_ids=_nodes(fence), made=True, victims_on=victims_on))
    reservations.forget(state, events, fence.job_id)


def follow_up(state: ClusterState, events: list[Event]) -> None:
    """Start the gangs whose victims have ended, and drop fences and reservations of jobs that do not wait any more. To
    be called after every command."""
    reservations.follow_up(state, events)
    if not state.fences:
        return
    for job_id in sorted(state.fences):
        fence, job = state.fences[job_id], state.jobs[job_id]
        if not _may_start(job, fence) and not is_repair(job, fence.attempt):
            drop(state, events, job_id, f"the job is {job.state.name} and does not wait for it any more")
        elif job_id not in state.fenced.awaited and _may_start(job, fence):
            _start(state, events, job, fence)


def drop_on(state: ClusterState, events: list[Event], node_id: str, why: str) -> None:
    """Drop the fences that have a place on the node: nothing starts there."""
    for job_id in sorted(state.fenced.placements.get(node_id, ())):
        drop(state, events, job_id, why)


def drop(state: ClusterState, events: list[Event], job_id: str, why: str) -> None:
    """Drop a fence. Its victims still stop, for no job."""
    fence, victims, victims_on = state.fences[job_id], dict[str, None](), dict[str, None]()
    for allocation in [*state.allocations.values()] if job_id in state.fenced.awaited else ():
        if allocation.evicted_for_fence == job_id:
            state.set_evicted_for_fence(allocation.id, "")
            victims[allocation.job_id] = victims_on[allocation.node_id] = None
    state.drop_fence(job_id)
    gone = FenceChanged(job_id=job_id, node_ids=_nodes(fence), made=False, why=why, victims_on=tuple(victims_on))
    events.append(gone)
    events += [JobUpdated(job_id=victim) for victim in sorted(victims) if victim != job_id]  # they keep it


def is_repair(job: Job, attempt: int) -> bool:
    """Return whether the gang stops, to start again at this attempt, or may."""
    return job.state is JobState.RUNNING and restarts_in_place(job) and job.attempt + 1 == attempt


def _may_start(job: Job, fence: Fence) -> bool:
    return wants_placement(job) and job.attempt == fence.attempt and len(fence.tasks) <= _wanted(job, fence)


def _wanted(job: Job, fence: Fence) -> int:
    """Return how many tasks may start there: fewer than there are, where the job was scaled down."""
    if job.state is JobState.RUNNING:
        return job.may_join
    return job.wanted or len(fence.tasks)


def _start(state: ClusterState, events: list[Event], job: Job, fence: Fence) -> None:
    """Start the gang at its fence, drop the fence, or wait on.

    Limits are not checked again. A place may still be held by victims of another fence, or of one that was dropped:
    then the gang waits for those too.
    """
    if fence.not_before_ms > state.clock_ms:
        return
    why = _problem(state, job, fence, stopping=False)
    if why:
        drop(state, events, job.id, why)
    elif not _problem(state, job, fence, stopping=True):
        state.drop_fence(job.id)
        events.append(FenceChanged(job_id=job.id, node_ids=_nodes(fence), made=False))
        place(state, events, job, fence.tasks, fence.until_ms)


def _problem(state: ClusterState, job: Job, fence: Fence, *, stopping: bool) -> str:
    """Return why the gang cannot start there, now (`stopping` tasks included) or ever."""
    tasks = state.tasks
    held = HeldByEach(
        state, lambda a: stopping or tasks[a.task_id].state is not TaskState.STOPPING, fences=False
    )  # fmt: skip
    fit = GangFit(state, held)
    for group, _, placements in by_group(job, fence.tasks):
        problem = fit.group_problem(group, placements)
        if problem:
            return problem
    return fit.capacity_problem()


def _nodes(fence: Fence) -> tuple[str, ...]:
    return tuple(dict.fromkeys(placement.node_id for placement in fence.tasks))
