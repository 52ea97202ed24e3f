"""What people do to a live job: hold and release, suspend (in place, or freeing what it holds) and resume, requeue,
scale.

Invariant: a repeat changes nothing, and none of it is charged to the job: no restart is counted, no backoff is waited
for.
"""

from __future__ import annotations

from typing import assert_never

from gosched.core.commands.jobs import Action, ControlJob
from gosched.core.events import Event, JobFrozen, JobUpdated
from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.reasons import Reason
from gosched.core.records.follow_up import FollowUpKind
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.replace import replace
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.job_names import meant, which_one
from gosched.state_machine.changes import add_follow_up, change_job
from gosched.state_machine.children import add_children, conclude, live_children
from gosched.state_machine.gangs import stop_all
from gosched.state_machine.scaling import scale, scale_problem


def named_job(state: ClusterState, text: str) -> Job | Rejected:
    """Return the job of an id or a name; a name that live jobs of several tenants have is refused."""
    found = meant(state.jobs_named(text))
    if not found:
        return Rejected(code=Code.NOT_FOUND, detail=f"no job {text[:MAX_NAME_LENGTH]!a}")
    if len(found) > 1:
        return Rejected(code=Code.INVALID, detail=which_one(text, found))
    return found[0]


def control(state: ClusterState, command: ControlJob, events: list[Event]) -> Outcome:
    """Do what the command says to a job, by id or name."""
    job = named_job(state, command.job_id)
    if isinstance(job, Rejected):
        return job
    problem = _problem(job, command.action)
    if not problem and command.action is Action.SCALE:
        problem = scale_problem(job, command.tasks)
    if problem:
        return Rejected(code=Code.CONFLICT, detail=problem)
    before = len(events)
    match command.action:
        case Action.HOLD:
            _hold(state, events, job)
        case Action.RELEASE:
            _release(state, events, job)
        case Action.SUSPEND:
            _suspend(state, events, job, in_place=False)
        case Action.FREEZE:
            _suspend(state, events, job, in_place=True)
        case Action.RESUME:
            _resume(state, events, job)
        case Action.REQUEUE:
            _requeue(state, events, job)
        case Action.SCALE:
            scale(state, events, job, command.tasks)
        case Action.UNSPECIFIED:
            return Rejected(
                code=Code.INVALID, detail="the action must be hold, release, suspend, freeze, resume or requeue"
            )
        case _:
            assert_never(command.action)
    return Accepted(subject=job.id, unchanged=len(events) == before)


def _problem(job: Job, action: Action) -> str:
    if job.state.is_final:
        return f"job {job.spec.name} has ended {job.state.name}: submit it again"
    if not _lives_on(job):
        return f"job {job.spec.name} is about to end ({job.reason}): wait for its end, then submit it again"
    if action is Action.REQUEUE and (job.state is JobState.SUSPENDED or job.intent is JobIntent.SUSPEND):
        return f"job {job.spec.name} is suspended: resume it instead"
    return ""


def _lives_on(job: Job) -> bool:
    return job.intent in (JobIntent.RUN, JobIntent.RESTART, JobIntent.SUSPEND)


def _hold(state: ClusterState, events: list[Event], job: Job) -> None:
    """Hold a job: what runs goes on, and is not started again after this attempt. A parent makes no more children."""
    if not job.held:
        state.put_job(replace(job, held=True))
        events.append(JobUpdated(job_id=job.id))


def _release(state: ClusterState, events: list[Event], job: Job) -> None:
    if job.held:
        state.put_job(replace(job, held=False, not_before_ms=_could_start_ms(state, job)))
        events.append(JobUpdated(job_id=job.id))
        if job.spec.is_parent:
            add_children(state, events, job.id)


def _suspend(state: ClusterState, events: list[Event], job: Job, *, in_place: bool) -> None:
    """Suspend a job: one that runs is frozen where it is, or SUSPENDED once its tasks have stopped; any other is
    SUSPENDED at once. With a parent its live children are."""
    if job.intent is JobIntent.SUSPEND:
        return
    if job.active and in_place and job.intent is JobIntent.RUN:
        _set_frozen(state, events, job, frozen=True)
        return
    if job.active:
        stopping = replace(
            job, intent=JobIntent.SUSPEND, reason=Reason.SUSPENDED, detail="", exit_code=None, not_before_ms=0
        )
        stop_all(state, events, stopping, Reason.SUSPENDED)
        events.append(JobUpdated(job_id=job.id))
        return
    if job.state is not JobState.SUSPENDED:
        suspended = replace(job, state=JobState.SUSPENDED, reason=Reason.SUSPENDED, detail="", not_before_ms=0)
        change_job(state, events, job, suspended)
    _to_children(state, events, job, FollowUpKind.FREEZE if in_place else FollowUpKind.SUSPEND)


def _set_frozen(state: ClusterState, events: list[Event], job: Job, *, frozen: bool) -> None:
    if job.frozen is frozen:
        return
    state.put_job(replace(job, frozen=frozen, likely_ms=0))  # nobody can say any more how long it will have run
    nodes = dict.fromkeys(task.node_id for task in state.tasks_of(job) if task.state.is_active)
    events.append(JobFrozen(job_id=job.id, frozen=frozen, node_ids=tuple(nodes)))
    events.append(JobUpdated(job_id=job.id))


def _resume(state: ClusterState, events: list[Event], job: Job) -> None:
    if job.intent is JobIntent.SUSPEND:  # it still stops: then it waits again, as if it had been SUSPENDED in between
        state.put_job(replace(job, intent=JobIntent.RESTART))
        events.append(JobUpdated(job_id=job.id))
    elif job.frozen:
        _set_frozen(state, events, job, frozen=False)
    elif job.state is JobState.SUSPENDED:
        after = JobState.RUNNING if job.children.made else JobState.PENDING
        could_start_ms = _could_start_ms(state, job)
        change_job(state, events, job, replace(job, state=after, reason="", detail="", not_before_ms=could_start_ms))
        _to_children(state, events, job, FollowUpKind.RESUME)
        if job.spec.is_parent:
            add_children(state, events, job.id)
            conclude(state, events, job.id)


def _requeue(state: ClusterState, events: list[Event], job: Job) -> None:
    """Stop what runs; it waits again in its old place. What waits already does so; with a parent its live children."""
    if job.active and job.intent is JobIntent.RUN:
        stopping = replace(
            job, intent=JobIntent.RESTART, reason=Reason.REQUEUED, detail="", exit_code=None, not_before_ms=0
        )
        stop_all(state, events, stopping, Reason.REQUEUED)
    _to_children(state, events, job, FollowUpKind.REQUEUE)


def to_child(state: ClusterState, events: list[Event], kind: FollowUpKind, child: Job) -> None:
    """Do to a live child what was done to its parent."""
    match kind:
        case FollowUpKind.SUSPEND | FollowUpKind.FREEZE if _lives_on(child):
            _suspend(state, events, child, in_place=kind is FollowUpKind.FREEZE)
        case FollowUpKind.RESUME:
            _resume(state, events, child)
        case FollowUpKind.REQUEUE:
            _requeue(state, events, child)
        case _:
            pass


def _to_children(state: ClusterState, events: list[Event], job: Job, kind: FollowUpKind) -> None:
    if not state.relatives.children.get(job.id):
        return
    if state.feature_level >= FeatureLevel.BOUNDED:
        add_follow_up(state, job.id, kind)
        return
    for child in live_children(state, job.id):
        to_child(state, events, kind, child)


def _could_start_ms(state: ClusterState, job: Job) -> int:
    """Return the moment from which a gang's patience counts: now, unless the job still waits for its backoff or its
    begin; of an array its begin, if it is to come."""
    if job.begins_later(state.clock_ms):
        return job.begin_ms
    return 0 if job.spec.is_parent else max(job.not_before_ms, state.clock_ms)
