"""What becomes of a gang: it is made, a member fails, all are stopped, the last one ends, the next attempt begins.

Invariant: a job is settled by its intent, and only once none of its tasks holds an allocation.
"""

from __future__ import annotations

from typing import assert_never

from gosched.core.commands.nodes import TaskReport
from gosched.core.events import Event, JobChanged, JobUpdated, TaskChanged
from gosched.core.features import FeatureLevel
from gosched.core.limits import (
    AFTERMATH_MS,
    AGAIN_BACKOFF_MS,
    MAX_BACKOFF_MS,
    MAX_FREE_RESTARTS,
    MAX_UNDELIVERED_BACKOFF_MS,
    UNDELIVERED_BACKOFF_MS,
    WAVE_MS,
)
from gosched.core.preemption_rules import may_restart
from gosched.core.reasons import BY_ORDER, Reason
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.records.task import Task, TaskState, task_id
from gosched.core.replace import replace
from gosched.core.spec.policies import MemberFailure, RetryCause
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.silent_members import keeps_floors
from gosched.state_machine.changes import change_job, change_task
from gosched.state_machine.run_times import learn

_MAX_DOUBLINGS = 20
_AFTER_LOSS = ", after a node of the gang was lost"
_LOST_ORDER = "it was stopped by an order that is newer than the restored state"
_WITH_NODE = (Reason.NODE_LOST, Reason.DISCONNECTED, Reason.NODE_REBOOTED, Reason.SUPERVISOR_LOST)


def add_gang(state: ClusterState, events: list[Event], job: Job) -> None:
    """Add a new job and its tasks."""
    state.put_job(job)
    state.set_next_sequence(job.sequence + 1)
    rank = 0
    for group in job.spec.groups if job.spec.task_count else ():
        name = group.name
        for index in range(group.count):
            state.put_task(Task(id=task_id(job.id, name, index), job_id=job.id, group=name, index=index, rank=rank))
            rank += 1
    events.append(
        JobChanged(job_id=job.id, queue=job.spec.queue, before=JobState.UNSPECIFIED, after=job.state, job=job)
    )


def after_ends(state: ClusterState, events: list[Event], ended: dict[str, Task | None], heard_at_ms: int = 0) -> None:
    """Do what follows for jobs whose tasks have just ended. `ended`: these jobs, each with the first of its tasks that
    did not succeed. `heard_at_ms`: when the node was last heard that lost them; 0: it is not known, or lives."""
    for job_id, failed in ended.items():
        job = state.jobs[job_id]
        if job.active == 0 and _ended_in_time(state, job):
            job = replace(job, intent=JobIntent.RUN, reason="", detail="")
            state.put_job(job)
            failed = min(_failed_members(state, job), key=lambda task: (task.ended_at_ms, task.rank), default=None)
        if job.intent is JobIntent.RUN and _is_done(state, job):
            detail = f"all of group {job.spec.gang.ends_with} has succeeded"
            done = replace(job, intent=JobIntent.SUCCEED, reason=Reason.GANG_ENDED, detail=detail)
            stop_all(state, events, done, Reason.GANG_ENDED)
        elif failed is not None and job.intent is JobIntent.RUN and not _goes_on(state, events, job, heard_at_ms):
            _member_failed(state, events, job, failed)
        elif failed is not None and _explains_failure(job, failed, heard_at_ms):
            _blame_node(state, events, job, failed)
        if state.jobs[job_id].active == 0:
            settle(state, events, state.jobs[job_id], with_tasks=True)


def stop_all(state: ClusterState, events: list[Event], job: Job, reason: str) -> None:
    """Write the job, and order those of its tasks that hold an allocation to stop; the others get none any more. A
    frozen job thaws by being stopped."""
    to_stop = [task for task in state.tasks_of(job) if task.state.is_active and task.state is not TaskState.STOPPING]
    if job.frozen or not to_stop:  # else the tasks tell of it
        events.append(JobUpdated(job_id=job.id))
    state.put_job(replace(job, running=0, unplaced=0, frozen=False))
    for task in to_stop:
        change_task(state, events, task, replace(task, state=TaskState.STOPPING, reason=reason))


def restart_intent(job: Job) -> JobIntent:
    """Return the intent of a gang that is stopped and may start again: one that people have suspended waits until they
    resume it."""
    return JobIntent.SUSPEND if job.frozen else JobIntent.RESTART


def _ended_in_time(state: ClusterState, job: Job) -> bool:
    """Return whether all tasks of a job that is to end by its timeout had ended by themselves before it: their node
    could not say so then."""
    if job.reason != Reason.TIMEOUT or job.intent is not JobIntent.FAIL or state.feature_level < FeatureLevel.BOUNDED:
        return False
    by_ms = job.placed_at_ms + job.spec.timeout_ms
    return all(
        task.state in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.PENDING) and task.ended_at_ms <= by_ms
        for task in state.tasks_of(job)
    )


def _failed_members(state: ClusterState, job: Job) -> list[Task]:
    return [task for task in state.tasks_of(job) if task.state is TaskState.FAILED]


def settle(state: ClusterState, events: list[Event], job: Job, *, with_tasks: bool = False) -> None:
    """End a job whose tasks hold nothing (any more), or begin its next attempt. `with_tasks`: it ends because its tasks
    have ended, so it does when the last of them did."""
    match job.intent:
        case JobIntent.RUN | JobIntent.SUCCEED:
            done = replace(job, state=JobState.SUCCEEDED, reason="", detail="", exit_code=0, unplaced=0, frozen=False)
        case JobIntent.FAIL:
            done = replace(job, state=JobState.FAILED)
        case JobIntent.CANCEL:
            done = replace(job, state=JobState.CANCELLED, exit_code=None)
        case JobIntent.RESTART | JobIntent.SUSPEND:
            learn(state, job, _ended_at_ms(state, job))
            _next_attempt(state, events, job)
            return
        case JobIntent.UNSPECIFIED:
            raise ValueError(f"job {job.id} has no intent")
        case _:
            assert_never(job.intent)
    known = with_tasks and state.feature_level >= FeatureLevel.BOUNDED
    ended_at_ms = _ended_at_ms(state, job) if known else state.clock_ms
    learn(state, job, ended_at_ms)
    if ended_at_ms < state.clock_ms:
        done = replace(done, end_known_at_ms=state.clock_ms)
    if done.state is JobState.SUCCEEDED and 0 < ended_at_ms <= done.deadline_ms and done.deadline_missed and known:
        done = replace(done, deadline_missed=False)
    reason = Reason.NOT_NEEDED if done.state is JobState.SUCCEEDED else job.reason
    for task in state.tasks_of(job):
        if task.state is TaskState.PENDING:
            ended = replace(task, state=TaskState.KILLED, reason=reason, ended_at_ms=ended_at_ms)
            change_task(state, events, task, ended)
    change_job(state, events, job, replace(done, ended_at_ms=ended_at_ms))


def _ended_at_ms(state: ClusterState, job: Job) -> int:
    """Return when the last of its tasks ended; now, if none did."""
    return max([task.ended_at_ms for task in state.tasks_of(job)], default=0) or state.clock_ms


def is_of_lost_order(state: ClusterState, job: Job, ended: Task | TaskReport) -> bool:
    """Return whether a task that has ended, and was not to stop, was stopped as an eviction does it: the order is of a
    history that was lost, since the state was restored. The job did nothing wrong."""
    known = state.feature_level >= FeatureLevel.BOUNDED
    return known and job.intent is JobIntent.RUN and ended.state is TaskState.KILLED and ended.reason in BY_ORDER


def wait_for_another_place(state: ClusterState, events: list[Event], ended: Task) -> None:
    """Let an elastic task that lost its place wait for another, while its job runs on."""
    job = state.jobs[ended.job_id]
    change_task(state, events, ended, _fresh(state, ended, ended.attempt, ended.moves + 1))
    state.put_job(replace(job, failed=job.failed - ended.state.is_failure, unplaced=job.unplaced + 1))


def give_back(state: ClusterState, events: list[Event], ended: Task, *, evicted: bool) -> None:
    """Let an elastic task that succeeded wait until it is wanted again: not for now, unless it was evicted."""
    job = state.jobs[ended.job_id]
    scaled_to = job.scaled_to if evicted else max(job.spec.gang.min_tasks, job.wanted - 1)
    state.put_job(replace(job, succeeded=job.succeeded - 1, scaled_to=scaled_to))
    wait_for_another_place(state, events, ended)


def _is_done(state: ClusterState, job: Job) -> bool:
    """Return whether the group with which the gang ends has succeeded."""
    first = 0
    for group in job.spec.groups if job.spec.gang.ends_with else ():
        if group.name == job.spec.gang.ends_with:
            own = state.tasks_of(job)[first : first + group.count]
            return all(task.state is TaskState.SUCCEEDED for task in own)
        first += group.count
    return False


def _goes_on(state: ClusterState, events: list[Event], job: Job, heard_at_ms: int) -> bool:
    """Return whether the gang goes on without the members that it has lost, since each group still has its floor. Those
    whose node was lost wait for another place then, and so do those that failed, as far as `retry` allows."""
    if job.spec.gang.on_member_failure is not MemberFailure.CONTINUE or not keeps_floors(state, job):
        return False
    tasks = state.tasks_of(job)
    if state.feature_level >= FeatureLevel.BOUNDED:
        _start_members_again(state, events, job, tasks, heard_at_ms)
        return True
    for task in tasks:
        if task.state is TaskState.LOST:
            wait_for_another_place(state, events, task)
    return True


def _start_members_again(
    state: ClusterState, events: list[Event], job: Job, tasks: list[Task], heard_at_ms: int
) -> None:
    """Let the lost members wait for another place, and those that have failed just now, or since their peer's node was
    last heard."""
    failed = (event.task_id for event in events if isinstance(event, TaskChanged) and event.after is TaskState.FAILED)
    now = dict.fromkeys(failed)
    since_ms = state.clock_ms + 1
    if any(_went_with_its_node(task) for task in tasks):
        since_ms = (heard_at_ms or state.clock_ms) - WAVE_MS
        paid = job.member_restarts > 0 and job.member_failed_at_ms >= heard_at_ms > 0
        lost = replace(job, lost_at_ms=state.clock_ms, not_before_ms=0, member_restarts=job.member_restarts - paid)
        state.put_job(lost)
    for task in tasks:
        if task.state is TaskState.LOST:
            wait_for_another_place(state, events, task)
        elif task.state is TaskState.FAILED and (task.id in now or task.ended_at_ms >= since_ms):
            _retry_member(state, events, task)


def _retry_member(state: ClusterState, events: list[Event], failed: Task) -> None:
    """Let a member that failed wait for its next start. One that does so shortly after another fails for the same
    reason: that costs the job one of its restarts, not one for each member."""
    job = state.jobs[failed.job_id]
    cause = _cause(state, job, failed)
    alone = cause is RetryCause.FAILED and not _is_of_wave(state, job)
    if (alone or cause is RetryCause.NODE_LOST) and not may_restart(job, cause):
        return
    first_ms = job.spec.retry.backoff_ms if alone else max(job.spec.retry.backoff_ms, AGAIN_BACKOFF_MS)
    waits = replace(
        job,
        member_restarts=job.member_restarts + alone,
        member_failed_at_ms=state.clock_ms,
        not_before_ms=max(job.not_before_ms, state.clock_ms + _doubled(first_ms, failed.moves)),
    )
    state.put_job(waits)
    wait_for_another_place(state, events, failed)


def _is_of_wave(state: ClusterState, job: Job) -> bool:
    """Return whether a member that fails now does so for the reason for which another was started again."""
    return 0 < job.member_failed_at_ms >= state.clock_ms - WAVE_MS


def _cause(state: ClusterState, job: Job, failed: Task) -> RetryCause:
    """Return what made a member fail: shortly after the loss of a node it is that."""
    if failed.state is TaskState.LOST or 0 < job.lost_at_ms >= state.clock_ms - AFTERMATH_MS:
        return RetryCause.NODE_LOST
    return RetryCause.FAILED


def _member_failed(state: ClusterState, events: list[Event], job: Job, task: Task) -> None:
    evicted = is_of_lost_order(state, job, task)
    cause = RetryCause.PREEMPTED if evicted else _cause(state, job, task)
    paid = cause is RetryCause.FAILED and _is_of_wave(state, job)
    again = _may_be_placed_again(job) if _is_nodes_fault(state, task) else paid or may_restart(job, cause)
    judged = cause is RetryCause.FAILED and state.feature_level >= FeatureLevel.BOUNDED
    after_loss = cause is RetryCause.NODE_LOST and task.state is TaskState.FAILED
    how = task.detail or _how_it_ended(task)
    job = replace(
        job,
        intent=restart_intent(job) if again else JobIntent.FAIL,
        restarts=job.restarts + (again and cause is RetryCause.FAILED and not paid),
        preemptions=job.preemptions + (again and evicted),
        reason=Reason.NODE_LOST if after_loss else task.reason or Reason.TASK_FAILED,
        detail=f"task {task.group}/{task.index}: {_LOST_ORDER if evicted else how}{_AFTER_LOSS * after_loss}",
        exit_code=None if again or evicted else task.exit_code,
        not_before_ms=state.clock_ms + _backoff_ms(state, job, task) if again and not evicted else 0,
        failed_at_ms=state.clock_ms if judged and not paid else 0,
    )
    stop_all(state, events, job, Reason.GANG_MEMBER_FAILED)


def _explains_failure(job: Job, lost: Task, heard_at_ms: int) -> bool:
    """Return whether the loss of this task explains why others failed: survivors see their peer go at once, masters
    know of it once its node's lease is over. What began first decides."""
    if not job.failed_at_ms or not _went_with_its_node(lost):
        return False
    began_ms = lost.ended_at_ms if lost.reason == Reason.DISCONNECTED else heard_at_ms  # of the others it is not known
    return job.intent in (JobIntent.FAIL, JobIntent.RESTART, JobIntent.SUSPEND) and began_ms <= job.failed_at_ms


def _blame_node(state: ClusterState, events: list[Event], job: Job, lost: Task) -> None:
    """Take a failure of members for the loss of a node, where the job may start again after that: it costs the job none
    of its restarts."""
    counted = job.intent is not JobIntent.FAIL
    blameless = replace(job, restarts=job.restarts - counted, failed_at_ms=0)
    if not may_restart(blameless, RetryCause.NODE_LOST):
        return
    events.append(JobUpdated(job_id=job.id))
    if job.intent is JobIntent.SUSPEND:
        state.put_job(blameless)
        return
    state.put_job(
        replace(
            blameless,
            intent=job.intent if counted else JobIntent.RESTART,
            reason=lost.reason,
            detail=f"task {lost.group}/{lost.index}: {lost.detail or _how_it_ended(lost)}",
            exit_code=None,
            not_before_ms=state.clock_ms + _backoff_ms(state, job, lost),
        )
    )


def _is_nodes_fault(state: ClusterState, task: Task) -> bool:
    """Return whether the node could not even start the task."""
    known = state.feature_level >= FeatureLevel.BOUNDED
    return known and task.state is TaskState.LOST and task.reason in (Reason.NODE_FAULT, Reason.PORT_IN_USE)


def _may_be_placed_again(job: Job) -> bool:
    """Return whether the job may start again after a node's fault: whatever it says of retries, up to a bound; but
    where other members may have run, what it says of a member's failure counts."""
    if job.spec.gang.on_member_failure is MemberFailure.FAIL_JOB and job.spec.task_count > 1:
        return False
    return job.attempt - 1 - job.restarts < MAX_FREE_RESTARTS


def _how_it_ended(task: Task) -> str:
    if task.exit_code is None:
        return task.state.name.lower()
    return f"exit code {task.exit_code}"


def _next_attempt(state: ClusterState, events: list[Event], job: Job) -> None:
    """Begin the next attempt. Only a failure has set `not_before_ms`: a job that was stopped by others starts again as
    soon as there is capacity."""
    for task in state.tasks_of(job):
        fresh = _fresh(state, task, job.attempt + 1, 0)
        if task.state is TaskState.PENDING:  # an elastic one that never got a place
            state.put_task(fresh)
        else:
            change_task(state, events, task, fresh)
    waiting = replace(
        job,
        state=JobState.SUSPENDED if job.intent is JobIntent.SUSPEND else JobState.PENDING,
        intent=JobIntent.RUN,
        attempt=job.attempt + 1,
        succeeded=0,
        failed=0,
        placed_at_ms=0,
        checkpoint_at_ms=0,
        until_ms=0,
        port=0,
        scaled_to=0 if job.spec.gang.initial_tasks else job.scaled_to,
        failed_at_ms=0,
        lost_at_ms=0,
        member_failed_at_ms=0,
        likely_ms=0,
        requeued_at_ms=state.clock_ms if state.feature_level >= FeatureLevel.BOUNDED else 0,
    )
    change_job(state, events, job, waiting)


def _fresh(state: ClusterState, task: Task, attempt: int, moves: int) -> Task:
    """Return the task as it waits for its next start, best where it was."""
    is_known = state.feature_level >= FeatureLevel.BOUNDED  # to all masters
    return Task(
        id=task.id,
        job_id=task.job_id,
        group=task.group,
        index=task.index,
        rank=task.rank,
        attempt=attempt,
        allocation_id=task.allocation_id,
        node_id=task.node_id,
        gpus=task.gpus if is_known else (),
        cpus=task.cpus if is_known else "",
        moves=moves,
    )


def _backoff_ms(state: ClusterState, job: Job, failed: Task) -> int:
    """Return the backoff, which doubles with each attempt that was not preempted, up to MAX_BACKOFF_MS or what the user
    asked for, whichever is more. There is none after the loss of a node that had started the task."""
    times = job.attempt - 1 - job.preemptions
    wanted = _doubled(job.spec.retry.backoff_ms, times)
    if not _is_undelivered(state, failed):
        is_gone = failed.state is TaskState.LOST and failed.reason == Reason.NODE_LOST
        return 0 if state.feature_level >= FeatureLevel.BOUNDED and is_gone else wanted
    return max(wanted, min(UNDELIVERED_BACKOFF_MS << min(times, _MAX_DOUBLINGS), MAX_UNDELIVERED_BACKOFF_MS))


def _doubled(first_ms: int, times: int) -> int:
    return min(first_ms << min(times, _MAX_DOUBLINGS), max(first_ms, MAX_BACKOFF_MS))


def _went_with_its_node(task: Task) -> bool:
    return task.state is TaskState.LOST and task.reason in _WITH_NODE


def _is_undelivered(state: ClusterState, task: Task) -> bool:
    """Return whether the node died and was not heard to start the task: where masters cannot reach agents, the orders
    of the next attempt are best not sent at once."""
    known = state.feature_level >= FeatureLevel.BOUNDED
    return known and task.state is TaskState.LOST and task.reason == Reason.NODE_LOST and not task.started_at_ms
