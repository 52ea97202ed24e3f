"""Compares what should be on a node with what its agent saw there. Pure: a state and a heartbeat in, a verdict out.

Invariant: a start is ordered only for an allocation that is PLACED and of which the agent has no record; what was seen
to run or to end is never started again. What a live task uses, and whether it is frozen, does not enter the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gosched.core.commands.nodes import TaskReport
from gosched.core.reasons import Reason
from gosched.core.records.task import TaskState
from gosched.core.records.usage import NO_USAGE
from gosched.core.state.cluster_state import ClusterState
from gosched.master.agents.orders import stop_order

CHECKPOINT_EVERY_MS = 1000  # at most so often a job's checkpoint gets into the log


@dataclass(slots=True)
class Verdict:
    """What a heartbeat calls for. But for `reports`, ids of allocations."""

    #: What is new, for the log.
    reports: list[TaskReport] = field(default_factory=list)
    start: list[str] = field(default_factory=list)
    stop: list[str] = field(default_factory=list)
    forget: list[str] = field(default_factory=list)
    #: Run there, and the cluster does not know them.
    leftovers: list[str] = field(default_factory=list)
    #: Should run there, and were not seen.
    missing: list[str] = field(default_factory=list)
    freeze: list[str] = field(default_factory=list)
    thaw: list[str] = field(default_factory=list)


def compare(
    state: ClusterState, node_id: str, observed: Sequence[TaskReport], missing_before: Sequence[str] = ()
) -> Verdict:
    """Compare the state with what was observed. `missing_before`: of the heartbeat before this one. A task counts as
    lost when two in a row do not name it: one alone may have been overtaken on its way."""
    verdict = Verdict()
    held = state.node_allocations.get(node_id, {})
    seen: Mapping[str, TaskReport] = {o.allocation_id: o for o in observed}
    for observation in seen.values():
        if observation.allocation_id in held:
            _expected(verdict, state, observation)
        elif observation.state.is_final:
            verdict.forget.append(observation.allocation_id)
        else:
            verdict.leftovers.append(observation.allocation_id)
    for allocation_id in held:
        if allocation_id not in seen:
            _unseen(verdict, state, allocation_id, missing_before)
    return verdict


def _expected(verdict: Verdict, state: ClusterState, observation: TaskReport) -> None:
    task = state.tasks[state.allocations[observation.allocation_id].task_id]
    if observation.state.is_final:
        verdict.reports.append(replace(observation, frozen=False))
    elif task.state is TaskState.STOPPING:
        if observation.state is not TaskState.STOPPING or _saves_in_vain(state, observation):
            verdict.stop.append(observation.allocation_id)
        elif _saved_since(state, observation):
            verdict.reports.append(_without_figures(observation))
    else:
        if task.state < observation.state <= TaskState.RUNNING or _saved_since(state, observation):
            verdict.reports.append(_without_figures(observation))
        _compare_frozen(verdict, state, observation)


def _without_figures(observation: TaskReport) -> TaskReport:
    """Return the report of a live task for the log."""
    return replace(observation, usage=NO_USAGE, frozen=False)


def _compare_frozen(verdict: Verdict, state: ClusterState, observation: TaskReport) -> None:
    """Order a task frozen or thawed as its job is; one that is stopping is left alone."""
    should = state.jobs[state.allocations[observation.allocation_id].job_id].frozen
    if should is not observation.frozen and observation.state is not TaskState.STOPPING:
        (verdict.freeze if should else verdict.thaw).append(observation.allocation_id)


def _saved_since(state: ClusterState, observation: TaskReport) -> bool:
    """Return whether it saved itself later than the log knows of its job. The members of a gang save themselves
    together: one reports for all."""
    known_ms = state.jobs[state.allocations[observation.allocation_id].job_id].checkpoint_at_ms
    return observation.checkpoint_at_ms >= known_ms + CHECKPOINT_EVERY_MS


def _saves_in_vain(state: ClusterState, observation: TaskReport) -> bool:
    """Return whether it takes time to save itself, and its checkpoint is not needed any more: its job is cancelled,
    say."""
    if observation.reason != Reason.SAVING:
        return False
    return not stop_order(state, state.allocations[observation.allocation_id]).checkpoint_signal


def _unseen(verdict: Verdict, state: ClusterState, allocation_id: str, missing_before: Sequence[str]) -> None:
    task = state.tasks[state.allocations[allocation_id].task_id]
    if task.state is TaskState.PLACED:
        verdict.start.append(allocation_id)
    elif task.state is TaskState.STOPPING:
        verdict.stop.append(allocation_id)
    elif allocation_id in missing_before:
        verdict.reports.append(
            TaskReport(
                allocation_id=allocation_id,
                state=TaskState.LOST,
                reason=Reason.NODE_LOST,
                detail="the agent has no record of the task any more",
            )
        )
    else:
        verdict.missing.append(allocation_id)
