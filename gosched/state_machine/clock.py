"""The state's clock: what a command's stamp does to it, and how it is set back.

Invariant: no stamp moves it back, nor forward by more than MAX_CLOCK_STEP_MS; only SetClock does.

When it is set back, each moment that it has stamped later than the new time is earlier by the same span: a wait, a
timeout or a drain has as long to go as before. What was stamped earlier is right as it is, and so is what people named:
the begin and the deadline of a job, the times of a window.
"""

from __future__ import annotations

from typing import Any

from gosched.core.commands.cluster import SetClock
from gosched.core.events import ClockSet, Event
from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_CLOCK_STEP_MS
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.records.job import Job
from gosched.core.replace import replace
from gosched.core.rules.finding import text_of
from gosched.core.rules.values import check_moment
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import answers

# Table -> the moments of its records, in groups: the first one says when the others of its group were reckoned.
STAMPED: dict[str, tuple[tuple[str, ...], ...]] = {
    "nodes": (("registered_at_ms",), ("changed_at_ms",), ("drain_by_ms",)),
    "accounts": (("at_ms",),),
    "tenants": (("created_at_ms",),),
    "jobs": (
        ("submitted_at_ms",),
        ("not_before_ms",),
        ("started_at_ms",),
        ("ended_at_ms",),
        ("end_known_at_ms",),
        ("failed_at_ms",),
        ("lost_at_ms",),
        ("member_failed_at_ms",),
        ("requeued_at_ms",),
        ("placed_at_ms", "until_ms"),
        ("checkpoint_at_ms",),
    ),
    "tasks": (("placed_at_ms",), ("started_at_ms",), ("ended_at_ms",)),
    "allocations": (("placed_at_ms",),),
    "fences": (("made_at_ms", "until_ms", "by_ms"), ("not_before_ms",)),
    "reservations": (("made_at_ms", "start_ms", "end_ms"),),
    "tokens": (("created_at_ms", "expires_at_ms"),),
    "secrets": (("changed_at_ms",),),
    "revocations": (("at_ms",),),
    "join_tokens": (("created_at_ms", "expires_at_ms"), ("used_at_ms",)),
    "joined_nodes": (("joined_at_ms",),),
}


def moved(state: ClusterState, at_ms: int) -> int:
    """Return the clock after a stamp. One that is too far ahead is not believed; SetClock is."""
    ahead_ms = at_ms - state.clock_ms
    bounded = state.feature_level >= FeatureLevel.BOUNDED and state.clock_ms  # 0: it was never set
    return state.clock_ms if ahead_ms <= 0 or (bounded and ahead_ms > MAX_CLOCK_STEP_MS) else at_ms


def set_clock(state: ClusterState, command: SetClock, events: list[Event]) -> Outcome:
    """Set the clock. Back, it costs a look at every record: no leader does that unasked."""
    found = check_moment("the clock", command.to_ms)
    for run in command.runs:
        found = found or check_moment("the next run of a schedule at", run.at_ms)
    if found or not command.to_ms:
        return Rejected(code=Code.INVALID, detail=text_of(found) or "the clock cannot be set to nothing")
    from_ms, to_ms = state.clock_ms, command.to_ms
    if to_ms < from_ms:
        _set_back_records(state, to_ms, from_ms - to_ms)
        _set_back_jobs(state, command)
        answers.follow_back(state, from_ms, to_ms)
        events.append(ClockSet(from_ms=from_ms, to_ms=to_ms))
    state.set_clock(to_ms)
    return Accepted(subject=str(from_ms), unchanged=from_ms == to_ms)


def _set_back_records(state: ClusterState, to_ms: int, by_ms: int) -> None:
    for table, groups in STAMPED.items():
        records: dict[str, Any] = getattr(state, table)
        for key, record in records.items():
            late = [name for group in groups if getattr(record, group[0]) > to_ms for name in group]
            if late:
                moments = {name: max(getattr(record, name) - by_ms, 1) for name in late if getattr(record, name)}
                state.put_moments(table, key, replace(record, **moments))


def _set_back_jobs(state: ClusterState, command: SetClock) -> None:
    """Give schedules their next runs; a deadline that is still to come has not been missed, and a job that has not
    started waits for its begin."""
    runs = {run.job_id: run.at_ms for run in command.runs}
    for job in state.jobs.values():
        after = job
        if job.deadline_missed and not job.state.is_final and job.deadline_ms > command.to_ms:
            after = replace(after, deadline_missed=False)
        if not job.state.is_final and job.begins_later(command.to_ms):
            after = replace(after, not_before_ms=job.begin_ms)
        if job.id in runs and _has_runs(job):
            after = replace(after, children=replace(job.children, next_run_at_ms=runs[job.id]))
        if after is not job:
            state.put_moments("jobs", job.id, after)


def _has_runs(job: Job) -> bool:
    return bool(job.spec.cron and job.children.next_run_at_ms) and not job.state.is_final
