"""What an applied command makes in the history: events for people, rows of attempts, rows of jobs that have ended.

A gang has one event for its placement and one for its start, however many tasks it has; a task has events only where
something went wrong with it. What each task did is in the rows of the attempts.

Invariant: pure. What comes out depends on the command, its events and the state right after it, which are the same on
each master; never on how commands were batched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gosched.api.history import HistoryEvent
from gosched.core.commands.cluster import Noop, PassTime
from gosched.core.events import (
    AccessChanged,
    ClockSet,
    DeadlineMissed,
    EpochOpened,
    FenceChanged,
    JobChanged,
    JobEvicted,
    JobFrozen,
    JobUpdated,
    NodeChanged,
    NodeJoined,
    QueuesChanged,
    ReservationChanged,
    TaskChanged,
    WaitReasonNoted,
    WindowsChanged,
)
from gosched.core.records.job import Job, JobState
from gosched.core.records.task import Task
from gosched.core.state.cluster_state import ClusterState
from gosched.master.history import cluster_events, job_events, task_events
from gosched.master.history.draft import Draft, JobTasks
from gosched.master.history.words import node_name
from gosched.replication.interface import AppliedCommand

MAX_TASK_EVENTS = 10  # of one job, by one command; the rows of the attempt have all
_QUIET = (Noop, PassTime)  # without events they make nothing


@dataclass(frozen=True, slots=True)
class EndedTask:
    """A start of a task that has ended."""

    task: Task
    node_name: str


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """A start of a gang that has ended."""

    #: As it was then.
    was: Job
    #: As it is after it.
    job: Job


@dataclass(frozen=True, slots=True)
class Derived:
    """All that one command makes."""

    revision: int
    at_ms: int
    events: tuple[HistoryEvent, ...] = ()
    tasks: tuple[EndedTask, ...] = ()
    attempts: tuple[EndedAttempt, ...] = ()
    #: Jobs that have ended.
    jobs: tuple[Job, ...] = ()


def derive(state: ClusterState, applied: AppliedCommand) -> Derived | None:
    """Return what the command makes; None: nothing. `state` is the one right after it."""
    if not applied.events and isinstance(applied.command.body, _QUIET):
        return None
    drafts = [*_drafts(state, applied)]
    tasks = [
        EndedTask(event.task, node_name(state, event.task.node_id))
        for event in applied.events
        if isinstance(event, TaskChanged) and event.task is not None and _has_ended(event)
    ]
    changes = [event for event in applied.events if isinstance(event, JobChanged)]
    attempts = [EndedAttempt(e.was, e.job) for e in changes if e.was and e.job and _ends_attempt(e.was, e)]
    jobs = [event.job for event in changes if event.job is not None and event.after.is_final]
    if not (drafts or tasks or attempts or jobs):
        return None
    revision, at_ms = applied.revision, applied.at_ms
    events = [draft.event(revision, number, at_ms) for number, draft in enumerate(drafts)]
    return Derived(revision, at_ms, tuple(events), tuple(tasks), tuple(attempts), tuple(jobs))


def _drafts(state: ClusterState, applied: AppliedCommand) -> Iterator[Draft]:
    """Yield the events in the order in which people tell them: a task fails before its job does."""
    yield from cluster_events.of_command(state, applied)
    yield from job_events.of_command(state, applied)
    tasks = _tasks_by_job(applied)
    changed = {event.job_id for event in applied.events if isinstance(event, JobChanged)}
    evicted = {event.job_id for event in applied.events if isinstance(event, JobEvicted)}
    for job_id, of_job in tasks.items():
        yield from _of_tasks(state, job_id, of_job, is_evicted=job_id in evicted, goes_on=job_id not in changed)
    for event in applied.events:
        match event:
            case JobChanged():
                yield from job_events.changed(state, event, tasks.get(event.job_id))
            case NodeChanged():
                yield from cluster_events.node_changed(event)
            case JobEvicted():
                yield job_events.evicted(state, event)
            case FenceChanged():
                yield from job_events.fence_changed(state, event)
            case ReservationChanged():
                yield from job_events.reservation_changed(state, event, starts=event.job_id in changed)
            case DeadlineMissed():
                yield job_events.deadline_missed(state, event)
            case JobFrozen():
                yield job_events.frozen(state, event)
            case WaitReasonNoted():
                yield job_events.queued(state, event)
            case EpochOpened():
                yield cluster_events.epoch_opened(event)
            case WindowsChanged():
                yield cluster_events.windows_changed(applied.command.body)
            case NodeJoined():
                yield cluster_events.node_certified(event)
            case ClockSet():
                yield cluster_events.clock_set(event)
            case TaskChanged() | QueuesChanged() | AccessChanged() | JobUpdated():
                pass


def _of_tasks(state: ClusterState, job_id: str, tasks: JobTasks, *, is_evicted: bool, goes_on: bool) -> Iterator[Draft]:
    shown = 0
    for event in tasks.ended:
        if shown < MAX_TASK_EVENTS and event.after.is_failure:
            yield task_events.failed(state, event)
            shown += 1
    for event in tasks.moved if goes_on else ():
        if shown < MAX_TASK_EVENTS:
            yield task_events.moved(state, event)
            shown += 1
    if tasks.stopping and not is_evicted:
        yield job_events.stopping(state, job_id, tasks.stopping)
    if tasks.started:
        yield from job_events.started(state, job_id, tasks)
    if tasks.placed and goes_on:
        yield job_events.joined(state, job_id, tasks.placed)


def _tasks_by_job(applied: AppliedCommand) -> dict[str, JobTasks]:
    found: dict[str, JobTasks] = {}
    for event in applied.events:
        if isinstance(event, TaskChanged):
            of_job = found.get(event.job_id)
            if of_job is None:
                of_job = found[event.job_id] = JobTasks()
            of_job.take(event)
    return found


def _has_ended(event: TaskChanged) -> bool:
    return event.before.is_active and event.after.is_final


def _ends_attempt(was: Job, event: JobChanged) -> bool:
    return was.placed_at_ms > 0 and event.before is JobState.RUNNING and not was.spec.is_parent
