"""Events of single tasks: only where something went wrong."""

from __future__ import annotations

from gosched.core.events import TaskChanged
from gosched.core.records.task import TaskState
from gosched.core.state.cluster_state import ClusterState
from gosched.master.history.draft import Draft
from gosched.master.history.kinds import Kind
from gosched.master.history.words import because


def failed(state: ClusterState, event: TaskChanged) -> Draft:
    task = event.task
    lost = event.after is TaskState.LOST
    code = "" if task is None or task.exit_code is None else f" with exit code {task.exit_code}"
    where = f" on {event.node_id}" if event.node_id else ""
    what = f"was lost{where}" if lost else f"failed{where}{code}"
    line = f"task {_short(event)} {what}{because(event.reason, task.detail if task else '')}"
    return _draft(state, Kind.TASK_LOST if lost else Kind.TASK_FAILED, event, line)


def moved(state: ClusterState, event: TaskChanged) -> Draft:
    where = f" on {event.node_id}" if event.node_id else ""
    line = f"task {_short(event)} has lost its place{where}, and waits for another"
    return _draft(state, Kind.TASK_MOVED, event, line)


def _draft(state: ClusterState, kind: Kind, event: TaskChanged, line: str) -> Draft:
    return Draft(
        kind,
        line,
        job=state.jobs.get(event.job_id),
        job_id=event.job_id,
        attempt=event.task.attempt if event.task else 0,
        task_id=event.task_id,
        node_id=event.node_id,
        code=event.reason,
    )


def _short(event: TaskChanged) -> str:
    """Return the task's name within its job, such as worker/3."""
    return event.task_id.removeprefix(f"{event.job_id}/")
