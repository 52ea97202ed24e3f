"""Timeouts, deadlines and drains: what was due for a job or a node happens.

Invariant: what is handled here is what `core.state.timers` says is due, so no timer comes up twice for the same thing.
"""

from __future__ import annotations

from gosched.core.events import DeadlineMissed, Event
from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_TASKS_PER_JOB
from gosched.core.outcome import Accepted, Outcome
from gosched.core.reasons import Reason
from gosched.core.records.job import Job, JobIntent
from gosched.core.replace import replace
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.timers import TimerKind, deadline_ms, overrun_ms, patience_ms, refill_ms, timeout_ms
from gosched.state_machine import units
from gosched.state_machine.children import add_children
from gosched.state_machine.gangs import settle, stop_all
from gosched.state_machine.node_control import drain_over
from gosched.state_machine.run_times import overran
from gosched.state_machine.windows import forget_ended

MAX_AT_ONCE = 10_000  # below level 5, with MAX_TASKS_PER_JOB tasks
MAX_PER_TICK = 1_000  # jobs and nodes, or their tasks


def pass_time(state: ClusterState, events: list[Event]) -> Outcome:
    """Do what is due for a bounded number of jobs, nodes and tasks; the others stay due."""
    forget_ended(state, events)
    is_bounded = state.feature_level >= FeatureLevel.BOUNDED
    most, most_tasks = (MAX_PER_TICK, MAX_PER_TICK) if is_bounded else (MAX_AT_ONCE, MAX_TASKS_PER_JOB)
    tasks = 0
    for _ in range(most):
        subject = state.pop_due()
        if subject is None:
            break
        if subject.kind is TimerKind.NODE:
            tasks += drain_over(state, events, subject.id)
        elif subject.kind is TimerKind.FENCE:
            fence = state.fences[subject.id]  # it starts as the follow-up of this command, or of the end of its victims
            state.put_moments("fences", fence.job_id, replace(fence, not_before_ms=0))
            tasks += len(fence.tasks)
        else:
            tasks += state.jobs[subject.id].spec.task_count
            _due(state, events, subject.id)
        if tasks >= most_tasks:
            break
    return Accepted(unchanged=not events and not state.follow_ups)


def _due(state: ClusterState, events: list[Event], job_id: str) -> None:
    """Do all that is due for the job. It is put in any case, which sets its next timer."""
    now = state.clock_ms
    job = state.jobs[job_id]
    if 0 < deadline_ms(job) <= now:
        job = replace(job, deadline_missed=True)
        events.append(DeadlineMissed(job_id=job.id, queue=job.spec.queue))
    if 0 < overrun_ms(job) <= now:
        job = overran(state, job)
    state.put_job(job)
    if 0 < timeout_ms(job) <= now:
        detail = f"it ran for its timeout of {units.duration(state.feature_level, job.spec.timeout_ms)}"
        stop_all(state, events, _failing(job, Reason.TIMEOUT, detail), Reason.TIMEOUT)
    elif 0 < patience_ms(job) <= now:
        patience = units.duration(state.feature_level, job.spec.gang.wait_ms)
        detail = f"it found no place within its gang.wait of {patience}"
        settle(state, events, _failing(job, Reason.GANG_WAIT_TIMEOUT, detail))
    elif 0 < refill_ms(job) <= now:
        state.put_job(replace(job, not_before_ms=0))
        add_children(state, events, job_id)


def _failing(job: Job, reason: Reason, detail: str) -> Job:
    return replace(job, intent=JobIntent.FAIL, reason=reason, detail=detail, exit_code=None)
