"""Arrays and schedules: jobs without tasks of their own. Their children are ordinary jobs, made when they may live.

Invariant: a parent ends after its last child, and its live children have together at most as many tasks as one job may
have (but there may always be one child). So whatever is done to a parent and its children costs no more than with one
job.

An array makes its first child at its begin; what its elements say of a begin is over then.

An array that cannot make its next child (the cluster is at its bounds, a live job has the child's name) says so in
`detail` and looks again at `not_before_ms`; meanwhile each end of one of its children makes it look too.
"""

from __future__ import annotations

from gosched.core.commands.jobs import RunSchedule
from gosched.core.events import Event, JobUpdated
from gosched.core.features import FeatureLevel
from gosched.core.limits import (
    DEFAULT_PARALLEL,
    MAX_LIVE_JOBS,
    MAX_NAME_LENGTH,
    MAX_PARALLEL,
    MAX_TASKS,
    MAX_TASKS_PER_JOB,
)
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.reasons import Reason
from gosched.core.records.follow_up import FollowUpKind
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.replace import replace
from gosched.core.spec.array import Array
from gosched.core.spec.job_spec import JobSpec, Overlap
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import units
from gosched.state_machine.changes import add_follow_up, change_job
from gosched.state_machine.gangs import add_gang, settle, stop_all
from gosched.state_machine.size_limits import job_size_problem

LOOK_AGAIN_MS = 5_000


def max_live_children(spec: JobSpec, level: int) -> int:
    """Return how many children of an array or a schedule may live at once."""
    tasks = sum(group.count for group in spec.groups)
    array = _most_at_once(tasks)
    if spec.array.size:
        default = DEFAULT_PARALLEL if level >= FeatureLevel.BOUNDED else MAX_PARALLEL
        array = min(spec.array.parallelism or default, array)
    return _most_at_once(tasks * (array if spec.array.size else 1)) if spec.cron else array


def _most_at_once(tasks: int) -> int:
    return min(MAX_PARALLEL, max(1, MAX_TASKS_PER_JOB // tasks))


def add_children(state: ClusterState, events: list[Event], parent_id: str) -> None:
    """See to it that an array gets the children that it may have now."""
    parent = state.jobs[parent_id]
    if state.feature_level < FeatureLevel.BOUNDED:
        make_children(state, events, parent_id, MAX_TASKS)
    elif not parent.spec.cron and _may_have_children(state, parent):
        add_follow_up(state, parent_id, FollowUpKind.FILL)


def make_children(state: ClusterState, events: list[Event], parent_id: str, steps: int) -> tuple[int, bool]:
    """Make the children that an array may have now, up to so many steps. Return the steps, and whether there are more
    to make."""
    parent = state.jobs[parent_id]
    if parent.spec.cron or not _may_have_children(state, parent):
        return 0, False
    array, limit, common = parent.spec.array, max_live_children(parent.spec, state.feature_level), _common_spec(parent)
    made, live, problem = parent.children.made, parent.children.live, ""
    done = 0
    while made < array.size and live < limit and not problem and done < steps:
        element = array.index(made)
        child_id, spec = f"{parent.id}.{element}", _named(common, element)
        problem = _child_problem(state, child_id, spec)
        if not problem:
            _add_child(state, events, parent, child_id, element, spec)
            made, live, done = made + 1, live + 1, done + max(1, spec.task_count)
    look_again_ms = state.clock_ms + LOOK_AGAIN_MS if problem else 0
    _count_made(state, events, replace(parent, detail=problem, not_before_ms=look_again_ms), made, live)
    return done, made < array.size and live < limit and not problem


def run_schedule(state: ClusterState, command: RunSchedule, events: list[Event]) -> Outcome:
    """Make the child of the run that is due. The subject of the answer is empty if the run is skipped; the parent's
    `detail` says why."""
    parent = state.jobs.get(command.job_id)
    if parent is None:
        return Rejected(code=Code.NOT_FOUND, detail=f"no job {command.job_id[:MAX_NAME_LENGTH]!a}")
    problem = _run_problem(state, parent, command)
    if problem:
        return Rejected(code=Code.CONFLICT, detail=problem)
    parent = replace(parent, children=replace(parent.children, next_run_at_ms=command.next_run_at_ms))
    element = parent.children.made + 1
    spec = _named(_common_spec(parent), element)
    why = _skip_reason(state, parent) or _child_problem(state, command.child_id, spec)
    if why:
        due = units.moment(state.feature_level, command.due_at_ms)
        state.put_job(replace(parent, detail=f"skipped the run that was due at {due}: {why}"))
        events.append(JobUpdated(job_id=parent.id))
        return Accepted()
    if parent.spec.overlap is Overlap.REPLACE:
        for child in live_children(state, parent.id):
            cancel(state, events, child, Reason.REPLACED, "the next run has begun")
    _add_child(state, events, parent, command.child_id, element, spec)
    _count_made(state, events, replace(parent, detail=""), element, parent.children.live + 1)
    events.append(JobUpdated(job_id=parent.id))
    if spec.is_parent:
        add_children(state, events, command.child_id)
    return Accepted(subject=command.child_id)


def child_ended(state: ClusterState, events: list[Event], child: Job) -> None:
    """Count a child that has ended; its parent gets the next child, or ends."""
    parent = state.jobs[child.parent]
    count = parent.children
    count = replace(
        count,
        live=count.live - 1,
        succeeded=count.succeeded + (child.state is JobState.SUCCEEDED),
        failed=count.failed + (child.state is JobState.FAILED),
        cancelled=count.cancelled + (child.state is JobState.CANCELLED),
    )
    parent = replace(parent, children=count, spent=parent.spent + child.spent)
    state.put_job(parent)
    events.append(JobUpdated(job_id=parent.id))
    if parent.intent is JobIntent.RUN and 0 <= parent.spec.array.max_failures < count.failed and not parent.spec.cron:
        _end(state, events, _failed(parent))
    elif parent.intent is JobIntent.RUN:
        add_children(state, events, parent.id)
        conclude(state, events, parent.id)
    elif not count.live:
        settle(state, events, parent)


def conclude(state: ClusterState, events: list[Event], parent_id: str) -> None:
    """End an array whose elements have all ended. An element that was cancelled counts as a failure only here."""
    parent = state.jobs[parent_id]
    count = parent.children
    all_ended = count.made == parent.spec.array.size and not count.live
    if not all_ended or parent.spec.cron or parent.state is not JobState.RUNNING or parent.intent is not JobIntent.RUN:
        return
    missing = count.failed + count.cancelled
    settle(state, events, _failed(parent) if missing > max(parent.spec.array.max_failures, 0) else parent)


def cancel(state: ClusterState, events: list[Event], job: Job, reason: str, detail: str = "") -> None:
    """Cancel a live job, and the live children of a parent. One that has done its work only waits for its last
    tasks."""
    if job.intent not in (JobIntent.CANCEL, JobIntent.SUCCEED):
        ending = replace(job, intent=JobIntent.CANCEL, reason=reason, detail=detail, exit_code=None, not_before_ms=0)
        _end(state, events, ending)


def live_children(state: ClusterState, parent_id: str) -> list[Job]:
    """Return the live children in the order in which they were made."""
    return sorted([state.jobs[j] for j in state.relatives.children.get(parent_id, ())], key=lambda job: job.sequence)


def live_namesake(state: ClusterState, tenant: str, name: str) -> Job | None:
    """Return the live job of a name in a tenant; below level 5 names are all tenants' together."""
    is_own = state.feature_level >= FeatureLevel.BOUNDED
    ids = [state.names.id_of(tenant, name)] if is_own else state.names.ids_of(name)
    return next((state.jobs[job_id] for job_id in ids if job_id and not state.jobs[job_id].state.is_final), None)


def kept_name_problem(state: ClusterState, spec: JobSpec) -> str:
    """Return why a job may not have its name: a live parent may still give it to a child."""
    head, _, tail = spec.name.rpartition(".")
    parent = live_namesake(state, spec.tenant, head)
    if parent is None or not parent.spec.is_parent or not tail.isdecimal():
        return ""
    return f"the name {spec.name} is kept for a job that {head} makes: take another name"


def cluster_bound_problem(state: ClusterState, spec: JobSpec) -> str:
    """Return which bound of the cluster a further job would exceed, or an empty string. Of each a tenant may hold as
    much as it leaves free, as of the bytes (size_limits.py)."""
    tasks = spec.task_count
    if len(state.jobs) - len(state.finished) >= MAX_LIVE_JOBS:
        return f"the cluster holds {MAX_LIVE_JOBS} live jobs, its limit"
    if len(state.tasks) + tasks > MAX_TASKS:
        return f"the cluster holds {MAX_TASKS} tasks, its limit"
    if state.feature_level < FeatureLevel.BOUNDED:
        return ""
    held, free = state.counts.live_by_tenant.get(spec.tenant, 0), MAX_LIVE_JOBS - len(state.jobs) + len(state.finished)
    if held >= free:
        return _share_problem(spec.tenant, held, free, f"{MAX_LIVE_JOBS} live jobs")
    held, free = state.counts.tasks_by_tenant.get(spec.tenant, 0), MAX_TASKS - len(state.tasks) - tasks
    return _share_problem(spec.tenant, held, free, f"{MAX_TASKS} tasks") if held and held + tasks > free else ""


def _share_problem(tenant: str, held: int, free: int, bound: str) -> str:
    return (
        f"tenant {tenant} holds {held} of the {bound} that the cluster takes, {free} are left, and a tenant may hold as"
        " many as it leaves"
    )


def _may_have_children(state: ClusterState, parent: Job) -> bool:
    runs = parent.state in (JobState.PENDING, JobState.RUNNING) and parent.intent is JobIntent.RUN
    return runs and not (parent.held or parent.waits_for or parent.begins_later(state.clock_ms))


def _common_spec(parent: Job) -> JobSpec:
    """Return the spec that the children share. The elements of an array share its deadline; each run of a schedule has
    its own."""
    spec = replace(parent.spec, hold=False, after=(), begin_at_ms=0, begin_in_ms=0)
    if spec.cron:
        return replace(spec, cron="", timezone="", overlap=Overlap.UNSPECIFIED)
    return replace(spec, array=Array(), deadline_at_ms=parent.deadline_ms, deadline_in_ms=0)


def _named(common: JobSpec, element: int) -> JobSpec:
    return replace(common, name=f"{common.name}.{element}")


def _child_problem(state: ClusterState, child_id: str, spec: JobSpec) -> str:
    if live_namesake(state, spec.tenant, spec.name) is not None:
        return f"another job named {spec.name} lives: cancel it, or let it end"
    if child_id in state.jobs:
        return f"job id {child_id} is taken"
    return cluster_bound_problem(state, spec) or job_size_problem(state, child_id, spec)


def _add_child(
    state: ClusterState, events: list[Event], parent: Job, child_id: str, element: int, spec: JobSpec
) -> None:
    child = Job(
        id=child_id,
        spec=spec,
        sequence=state.next_sequence,
        submitted_at_ms=state.clock_ms,
        parent=parent.id,
        element=element,
        deadline_missed=parent.deadline_missed,  # told already, once for all that is to come
        user=parent.user,
        authenticated=parent.authenticated,
        traceparent=parent.traceparent,
    )
    add_gang(state, events, child)


def _count_made(state: ClusterState, events: list[Event], parent: Job, made: int, live: int) -> None:
    after = replace(parent, children=replace(parent.children, made=made, live=live))
    if parent.state is JobState.PENDING and made:
        after = replace(after, state=JobState.RUNNING, started_at_ms=state.clock_ms)
        change_job(state, events, parent, after)
    elif after != state.jobs[parent.id]:
        state.put_job(after)


def _run_problem(state: ClusterState, parent: Job, command: RunSchedule) -> str:
    if not parent.spec.cron:
        return f"job {parent.id} is no schedule"
    if parent.state.is_final or parent.intent is not JobIntent.RUN:
        return f"schedule {parent.id} is at its end"
    due = parent.children.next_run_at_ms
    if not due or command.due_at_ms != due:
        return f"the next run of schedule {parent.id} is due at {due} ms, not at {command.due_at_ms} ms"
    if due > state.clock_ms:
        return f"the next run of schedule {parent.id} is due in {due - state.clock_ms} ms"
    if command.next_run_at_ms and command.next_run_at_ms <= due:
        return f"the run after that at {due} ms cannot be at {command.next_run_at_ms} ms"
    return ""


def _skip_reason(state: ClusterState, parent: Job) -> str:
    """Return why a schedule has no run now, or an empty string."""
    live = parent.children.live
    if not _may_have_children(state, parent):
        return "it was held, suspended, or waited for other jobs"
    if parent.spec.overlap is Overlap.FORBID and live:
        return "the run before it has not ended"
    if live >= max_live_children(parent.spec, state.feature_level):
        return f"{live} runs live, as many as may"
    return ""


def _failed(parent: Job) -> Job:
    count, size = parent.children, parent.spec.array.size
    cancelled = f", {count.cancelled} were cancelled" if count.cancelled else ""
    return replace(
        parent,
        intent=JobIntent.FAIL,
        reason=Reason.ELEMENTS_FAILED,
        detail=f"{count.failed} of {size} elements failed{cancelled}",
        not_before_ms=0,
    )


def _end(state: ClusterState, events: list[Event], job: Job) -> None:
    """End the job, as given with its intent, as soon as its tasks or its children have ended."""
    if job.active:
        stop_all(state, events, job, job.reason)
    elif not job.children.live:
        settle(state, events, job)
    else:
        state.put_job(job)
        if state.feature_level >= FeatureLevel.BOUNDED:
            add_follow_up(state, job.id, FollowUpKind.CANCEL)
            return
        for child in live_children(state, job.id):
            cancel(state, events, child, job.reason, f"with {job.spec.name}, whose part it is")
