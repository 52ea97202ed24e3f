"""Events of jobs, each with its line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gosched.core.commands.jobs import Action, ControlJob
from gosched.core.commands.plans import Cause
from gosched.core.events import (
    DeadlineMissed,
    FenceChanged,
    JobChanged,
    JobEvicted,
    JobFrozen,
    ReservationChanged,
    TaskChanged,
    WaitReasonNoted,
)
from gosched.core.outcome import Accepted
from gosched.core.preemption_rules import restarts_in_place
from gosched.core.reasons import Reason
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.clock import utc
from gosched.master.history.draft import Draft, JobTasks
from gosched.master.history.kinds import Kind
from gosched.master.history.words import because, counted, job_name, listed, span
from gosched.replication.interface import AppliedCommand

WAITS = "it waits: "  # before the reason, in the line of a job that waits
MIN_MOVE_MS = 60_000  # of a reserved start: less is no news

_ENDS = {
    JobState.SUCCEEDED: Kind.JOB_SUCCEEDED,
    JobState.FAILED: Kind.JOB_FAILED,
    JobState.CANCELLED: Kind.JOB_CANCELLED,
}
# Reasons for which an attempt was stopped by others: nothing went wrong with it.
BY_OTHERS = frozenset(
    {
        Reason.PREEMPTED,
        Reason.RECLAIMED,
        Reason.BACKFILL_OVER,
        Reason.WINDOW_BEGINS,
        Reason.DRAINED,
        Reason.TAINTED,
        Reason.REQUEUED,
        Reason.SCALED_DOWN,
        Reason.SUSPENDED,
        Reason.CANCELLED,
    }
)
_EVICTION_CODES = {
    Cause.PREEMPT: Reason.PREEMPTED,
    Cause.RECLAIM: Reason.RECLAIMED,
    Cause.BACKFILL: Reason.BACKFILL_OVER,
    Cause.WINDOW: Reason.WINDOW_BEGINS,
    Cause.REPAIR: Reason.NODE_LOST,
}


def of_command(state: ClusterState, applied: AppliedCommand) -> Iterator[Draft]:
    """Yield what a command says that no event of the state tells: a job is held, released or scaled."""
    body, outcome = applied.command.body, applied.outcome
    if not isinstance(body, ControlJob) or not isinstance(outcome, Accepted) or outcome.unchanged:
        return
    job = state.jobs.get(outcome.subject)
    if job is not None and applied.events and body.action is Action.HOLD:
        yield Draft(Kind.JOB_HELD, "held: it is not started until it is released", job=job)
    elif job is not None and applied.events and body.action is Action.RELEASE:
        yield Draft(Kind.JOB_RELEASED, "released", job=job)
    elif job is not None and body.action is Action.SCALE:
        yield Draft(Kind.JOB_SCALED, f"{job.wanted} of its {job.spec.task_count} tasks are wanted", job=job)


def changed(state: ClusterState, event: JobChanged, tasks: JobTasks | None) -> Iterator[Draft]:
    job = event.job
    if job is None:
        return
    if event.before is JobState.UNSPECIFIED:
        yield _submitted(state, job)
    elif event.after is JobState.UNSPECIFIED:
        line = f"its record is dropped: it ended {event.before.name} at {utc(job.ended_at_ms)}"
        yield Draft(Kind.JOB_FORGOTTEN, line, job=job)
    elif event.after.is_final:
        yield _ended(job)
    elif event.after is JobState.RUNNING and event.before is JobState.PENDING:
        yield _placed(state, job, tasks)
    elif event.before is JobState.SUSPENDED:
        yield Draft(Kind.JOB_RESUMED, "resumed", job=job)
    elif event.after is JobState.SUSPENDED:
        stopped = " and has stopped" if event.before is JobState.RUNNING and not job.spec.is_parent else ""
        yield Draft(Kind.JOB_SUSPENDED, f"suspended{stopped}", job=job, code=job.reason)
    elif event.after is JobState.PENDING and event.was is not None:
        yield _again(event.was, job, state.clock_ms)


def evicted(state: ClusterState, event: JobEvicted) -> Draft:
    job = state.jobs.get(event.job_id)
    what = "all its tasks stop" if event.whole else f"{counted(event.tasks, 'task')} of it stop"
    for_what = f"for job {job_name(state, event.for_job, job)}" if event.for_job else "for a window"
    if event.cause is Cause.REPAIR:
        for_what = "to start again in place"
    cost = f"{span(event.lost_ms)} of work is lost"
    if job is not None and job.spec.preemption.checkpoint_signal:  # what is lost shows when it has stopped
        cost = "they may save their work first"
    line = f"evicted {for_what}: {what}, {cost}"
    return Draft(Kind.JOB_EVICTED, line, job=job, job_id=event.job_id, code=_EVICTION_CODES.get(event.cause, ""))


def fence_changed(state: ClusterState, event: FenceChanged) -> Iterator[Draft]:
    job = state.jobs.get(event.job_id)
    nodes = listed(event.node_ids)
    if job is not None and job.intent is JobIntent.FAIL:  # its places were kept in case a lost node turns out to be why
        return
    if event.made:
        line = f"it starts on {nodes} once its victims have ended"
        if (fence := state.fences.get(event.job_id)) is not None and job is not None and restarts_in_place(job):
            line = f"its places on {nodes} are kept for attempt {fence.attempt}"
        yield Draft(Kind.JOB_FENCED, line, job=job, job_id=event.job_id)
    elif event.why:
        line = f"it does not start on {nodes} after all: {event.why}"
        yield Draft(Kind.JOB_FENCE_LOST, line, job=job, job_id=event.job_id)


def reservation_changed(state: ClusterState, event: ReservationChanged, *, starts: bool) -> Iterator[Draft]:
    """Yield an event where people see a difference: a start moves a little at each cycle, and is given up by the start
    itself."""
    job = state.jobs.get(event.job_id)
    if event.start_ms:
        if event.broken or abs(event.start_ms - event.before_ms) >= MIN_MOVE_MS:
            late = ", after its deadline" if event.broken else ""
            held = state.reservations.get(event.job_id)
            line = f"a start at {utc(event.start_ms)} is reserved for it{late}"
            if held is not None and held.standing:
                line = f"nodes are kept for it, as a guess until {utc(event.start_ms)}"
            yield Draft(Kind.JOB_RESERVED, line, job=job, job_id=event.job_id)
    elif event.broken or not starts:
        line = "its reserved start is lost" + (", and its deadline with it" if event.broken else "")
        yield Draft(Kind.JOB_RESERVATION_LOST, line, job=job, job_id=event.job_id)


def deadline_missed(state: ClusterState, event: DeadlineMissed) -> Draft:
    job = state.jobs.get(event.job_id)
    line = f"it had not succeeded by its deadline{f' at {utc(job.deadline_ms)}' if job else ''}"
    return Draft(Kind.JOB_DEADLINE_MISSED, line, job=job, job_id=event.job_id, code="DEADLINE_MISSED")


def frozen(state: ClusterState, event: JobFrozen) -> Draft:
    nodes = listed(event.node_ids)
    kind, line = (Kind.JOB_FROZEN, "stands still") if event.frozen else (Kind.JOB_RESUMED, "runs on")
    return Draft(kind, f"{line} on {nodes}", job=state.jobs.get(event.job_id), job_id=event.job_id)


def queued(state: ClusterState, event: WaitReasonNoted) -> Draft:
    job = state.jobs.get(event.job_id)
    return Draft(Kind.JOB_QUEUED, f"{WAITS}{event.message}", job=job, job_id=event.job_id, code=event.code)


def stopping(state: ClusterState, job_id: str, tasks: Sequence[TaskChanged]) -> Draft:
    job = state.jobs.get(job_id)
    code = tasks[0].reason
    why = because(code, job.detail if job is not None and job.reason == code else "")
    one = tasks[0].node_id if len(tasks) == 1 else ""
    line = f"{counted(len(tasks), 'task')} {'is' if len(tasks) == 1 else 'are'} ordered to stop{why}"
    return Draft(Kind.JOB_STOPPING, line, job=job, job_id=job_id, node_id=one, code=code)


def started(state: ClusterState, job_id: str, tasks: JobTasks) -> Iterator[Draft]:
    """Yield an event if none of the attempt's tasks has run before."""
    job = state.jobs.get(job_id)
    task = tasks.started[0].task
    if job is None or task is None or task.attempt != job.attempt:
        return
    running_before = job.running - len(tasks.started) + tasks.ran
    if running_before + job.succeeded + job.failed - tasks.counted > 0:
        return
    line = f"runs: {len(tasks.started)} of its {counted(job.spec.task_count, 'task')}"
    yield Draft(
        Kind.JOB_STARTED, line if job.spec.task_count > 1 else "runs", job=job, node_id=_one_node(tasks.started)
    )


def joined(state: ClusterState, job_id: str, placed: Sequence[TaskChanged]) -> Draft:
    line = f"{counted(len(placed), 'more task')} placed on {_where(placed)}"
    return Draft(Kind.JOB_PLACED, line, job=state.jobs.get(job_id), job_id=job_id, node_id=_one_node(placed))


def _submitted(state: ClusterState, job: Job) -> Draft:
    spec = job.spec
    what = f"an array of {spec.array.size}" if spec.array.size else counted(spec.task_count, "task")
    by = f" by {job.user}" if job.user else ""
    parts = [f"submitted to queue {spec.queue}{by}: {'a schedule' if spec.cron else what}"]
    if job.held:
        parts.append("held")
    if job.waits_for:
        parts.append("after " + listed([job_name(state, wanted.job, job) for wanted in job.waits_for]))
    return Draft(Kind.JOB_SUBMITTED, ", ".join(parts), job=job)


def _placed(state: ClusterState, job: Job, tasks: JobTasks | None) -> Draft:
    placed = tasks.placed if tasks else []
    if not placed:
        return Draft(Kind.JOB_STARTED, "its first jobs are made", job=job)  # an array or a schedule
    count = counted(len(placed), "task")
    waited = f" after {span(job.placed_at_ms - job.submitted_at_ms)}" if job.attempt == 1 else ""
    attempt = f", attempt {job.attempt}" if job.attempt > 1 else ""
    line = f"{count} placed on {_where(placed)}{waited}{attempt}"
    return Draft(Kind.JOB_PLACED, line, job=job, node_id=_one_node(placed))


def _again(was: Job, job: Job, stopped_ms: int) -> Draft:
    by_others = was.reason in BY_OTHERS
    wait = f", not before {utc(job.not_before_ms)}" if job.not_before_ms else ""
    line = f"attempt {was.attempt} {'was stopped' if by_others else 'failed'}{because(was.reason, was.detail)}"
    if by_others and was.spec.preemption.checkpoint_signal and was.placed_at_ms:
        lost = span(stopped_ms - max(was.checkpoint_at_ms, was.placed_at_ms))
        line += f", {lost} after it had saved itself" if was.checkpoint_at_ms else f": {lost} of work is lost"
    kind = Kind.JOB_REQUEUED if by_others else Kind.JOB_RETRIED
    return Draft(kind, f"{line}; attempt {job.attempt} follows{wait}", job=job, attempt=was.attempt, code=was.reason)


def _ended(job: Job) -> Draft:
    attempts = f" after {counted(job.shown_attempt, 'attempt')}" if job.shown_attempt > 1 else ""
    code = f" with exit code {job.exit_code}" if job.exit_code else ""
    line = f"{job.state.name.lower()}{code}{attempts}{because(job.reason, job.detail)}"
    return Draft(_ENDS[job.state], line, job=job, attempt=job.shown_attempt, code=job.reason)


def _where(tasks: Sequence[TaskChanged]) -> str:
    return listed(list(dict.fromkeys(event.node_id for event in tasks)))


def _one_node(tasks: Sequence[TaskChanged]) -> str:
    nodes = {event.node_id for event in tasks}
    return nodes.pop() if len(nodes) == 1 else ""
