"""Plans: each gang is checked against the state as it is now, then taken or refused whole, its evictions included.

Invariant: nothing that the planner believed is trusted; a plan may be old, or wrong. A gang or a reservation that meets
a bug before it has written anything is refused for it like any other, and the plan goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

from gosched.core.commands.plans import Cause, CommitPlan, Eviction, GangPlacement
from gosched.core.events import Event
from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_KEPT_BACKOFF_MS
from gosched.core.outcome import Accepted, Outcome, Refusal
from gosched.core.preemption_rules import restarts_in_place
from gosched.core.reasons import Reason
from gosched.core.records.job import Job, JobState, wants_placement
from gosched.core.records.task import TaskState, task_id
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import bugs, evictions, fences, reservations, units
from gosched.state_machine.gang_fit import GangFit, HeldByEach
from gosched.state_machine.gang_start import by_group, place
from gosched.state_machine.headroom import Headroom, releases_of


def commit(state: ClusterState, command: CommitPlan, events: list[Event]) -> Outcome:
    """Take the gangs that can be taken, in the plan's order, then the reservations; the answer names those that were
    not and why."""
    refusals: list[Refusal] = []
    headroom = Headroom(state)

    def do(job_id: str, part: Callable[[], str]) -> None:
        before, told, is_bug = state.writes, len(events), False
        try:
            problem = part()
        except bugs.ALIKE as error:
            failed = bugs.refused(state, before, CommitPlan.__name__, error)
            events[told:] = [failed]
            problem, is_bug = f"{failed.why} in {failed.command}, a bug of gosched", True
        if problem:
            refusals.append(Refusal(job_id=job_id, detail=problem, is_bug=is_bug))

    for gang in command.gangs:
        do(gang.job_id, partial(_take if gang.job_id else _clear, state, events, headroom, gang))
    for job_id in command.withdrawn:
        do(job_id, partial(reservations.withdraw, state, events, job_id))
    for reservation in command.reservations:
        do(reservation.job_id, partial(reservations.reserve, state, events, reservation))
    return Accepted(refusals=tuple(refusals))


def _clear(state: ClusterState, events: list[Event], _headroom: Headroom, gang: GangPlacement) -> str:
    """Evict jobs for a window, or return why they cannot be."""
    if gang.tasks or not gang.evictions:
        return "there is no such job"
    problem = evictions.eviction_problem(state, gang)
    if not problem:
        evictions.evict_victims(state, events, gang)
    return problem


def _take(state: ClusterState, events: list[Event], headroom: Headroom, gang: GangPlacement) -> str:
    """Place the gang, or make a fence for it if it has victims; or return why it cannot be."""
    problem = _gang_problem(state, gang)
    if problem:
        return problem
    job = state.jobs[gang.job_id]
    released = evictions.released_allocations(state, gang)
    fit = _fit(state, gang, released)
    for group, _, placements in by_group(job, gang.tasks):
        problem = fit.group_problem(group, placements)
        if problem:
            return problem
    problem = fit.capacity_problem() or _limit_problem(state, headroom, job, gang, released, fit)
    if problem:
        return problem
    if gang.evictions:
        evictions.evict_victims(state, events, gang)
        fences.make(state, events, gang, released)
    else:
        place(state, events, job, gang.tasks, gang.until_ms)
    return ""


def _gang_problem(state: ClusterState, gang: GangPlacement) -> str:
    job = state.jobs.get(gang.job_id)
    if job is None:
        return "there is no such job"
    if job.id in state.fences:
        return "room is being made for the job already"
    repairs = any(eviction.cause is Cause.REPAIR for eviction in gang.evictions)
    return (
        (_repair_problem(state, job, gang) if repairs else _job_problem(state, job, gang))
        or _ranks_problem(job, gang)
        or (_start_problem(job, gang) if repairs or job.state is JobState.PENDING else _join_problem(state, job, gang))
        or ("" if repairs else evictions.eviction_problem(state, gang))
    )


def _repair_problem(state: ClusterState, job: Job, gang: GangPlacement) -> str:
    """Return why this is no repair: of a gang that broke, and is to start again where it ran."""
    own = Eviction(job_id=job.id, attempt=job.attempt, cause=Cause.REPAIR)
    if gang.evictions != (own,):
        return f"a repair evicts the job itself at attempt {job.attempt}, and nobody else"
    bounded = state.feature_level >= FeatureLevel.BOUNDED
    if bounded and job.not_before_ms > state.clock_ms + MAX_KEPT_BACKOFF_MS:
        begins = units.moment(state.feature_level, job.not_before_ms)
        return f"the job's next attempt is not before {begins}: its places are not kept for so long"
    if _may_be_repaired(state, job, gang.attempt):
        return ""
    broke = "broke" if state.feature_level >= FeatureLevel.BOUNDED else "lost a node"
    return f"the job is {job.state.name} at attempt {job.attempt}: not a gang that {broke} and starts again"


def _may_be_repaired(state: ClusterState, job: Job, attempt: int) -> bool:
    if state.feature_level < FeatureLevel.BOUNDED:
        return job.reason == Reason.NODE_LOST and job.active > 0 and fences.is_repair(job, attempt)
    waits = wants_placement(job) and restarts_in_place(job) and job.attempt == attempt
    return waits or fences.is_repair(job, attempt)


def _job_problem(state: ClusterState, job: Job, gang: GangPlacement) -> str:
    if not wants_placement(job):
        return f"the job is {job.state.name} and does not wait for a place"
    if gang.attempt != job.attempt:
        return f"the job is at attempt {job.attempt}, the plan at {gang.attempt}"
    if job.not_before_ms > state.clock_ms:
        rest = units.duration(state.feature_level, job.not_before_ms - state.clock_ms)
        return f"the job waits another {rest} before its next attempt"
    return ""


def _ranks_problem(job: Job, gang: GangPlacement) -> str:
    ranks = [placement.rank for placement in gang.tasks]
    if not ranks or ranks[0] < 0 or ranks[-1] >= job.spec.task_count:
        return f"the plan places no task, or ranks beyond the job's: it has ranks 0 to {job.spec.task_count - 1}"
    if any(before >= after for before, after in pairwise(ranks)):
        return "the plan's ranks do not ascend"
    return ""


def _start_problem(job: Job, gang: GangPlacement) -> str:
    if 0 < job.wanted < len(gang.tasks):
        return f"{job.wanted} tasks of the job are wanted, the plan places {len(gang.tasks)}"
    for group, _, placements in by_group(job, gang.tasks):
        if len(placements) < group.floor:
            return f"{group.floor} tasks of group {group.name} start together, the plan places {len(placements)}"
    return ""


def _join_problem(state: ClusterState, job: Job, gang: GangPlacement) -> str:
    if job.wanted and len(gang.tasks) > job.may_join:
        return f"{job.may_join} more tasks of the job are wanted, the plan places {len(gang.tasks)}"
    for group, first, placements in by_group(job, gang.tasks):
        for placement in placements:
            task = state.tasks[task_id(job.id, group.name, placement.rank - first)]
            if task.state is not TaskState.PENDING:
                return f"rank {placement.rank} is {task.state.name} and does not wait for a place"
    return ""


def _fit(state: ClusterState, gang: GangPlacement, released: list[str]) -> GangFit:
    """Return the check against what is free now; with victims, against what will be free once all victims have ended
    and all fences have become starts."""
    if not gang.evictions:
        return GangFit(state, state)
    gone = dict.fromkeys(released)
    return GangFit(state, HeldByEach(state, lambda a: not a.evicted_for_fence and a.id not in gone, fences=True))


def _limit_problem(
    state: ClusterState, headroom: Headroom, job: Job, gang: GangPlacement, released: list[str], fit: GangFit
) -> str:
    """Take what the gang wants from the limits, or return which of them is against it."""
    if not headroom.is_limited:
        return ""
    wanted = fit.charge()
    whole = dict.fromkeys(eviction.job_id for eviction in gang.evictions if not eviction.ranks)
    releases = releases_of(state, released, whole)
    fence = bool(gang.evictions)
    problem = headroom.problem(job, wanted, releases, fence=fence)
    if not problem:
        headroom.take(job, wanted, releases, fence=fence)
    return problem
