"""Evictions: which jobs may be evicted for others, and how they end.

Invariant: a victim did nothing wrong. A gang that is evicted waits again in its old place in the queue, an elastic task
waits for another place while its job runs on; neither costs its user anything but the work since the last checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from gosched.core.commands.plans import Cause, Eviction, GangPlacement
from gosched.core.events import Event, JobEvicted
from gosched.core.limits import MAX_EVICTORS
from gosched.core.preemption_rules import admits, may_restart, preemption_of
from gosched.core.reasons import Reason
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.records.task import Task, TaskState
from gosched.core.replace import replace
from gosched.core.spec.policies import PreemptionPolicy, RetryCause
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import units
from gosched.state_machine.changes import change_task, count_change
from gosched.state_machine.gangs import restart_intent, stop_all
from gosched.state_machine.reclaim import reclaim_problem

REASONS = {
    Cause.PREEMPT: Reason.PREEMPTED,
    Cause.RECLAIM: Reason.RECLAIMED,
    Cause.BACKFILL: Reason.BACKFILL_OVER,
    Cause.WINDOW: Reason.WINDOW_BEGINS,
}
_ALONE = (*REASONS.values(), Reason.DRAINED, Reason.SCALED_DOWN)  # why a task stops without its gang
_WHENEVER = (Cause.BACKFILL, Cause.WINDOW)  # the victim knew when: no `min_runtime` protects it


def eviction_problem(state: ClusterState, gang: GangPlacement) -> str:
    """Return why not all victims of the gang may be evicted: one line for people, or an empty string. Repairs are not
    checked here."""
    victims = dict.fromkeys(eviction.job_id for eviction in gang.evictions)
    if len(victims) != len(gang.evictions):
        return "the plan evicts a job twice for one gang"
    slowest_ms = max([state.jobs[job_id].spec.eviction_ms for job_id in victims if job_id in state.jobs], default=0)
    for eviction in gang.evictions:
        problem = _victim_problem(state, gang.job_id, eviction, slowest_ms)
        if problem:
            return f"victim {eviction.job_id}: {problem}"
    reclaims = [eviction for eviction in gang.evictions if eviction.cause is Cause.RECLAIM]
    reclaimed = [allocation for eviction in reclaims for allocation in _allocations(state, eviction)]
    fences = [e.job_id for e in reclaims if not e.ranks and e.job_id in state.fences]  # tasks that were about to join
    return reclaim_problem(state, state.jobs[gang.job_id], reclaimed, fences) if reclaimed else ""


def released_allocations(state: ClusterState, gang: GangPlacement) -> list[str]:
    """Return the allocations that will be evicted for the gang, without those that are evicted for a fence already."""
    return [allocation for eviction in gang.evictions for allocation in _allocations(state, eviction)]


def evict_victims(state: ClusterState, events: list[Event], gang: GangPlacement) -> None:
    """Order the tasks of the victims to stop; the fence of the gang waits for their allocations."""
    for eviction in gang.evictions:
        released = _allocations(state, eviction)
        if eviction.cause is not Cause.REPAIR:
            _evict(state, events, gang.job_id, eviction, released)
        for allocation in released if gang.job_id else ():
            state.set_evicted_for_fence(allocation, gang.job_id)


def evict_gang(state: ClusterState, events: list[Event], job: Job, reason: Reason, detail: str) -> None:
    """Stop a gang. It starts again if its policy restarts it after a preemption, else it fails; one that is about to
    end already stays so. The job holds an allocation."""
    if job.intent is not JobIntent.RUN:
        return
    again = may_restart(job, RetryCause.PREEMPTED)
    released = replace(
        job,
        intent=restart_intent(job) if again else JobIntent.FAIL,
        preemptions=job.preemptions + again,
        reason=reason,
        detail=detail,
        exit_code=None,
        not_before_ms=0,
    )
    stop_all(state, events, released, reason)


def is_evicted_alone(job: Job, task: Task) -> bool:
    """Return whether the task is evicted while its job runs on."""
    return job.intent is JobIntent.RUN and task.state is TaskState.STOPPING and task.reason in _ALONE


def can_spare(state: ClusterState, job: Job, tasks: Sequence[Task]) -> bool:
    """Return whether the gang runs on without these of its tasks: it has them beyond its floor."""
    return job.intent is JobIntent.RUN and not _ranks_problem(state, job, tuple([task.rank for task in tasks]))


def evict_tasks(state: ClusterState, events: list[Event], job: Job, tasks: Sequence[Task], reason: Reason) -> None:
    """Order tasks that their gang can spare to stop."""
    for task in tasks:
        change_task(state, events, task, replace(task, state=TaskState.STOPPING, reason=reason))
        count_change(state, job.id, task.state, TaskState.STOPPING)


def _victim_problem(state: ClusterState, for_job: str, eviction: Eviction, slowest_ms: int) -> str:
    victim = state.jobs.get(eviction.job_id)
    if victim is None or victim.state is not JobState.RUNNING or not victim.active:
        return "the job holds nothing"
    if eviction.attempt != victim.attempt:
        return f"the job is at attempt {victim.attempt}, the plan at {eviction.attempt}"
    if victim.intent is not JobIntent.RUN:
        return "the job is on its way out already"
    if not victim.spec.preemption.preemptible:
        return "the job is not preemptible"
    if not eviction.ranks and not may_restart(victim, RetryCause.PREEMPTED):
        return "the job would not be started again after a preemption"
    rest_ms = victim.placed_at_ms + victim.spec.preemption.min_runtime_ms - state.clock_ms
    if rest_ms > 0 and eviction.cause not in _WHENEVER:
        return f"the job may run another {units.duration(state.feature_level, rest_ms)} before it is evicted"
    problem = _cause_problem(state, for_job, victim, eviction.cause, slowest_ms)
    return problem or _ranks_problem(state, victim, eviction.ranks)


def _cause_problem(state: ClusterState, for_job: str, victim: Job, cause: Cause, slowest_ms: int) -> str:
    """Return why this is no cause to evict the job. `slowest_ms`: how long the slowest victim of the gang takes to end;
    the others are evicted with it."""
    if cause is Cause.WINDOW:
        return "" if _stands_in_a_window(state, victim) else "the job stands in no window that keeps it out"
    if for_job not in state.jobs:
        return "nobody gets its room"
    preemptor = state.jobs[for_job]
    is_due = 0 < victim.until_ms <= state.clock_ms + slowest_ms  # so that all have gone by then
    match cause:
        case Cause.PREEMPT:
            return _preempt_problem(state, preemptor, victim, is_due)
        case Cause.RECLAIM:
            same = preemptor.spec.queue == victim.spec.queue
            return f"the job is in the same queue, {victim.spec.queue}: nothing to reclaim there" if same else ""
        case Cause.BACKFILL:
            return "" if is_due else "the job may keep its place for now: no reservation needs it"
        case Cause.UNSPECIFIED | Cause.REPAIR:
            return f"{cause.name} is no cause to evict it"
        case _:
            assert_never(cause)


def _preempt_problem(state: ClusterState, preemptor: Job, victim: Job, is_due: bool) -> str:
    queue = preemptor.spec.queue
    if queue != victim.spec.queue:
        return f"the job is in queue {victim.spec.queue}, jobs of queue {queue} may not preempt it"
    if preemptor.spec.preemption.policy is not PreemptionPolicy.LOWER_PRIORITY:
        return "the job that wants its room evicts nobody"
    if preemption_of(state.queues, queue) is not PreemptionPolicy.LOWER_PRIORITY:
        return f"queue {queue} lets nobody preempt"
    if victim.spec.priority >= preemptor.spec.priority and not is_due:
        return f"its priority {victim.spec.priority} is not below {preemptor.spec.priority}"
    return ""


def _stands_in_a_window(state: ClusterState, victim: Job) -> bool:
    closed = [w for w in state.windows.values() if not admits(w, victim.spec.queue, victim.spec.tenant)]
    closed = [w for w in closed if not w.end_ms or w.end_ms > state.clock_ms]
    if not closed:
        return False
    nodes = dict.fromkeys(task.node_id for task in state.tasks_of(victim) if task.state.is_active)
    return any(node in nodes for window in closed for node in window.nodes)


def _ranks_problem(state: ClusterState, victim: Job, ranks: tuple[int, ...]) -> str:
    """Return why the gang cannot spare these tasks: one does not run, or a group would fall below its floor."""
    tasks = state.tasks_of(victim)
    chosen = dict.fromkeys(ranks)
    if len(chosen) != len(ranks) or not all(0 <= rank < len(tasks) for rank in ranks):
        return f"its ranks are 0 to {len(tasks) - 1}, each goes once"
    for rank in ranks:
        if not tasks[rank].state.is_active or tasks[rank].state is TaskState.STOPPING:
            return f"rank {rank} is {tasks[rank].state.name}"
    for group in victim.spec.groups if ranks else ():
        own = [task for task in tasks if task.group == group.name and task.rank not in chosen]
        left = sum(counts(task) for task in own)
        if left < group.floor and len(own) < group.count:
            return f"group {group.name} would keep {left} tasks, it needs {group.floor}"
    return ""


def counts(task: Task) -> bool:
    """Return whether the task counts towards its group's floor."""
    return task.state is TaskState.SUCCEEDED or (task.state.is_active and task.state is not TaskState.STOPPING)


def _allocations(state: ClusterState, eviction: Eviction) -> list[str]:
    job = state.jobs[eviction.job_id]
    tasks = state.tasks_of(job)
    chosen: Iterator[Task] = (tasks[rank] for rank in eviction.ranks) if eviction.ranks else iter(tasks)
    held = [task.allocation_id for task in chosen if task.state.is_active]
    return [allocation for allocation in held if not state.allocations[allocation].evicted_for_fence]


def _evict(state: ClusterState, events: list[Event], for_job: str, eviction: Eviction, released: list[str]) -> None:
    victim = state.jobs[eviction.job_id]
    since = [max(state.allocations[a].placed_at_ms, victim.checkpoint_at_ms) for a in released]
    events.append(
        JobEvicted(
            job_id=victim.id,
            queue=victim.spec.queue,
            for_job=for_job,
            cause=eviction.cause,
            tasks=len(released),
            whole=not eviction.ranks,
            lost_ms=sum(state.clock_ms - moment for moment in since),
        )
    )
    reason = REASONS[eviction.cause]
    if for_job:
        evictors = tuple(dict.fromkeys([for_job, *victim.evicted_for]))[:MAX_EVICTORS]
        victim = replace(victim, evicted_for=evictors)
        state.put_job(victim)
    if not eviction.ranks:
        detail = "its nodes are kept for a window"
        if for_job:
            detail = f"gave way to job {units.job_name(state.feature_level, state.jobs[for_job], victim)}"
        evict_gang(state, events, victim, reason, detail)
        return
    evict_tasks(state, events, victim, [state.tasks[state.allocations[a].task_id] for a in released], reason)
