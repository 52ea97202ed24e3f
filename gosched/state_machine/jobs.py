"""Jobs: submitted, cancelled, forgotten."""

from __future__ import annotations

from gosched.core.commands.jobs import CancelJob, DropFinishedJobs, NoteWaitReasons, SubmitJob
from gosched.core.events import Event, WaitReasonNoted
from gosched.core.features import FeatureLevel
from gosched.core.limits import (
    MAX_DETAIL_LENGTH,
    MAX_NAME_LENGTH,
    MAX_NOTES,
    MAX_TASKS_DROPPED_AT_ONCE,
    MAX_TENANTS,
)
from gosched.core.outcome import Accepted, Code, Outcome, Refusal, Rejected
from gosched.core.reasons import Reason
from gosched.core.records.job import Children, Job, JobIntent
from gosched.core.records.tenant import Tenant
from gosched.core.rules.finding import Finding, text_of
from gosched.core.rules.jobs import MAX_PARENT_NAME_LENGTH, check_begin_in_time, check_job
from gosched.core.rules.values import check_id, check_line, check_moment, check_name
from gosched.core.spec.dependency import Dependency
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine.children import (
    add_children,
    cancel,
    cluster_bound_problem,
    kept_name_problem,
    live_namesake,
)
from gosched.state_machine.dependencies import unmet
from gosched.state_machine.gangs import add_gang
from gosched.state_machine.job_control import named_job
from gosched.state_machine.queues import submission_refusal
from gosched.state_machine.reservations import reserve
from gosched.state_machine.retention import forget, forget_idle, forget_jobs
from gosched.state_machine.secrets import missing_secret_problem
from gosched.state_machine.size_limits import job_size_problem


def submit(state: ClusterState, command: SubmitJob, events: list[Event]) -> Outcome:
    """Add a job, or meet a live one with the same name and spec. A reservation that cannot be made any more is among
    the refusals of the answer; the job is there all the same."""
    spec = command.spec
    problem = _command_problem(command, state.feature_level)
    if problem:
        return Rejected(code=Code.INVALID, detail=problem)
    namesake = live_namesake(state, spec.tenant, spec.name)
    if namesake is not None:
        if namesake.spec == spec:
            return Accepted(subject=namesake.id, unchanged=True)
        detail = f"job {spec.name} is live with another spec: cancel it first, or take another name"
        return Rejected(code=Code.ALREADY_EXISTS, detail=detail)
    if command.job_id in state.jobs:
        return Rejected(code=Code.ALREADY_EXISTS, detail=f"job id {command.job_id} is taken")
    if late := check_begin_in_time(spec, state.clock_ms):
        return Rejected(code=Code.INVALID, detail=str(late))
    kept = kept_name_problem(state, spec)
    if kept:
        return Rejected(code=Code.CONFLICT, detail=kept)
    refused = submission_refusal(state, spec) or _room_refusal(state, command)
    if refused is not None:
        return refused
    waits_for = unmet(state, spec, command.job_id, command.unseen)
    if isinstance(waits_for, Rejected):
        return waits_for
    if state.feature_level >= FeatureLevel.BOUNDED and (absent := missing_secret_problem(state, spec)):
        return Rejected(code=Code.NOT_FOUND, detail=absent)
    problem = forget_idle(state, events, spec) if state.feature_level >= FeatureLevel.BOUNDED else ""
    if problem:
        return Rejected(code=Code.EXHAUSTED, detail=f"{problem}: try again when some are gone")
    return _create(state, command, waits_for, events)


def _command_problem(command: SubmitJob, level: int) -> str:
    spec, job_id = command.spec, command.job_id
    found = check_name("job id", job_id) or check_job(spec, level)
    if found:
        return str(found)
    if spec.is_parent and len(job_id) > MAX_PARENT_NAME_LENGTH:
        return f"job id has {len(job_id)} characters; for an array or a schedule {MAX_PARENT_NAME_LENGTH} are allowed"
    if spec.cron and command.next_run_at_ms <= 0:
        return f"schedule {spec.name} lacks the time of its first run"
    if found := _submitter_problem(command, level):
        return str(found)
    if len(command.reservation) > 1 or any(reservation.job_id != job_id for reservation in command.reservation):
        return "a submission comes with one reservation at most, that of its job"
    return text_of(check_moment("the first run at", command.next_run_at_ms))


def _submitter_problem(command: SubmitJob, level: int) -> Finding | None:
    later = command.user or command.authenticated or command.traceparent or command.unseen
    if level < FeatureLevel.BOUNDED and later:
        return Finding(problem="this feature level keeps no submitter of a job", advice="finalize the upgrade")
    user = check_id("user", command.user) if command.user else None
    return user or check_line("traceparent", command.traceparent)


def _room_refusal(state: ClusterState, command: SubmitJob) -> Rejected | None:
    spec = command.spec
    what = cluster_bound_problem(state, spec)
    full_of_tenants = spec.tenant not in state.tenants and len(state.tenants) >= MAX_TENANTS
    if not what and full_of_tenants and state.feature_level < FeatureLevel.BOUNDED:
        what = f"the cluster holds {MAX_TENANTS} tenants, its limit"
    too_large = "" if what else job_size_problem(state, command.job_id, spec, command.reservation)
    if too_large:
        return Rejected(code=Code.EXHAUSTED, detail=too_large)
    return Rejected(code=Code.EXHAUSTED, detail=f"{what}: try again when some are gone") if what else None


def _create(
    state: ClusterState, command: SubmitJob, waits_for: tuple[Dependency, ...], events: list[Event]
) -> Accepted:
    spec = state.footprint.shared(command.spec)
    if spec.tenant not in state.tenants:
        state.put_tenant(Tenant(name=spec.tenant, created_at_ms=state.clock_ms))
    begin_ms = spec.begin_ms(state.clock_ms)
    job = Job(
        id=command.job_id,
        spec=spec,
        sequence=state.next_sequence,
        submitted_at_ms=state.clock_ms,
        not_before_ms=begin_ms if begin_ms > state.clock_ms else 0,
        held=spec.hold,
        waits_for=waits_for,
        children=Children(next_run_at_ms=command.next_run_at_ms if spec.cron else 0),
        user=command.user,
        authenticated=command.authenticated,
        traceparent=command.traceparent,
    )
    add_gang(state, events, job)
    if spec.is_parent:
        add_children(state, events, job.id)
    problems = [reserve(state, events, wanted) for wanted in command.reservation]
    return Accepted(subject=job.id, refusals=tuple([Refusal(job_id=job.id, detail=why) for why in problems if why]))


def cancel_one(state: ClusterState, command: CancelJob, events: list[Event]) -> Outcome:
    """Cancel a job, by id or name. It is CANCELLED once its tasks have stopped, or its children have ended."""
    job = named_job(state, command.job_id)
    if isinstance(job, Rejected):
        return job
    if job.state.is_final or job.intent in (JobIntent.CANCEL, JobIntent.SUCCEED):
        return Accepted(subject=job.id, unchanged=True)
    cancel(state, events, job, command.reason[:MAX_NAME_LENGTH] or Reason.CANCELLED)
    return Accepted(subject=job.id)


def note_wait_reasons(state: ClusterState, command: NoteWaitReasons, events: list[Event]) -> Outcome:
    """Yield an event for each job of the command that still waits. Nothing is written."""
    if len(command.notes) > MAX_NOTES:
        return Rejected(code=Code.INVALID, detail=f"{len(command.notes)} reasons; one command notes {MAX_NOTES}")
    for note in command.notes:
        if note.job_id in state.pending:
            code, message = note.code[:MAX_NAME_LENGTH], note.message[:MAX_DETAIL_LENGTH]
            events.append(WaitReasonNoted(job_id=note.job_id, code=code, message=message))
    return Accepted(unchanged=not events)


def drop_finished(state: ClusterState, command: DropFinishedJobs, events: list[Event]) -> Outcome:
    """Forget jobs that have ended, up to a bounded number of tasks (a parent counts as one); the caller asks until the
    answer is `unchanged`."""
    if command.keep < 0:
        return Rejected(code=Code.INVALID, detail=f"{command.keep} finished jobs cannot be kept: give 0 or more")
    if state.feature_level >= FeatureLevel.BOUNDED:
        return Accepted(unchanged=not forget_jobs(state, events, command))
    beyond = len(state.finished) - command.keep
    chosen: list[Job] = []
    tasks = 0
    for job in state.finished_oldest_first():
        wanted = job.kept_since_ms < command.ended_before_ms or len(chosen) < beyond
        if not wanted or tasks >= MAX_TASKS_DROPPED_AT_ONCE:
            break
        chosen.append(job)
        tasks += max(1, job.spec.task_count)
    for job in chosen:
        forget(state, events, job)
    return Accepted(unchanged=not chosen)
