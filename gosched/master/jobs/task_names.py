"""The tasks that a caller names: `worker/3`, a whole id, or `3` where the job has one group."""

from __future__ import annotations

from gosched.core.records.job import Job
from gosched.core.records.task import Task
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.errors import invalid, not_found

GROUPS_SHOWN = 5  # in an error
MAX_NAME = 200  # characters of it that are said again


def named_tasks(state: ClusterState, job: Job, wanted: str) -> list[Task]:
    """Return the tasks of that name; all, where it is empty. Raises ApiError."""
    tasks = state.tasks_of(job)
    name = _with_group(job, wanted)
    found = [task for task in tasks if not name or name in (task.id, f"{task.group}/{task.index}")]
    if not found:
        groups = [f"{group.name}/0 to {group.name}/{group.count - 1}" for group in job.spec.groups[:GROUPS_SHOWN]]
        raise not_found(f"job {job.spec.name} has no task {wanted[:MAX_NAME]!a}; it has {', '.join(groups)}")
    return found


def _with_group(job: Job, wanted: str) -> str:
    """Return `worker/3` for `3`. Raises ApiError where the job has several groups."""
    if not (wanted.isascii() and wanted.isdigit()):
        return wanted
    first, *others = [group.name for group in job.spec.groups]
    number = int(wanted[:MAX_NAME])
    if others:
        raise invalid(f"job {job.spec.name} has {len(others) + 1} groups of tasks: name one, such as {first}/{number}")
    return f"{first}/{number}"
