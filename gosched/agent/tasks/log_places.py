"""Where the log of an allocation is: in its own directory, then among the kept logs, then nowhere.

Invariant: a reader that asks for the place before each look misses nothing while the log is moved.
"""

from __future__ import annotations

from pathlib import Path

from gosched.agent.logs import kept_log
from gosched.agent.logs.kept import KeptLogs
from gosched.agent.logs.kept_log import KeptLog
from gosched.agent.tasks.task import Task
from gosched.core.commands.nodes import TaskReport


class LogPlace:
    """The place of one log. `task` None: only the kept logs know of it."""

    def __init__(self, allocation_id: str, task: Task | None, kept_logs: KeptLogs) -> None:
        self._allocation_id = allocation_id
        self._task = task
        self._kept_logs = kept_logs

    @property
    def task_id(self) -> str:
        kept = self._kept_logs.find(self._allocation_id)
        return self._task.order.task_id if self._task is not None else kept.task_id if kept is not None else ""

    def has_ended(self) -> bool:
        return self._task is None or self._task.ending is not None

    def path(self) -> Path:
        if self._task is not None and self._task.spool.logs.is_dir():
            return self._task.spool.logs
        return self._kept_logs.place(self._allocation_id)

    def why_missing(self) -> str:
        """Return why there is nothing to read, in one line; empty: there is, or may be soon."""
        task = self._task
        if task is None or task.ending is None:
            return self._kept_logs.why_missing(self._allocation_id) if task is None else ""
        if task.spool.logs.is_dir():
            has_any = bool(kept_log.files(task.spool.logs)) or task.ending.started_at_ms
            return "" if has_any else _never_started(task.ending)
        if self._kept_logs.find(self._allocation_id) is None and not task.ending.started_at_ms:
            return _never_started(task.ending)
        return self._kept_logs.why_missing(self._allocation_id)


def kept_log_of(task: Task, ending: TaskReport) -> KeptLog:
    """Return the record of an ended task's log."""
    has_output = bool(ending.started_at_ms) or bool(kept_log.files(task.spool.logs))
    return KeptLog(
        allocation_id=task.order.allocation_id,
        task_id=task.order.task_id,
        job_id=task.order.job_id,
        ended_at_ms=ending.ended_at_ms,
        has_started=has_output,
        detail=ending.detail or ending.reason,
    )


def _never_started(ending: TaskReport) -> str:
    return f"the task did not start: {ending.detail or ending.reason or 'it was ended before'}"
