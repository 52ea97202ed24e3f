"""Tasks: what agents report of them, and how one ends.

Invariant: the state of a task only moves forward, and its end frees what it held in the same step.
"""

from __future__ import annotations

from gosched.core.commands.nodes import ReportTasks, TaskReport
from gosched.core.events import Event, JobUpdated
from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.records.job import Job, JobIntent
from gosched.core.records.node import NodeState
from gosched.core.records.task import Task, TaskState
from gosched.core.replace import replace
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import node_control
from gosched.state_machine.accounts import bring_up, take_back
from gosched.state_machine.changes import change_task, count_change
from gosched.state_machine.evictions import can_spare, is_evicted_alone
from gosched.state_machine.gangs import after_ends, give_back, is_of_lost_order, wait_for_another_place
from gosched.state_machine.size_limits import affordable
from gosched.state_machine.spending import charge, sane, spent_by, work_of


def report(state: ClusterState, command: ReportTasks, events: list[Event]) -> Outcome:
    """Take reports of an agent. Those on allocations that the node does not hold (any more) are ignored."""
    node = state.nodes.get(command.node_id)
    sender = (command.incarnation, command.registration)
    if node is None or node.state is NodeState.DEAD or (node.incarnation, node.registration) != sender:
        detail = f"node {command.node_id!a} is not alive under this incarnation: register again"
        return Rejected(code=Code.STALE_INCARNATION, detail=detail)
    ended: dict[str, Task | None] = {}
    blamed_for = ""
    for seen in command.reports:
        allocation = state.allocations.get(seen.allocation_id)
        if allocation is None or allocation.node_id != node.id:
            continue
        task = state.tasks[allocation.task_id]
        if seen.checkpoint_at_ms > 0:
            _note_checkpoint(state, events, state.jobs[task.job_id], seen.checkpoint_at_ms)
        if seen.state.is_final:
            end_task(state, events, task, seen, ended)
            blamed_for = node_control.count_end(state, node.id, state.jobs[task.job_id], seen) or blamed_for
        elif seen.state.is_active and seen.state > task.state:
            _progress(state, events, task, seen)
    after_ends(state, events, ended)
    node_control.after_ends(state, events, node.id, blamed_for)
    return Accepted(unchanged=not events)


def end_task(
    state: ClusterState, events: list[Event], task: Task, seen: TaskReport, ended: dict[str, Task | None]
) -> None:
    """End a task, free what it held, and note it in `ended` for `after_ends`. An elastic task that was evicted alone
    waits for another place, however it ended, unless it succeeded; where tasks come and go, one that succeeded
    waits, too, if the gang can spare it."""
    job = state.jobs[task.job_id]
    evicted = is_evicted_alone(job, task) or (is_of_lost_order(state, job, seen) and can_spare(state, job, [task]))
    gives_back = _comes_and_goes(job, seen, task.group) and (evicted or can_spare(state, job, [task]))
    started_at_ms, ended_at_ms = _times(state, task, seen)
    after = replace(
        task,
        state=TaskState.KILLED if evicted and seen.state is not TaskState.SUCCEEDED else seen.state,
        reason=seen.reason[:MAX_NAME_LENGTH] or task.reason,
        detail=affordable(state, seen.detail),
        started_at_ms=started_at_ms,
        ended_at_ms=ended_at_ms or state.clock_ms,
        exit_code=seen.exit_code,
        usage=sane(seen.usage),
    )
    bring_up(state, job.spec)
    if state.feature_level >= FeatureLevel.BOUNDED:
        take_back(state, job.spec, state.allocations[task.allocation_id], after.ended_at_ms)
    spent = spent_by(state, after, state.allocations[task.allocation_id])
    charge(state, job.spec.tenant, spent)
    work = work_of(task, after, job, state.allocations[task.allocation_id])
    state.drop_allocation(task.allocation_id)
    change_task(state, events, task, after, work)
    count_change(state, task.job_id, task.state, after.state, spent)
    if evicted and after.state is TaskState.KILLED:
        wait_for_another_place(state, events, after)
    elif gives_back:
        give_back(state, events, after, evicted=evicted)
    explains = job.failed_at_ms and after.state is TaskState.LOST  # it may, why the others failed
    if ended.get(task.job_id) is None or explains:
        ended[task.job_id] = None if evicted or after.state is TaskState.SUCCEEDED else after


def _times(state: ClusterState, task: Task, seen: TaskReport) -> tuple[int, int]:
    """Return when the task started and when it ended, by its node's clock, as far as that can be true: not before its
    placement, nor after now. 0: it has not, or the node does not say."""
    started_at_ms, ended_at_ms = seen.started_at_ms or task.started_at_ms, seen.ended_at_ms
    if state.feature_level < FeatureLevel.BOUNDED:
        return started_at_ms, ended_at_ms
    if started_at_ms:
        started_at_ms = min(max(started_at_ms, task.placed_at_ms), state.clock_ms)
    if ended_at_ms:
        ended_at_ms = min(max(ended_at_ms, started_at_ms, task.placed_at_ms), state.clock_ms)
    return started_at_ms, ended_at_ms


def _comes_and_goes(job: Job, ended: TaskReport, group: str) -> bool:
    """Return whether a task of the group that has succeeded may be wanted again."""
    gang = job.spec.gang
    is_one = bool(gang.initial_tasks) and group != gang.ends_with and job.intent is JobIntent.RUN
    return is_one and ended.state is TaskState.SUCCEEDED


def _note_checkpoint(state: ClusterState, events: list[Event], job: Job, at_ms: int) -> None:
    """Note that the job's work up to then is safe. The clock of a node may run ahead of ours."""
    at_ms = min(at_ms, state.clock_ms)
    if at_ms > job.checkpoint_at_ms:
        state.put_job(replace(job, checkpoint_at_ms=at_ms))
        events.append(JobUpdated(job_id=job.id))


def _progress(state: ClusterState, events: list[Event], task: Task, seen: TaskReport) -> None:
    after = replace(task, state=seen.state, started_at_ms=_times(state, task, seen)[0])
    change_task(state, events, task, after)
    count_change(state, task.job_id, task.state, after.state)
