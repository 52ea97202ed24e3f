"""What follows from a command for dependents and children, a bounded part of it with each command.

A command that finds nothing left from before does some of it at once, so small families behave as if there were no
bound; the rest is for `PassTime`, which the leader proposes until nothing is left. Jobs take turns: one with thousands
of children does not hold up what follows from another.

Invariant: what is left is in `state.follow_ups`, and one command does no more than its steps of it. A step is a task
of a job that is made or changed; a single job is done whole.
"""

from __future__ import annotations

from itertools import islice

from gosched.core.events import Event, JobChanged
from gosched.core.records.follow_up import FollowUp, FollowUpKind, FollowUpStep
from gosched.core.records.job import Job
from gosched.core.replace import replace
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import children, dependencies, job_control, retention
from gosched.state_machine.changes import add_follow_up

STEPS_AT_ONCE = 64  # by the command that they follow from
STEPS_PER_TICK = 500  # by PassTime
TURN = 100  # before another job has its turn


def take_events(state: ClusterState, events: list[Event], *, steps: int) -> None:
    """Count the jobs that have ended, and do up to `steps` of all that is left to do."""
    seen, arrays = 0, dict[str, None]()
    while True:
        while seen < len(events):  # they grow meanwhile
            event = events[seen]
            seen += 1
            if isinstance(event, JobChanged) and event.after.is_final:
                job = state.jobs[event.job_id]
                _ended(state, events, job)
                arrays |= {job.parent: None} if job.is_element else {}
        if steps <= 0 or not state.follow_ups:
            break
        steps -= _turn(state, events, next(iter(state.follow_ups.values())), min(steps, TURN))
    for array in arrays:  # now that all of its elements that have ended are counted
        retention.fold_elements(state, events, array)


def _ended(state: ClusterState, events: list[Event], job: Job) -> None:
    if job.id in state.relatives.dependents:
        add_follow_up(state, job.id, FollowUpKind.DEPENDENTS)
    if job.parent:
        children.child_ended(state, events, job)


def _turn(state: ClusterState, events: list[Event], follow_up: FollowUp, steps: int) -> int:
    """Do some of a job's first step, then put the job at the end of the line. Return how many steps it took."""
    step, *rest = follow_up.steps
    state.drop_follow_up(follow_up.job_id)
    done, left = _do(state, events, state.jobs[follow_up.job_id], step, steps)
    remaining = rest if left is None else [left, *rest]
    if remaining:
        state.put_follow_up(FollowUp(job_id=follow_up.job_id, steps=tuple(remaining)))
    return max(done, 1)


def _do(
    state: ClusterState, events: list[Event], job: Job, step: FollowUpStep, steps: int
) -> tuple[int, FollowUpStep | None]:
    """Return how many steps it took, and what is left of it."""
    if step.kind is FollowUpKind.FILL:
        made, more = children.make_children(state, events, job.id, steps)
        return made, step if more else None
    dependents = step.kind is FollowUpKind.DEPENDENTS
    family = (state.relatives.dependents if dependents else state.relatives.children).get(job.id, {})
    chosen = [*islice((state.jobs[j] for j in family if state.jobs[j].sequence > step.after), steps)]
    done = 0
    for relative in chosen:
        if done >= steps:
            return done, step
        if dependents:
            dependencies.dependency_ended(state, events, relative, job)
        elif step.kind is FollowUpKind.CANCEL:
            children.cancel(state, events, relative, job.reason, f"with {job.spec.name}, whose part it is")
        else:
            job_control.to_child(state, events, step.kind, relative)
        step = replace(step, after=relative.sequence)
        done += max(1, relative.spec.task_count)
    return done, step if len(chosen) == steps else None
