"""Watches a task's supervisor, from its start to its end, and decides what became of a task that lost it.

Invariant: how a task ended is what its supervisor recorded; only where there is no such record the agent decides, and
not before what is left of the task is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import structlog

from gosched.agent.cgroups import files as cgroup_files
from gosched.agent.supervisor import commands
from gosched.agent.tasks.line import Line
from gosched.agent.tasks.processes import boot_id, kill_marked
from gosched.agent.tasks.task import Task
from gosched.core.commands.nodes import TaskReport
from gosched.core.reasons import Reason
from gosched.core.records.usage import NO_USAGE, Usage

CLEAN_UP_S = 30.0
ASK_AGAIN_S = 10.0

_POLL_MIN_S = 0.004
_POLL_MAX_S = 0.1


class Following:
    """Watches all tasks that have not ended.

    `on_change` is called whenever the masters should learn of a task, `on_start` with a task that has started, and
    `on_end` with one that has ended. `joined` is set once the masters have let this node in: until then it may be a
    copy of the node whose tasks run here.
    """

    def __init__(
        self,
        node_id: str,
        joined: asyncio.Event,
        on_change: Callable[[], None],
        on_start: Callable[[Task], None],
        on_end: Callable[[Task], None],
    ) -> None:
        self._joined = joined
        self.changed = on_change
        self._on_start = on_start
        self._on_end = on_end
        self._followers: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger().bind(node=node_id)

    def follow(self, task: Task) -> None:
        self._watch(self._to_the_end(task))
        if task.may_save:
            self.follow_saving(task)

    def follow_saving(self, task: Task) -> None:
        self._watch(self._saving(task))

    def follow_freezing(self, task: Task) -> None:
        self._watch(self._freezing(task))

    def end(self, task: Task, ending: TaskReport) -> None:
        """End a task, once what it did last is read from its directory."""
        self._look_at_start(task)  # it may have ended before it was looked at
        task.checkpoint_at_ms = max(task.checkpoint_at_ms, task.spool.checkpoint_at_ms())
        self._look_at_saving(task)
        self.end_unstarted(task, ending)

    def end_unstarted(self, task: Task, ending: TaskReport) -> None:
        """End a task without reading its directory, which may not be there."""
        task.ending = ending
        task.frozen = False
        self._on_end(task)
        self.logger(task).info(
            "task ended",
            state=ending.state.name,
            exit_code=ending.exit_code,
            reason=ending.reason,
            why=ending.detail,
            at=_shown(ending.ended_at_ms),
        )
        self.changed()

    async def close(self) -> None:
        """Stop watching. The tasks go on."""
        followers = list(self._followers)
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)

    def logger(self, task: Task) -> structlog.stdlib.BoundLogger:
        logger: structlog.stdlib.BoundLogger = self._log.bind(
            job=task.order.job_id, task=task.order.task_id, allocation=task.order.allocation_id
        )
        return logger

    def _watch(self, watching: Coroutine[Any, Any, None]) -> None:
        follower = asyncio.create_task(watching)
        self._followers.add(follower)
        follower.add_done_callback(self._on_done)

    def _on_done(self, follower: asyncio.Task[None]) -> None:
        self._followers.discard(follower)
        if not follower.cancelled() and (error := follower.exception()) is not None:
            self._log.error("a task is no longer watched; restart the agent to adopt it", exc_info=error)

    async def _to_the_end(self, task: Task) -> None:
        if task.line is not None:
            await self._to_end_of_line(task, task.line)
        else:
            await self._to_end_of_process(task)
        if task.adopted and task.spool.ending(task.order.allocation_id) is None:
            await self._joined.wait()
        ending = task.spool.ending(task.order.allocation_id)
        if ending is None:
            ending = await asyncio.to_thread(_conclude, task)
        self.end(task, ending)

    async def _to_end_of_line(self, task: Task, line: Line) -> None:
        """Follow a task that this agent has started."""
        line.watch()
        try:
            if task.supervisor is None:
                await self._find_supervisor(task, line.ended)
            if task.stop is not None or task.freeze:
                task.wake()  # the order came before it could be told
            if task.launch is not None and task.launch.announces:
                await self._await_start(task, line.ended)
            else:
                await line.started.wait()
                if self._look_at_start(task):
                    self.changed()
            await line.ended.wait()
        finally:
            line.unwatch()
            line.close()
            task.close_supervisor()

    async def _to_end_of_process(self, task: Task) -> None:
        """Follow a task that an earlier agent has started: its supervisor ends with it, as it has no nursery."""
        await self._find_supervisor(task, asyncio.Event())
        if task.pidfd >= 0:
            exited = asyncio.Event()
            loop = asyncio.get_running_loop()
            loop.add_reader(task.pidfd, exited.set)
            try:
                await self._await_start(task, exited)
                await exited.wait()
            finally:
                loop.remove_reader(task.pidfd)
                task.close_supervisor()

    async def _find_supervisor(self, task: Task, ended: asyncio.Event) -> None:
        """Find the supervisor, which this agent or an earlier one started; it may be at its first instruction still.
        None is found once it has `ended`."""
        pause = _POLL_MIN_S
        while task.pidfd < 0 and not ended.is_set() and task.spool.is_supervised():
            record = task.spool.supervisor()
            if record is not None:
                task.open_supervisor(record)
            if task.pidfd < 0:
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, _POLL_MAX_S)
        if task.pidfd >= 0:
            if task.adopted:
                self.logger(task).info("task adopted")
            task.wake()  # an order may have come before it could be told

    async def _await_start(self, task: Task, exited: asyncio.Event) -> None:
        pause = _POLL_MIN_S
        while not exited.is_set():
            if self._look_at_start(task):
                self.changed()
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await exited.wait()
            pause = min(pause * 1.5, _POLL_MAX_S)

    def _look_at_start(self, task: Task) -> bool:
        """Return whether the task has started, and report it the first time."""
        if not task.started_at_ms and (record := task.spool.task()) is not None:
            task.pid, task.started_at_ms = record.pid, record.started_at_ms
            self._on_start(task)
            self.logger(task).info("task started", pid=record.pid, at=_shown(record.started_at_ms))
        return bool(task.started_at_ms)

    async def _saving(self, task: Task) -> None:
        while task.may_save and task.ending is None:
            self._look_at_saving(task)
            await asyncio.sleep(_POLL_MAX_S)

    def _look_at_saving(self, task: Task) -> None:
        """Report what the supervisor has recorded since the last look, once it was told to stop the task."""
        if task.stop is None:
            return
        before, now = task.saving, task.spool.saving()
        if now == before:
            return
        self._look_at_start(task)  # which came before
        task.saving = now
        log = self.logger(task)
        if now.signalled_at_ms != before.signalled_at_ms:
            number = task.stop.checkpoint_signal if task.stop is not None else 0
            log.info("checkpoint signal sent", signal=number, at=_shown(now.signalled_at_ms))
        if now.saved_at_ms != before.saved_at_ms:
            log.info("checkpoint acknowledged", at=_shown(now.saved_at_ms))
        if now.over_at_ms != before.over_at_ms:
            log.warning("checkpoint grace over", at=_shown(now.over_at_ms))
        if now.is_over:
            task.checkpoint_at_ms = max(task.checkpoint_at_ms, task.spool.checkpoint_at_ms())
            self.changed()

    async def _freezing(self, task: Task) -> None:
        """Wait until the task is frozen or thawed as wanted, or is about to end. A runtime that could not do it is
        asked again."""
        asked_at = time.monotonic()
        while task.ending is None and task.stop is None and task.frozen != task.freeze:
            frozen = task.spool.is_frozen()
            if frozen == task.freeze:
                task.frozen = frozen
                self.logger(task).info("task frozen" if frozen else "task thawed")
                self.changed()
                return
            if time.monotonic() - asked_at > ASK_AGAIN_S:
                asked_at = time.monotonic()
                task.wake()
            await asyncio.sleep(_POLL_MAX_S)


def _conclude(task: Task) -> TaskReport:
    """Return what the supervisor recorded. Without a record the task is lost: what is left of it is killed first."""
    ending = task.spool.ending(task.order.allocation_id)
    if ending is not None:
        return ending
    record = task.spool.supervisor()
    if record is not None and record.boot_id != boot_id():
        reason, detail = Reason.NODE_REBOOTED, "the node was restarted while the task ran"
    elif record is not None:
        reason, detail = Reason.SUPERVISOR_LOST, "the task's supervisor was killed; its result is unknown"
    else:
        reason, detail = Reason.NEVER_STARTED, "the agent or the task's supervisor was killed before the task started"
    usage = Usage(**cgroup_files.counted(task.cgroup)) if task.cgroup is not None else NO_USAGE
    if not _kill_what_is_left(task):
        detail += "; some of its processes could not be killed"
    ran = task.spool.task()
    ending = task.lost(reason, detail, started_at_ms=ran.started_at_ms if ran is not None else 0, usage=usage)
    # A full disk: the next start of the agent comes to the same conclusion.
    with contextlib.suppress(OSError):
        task.spool.record_ending(ending)
    return ending


def _kill_what_is_left(task: Task) -> bool:
    if task.cgroup is not None:
        cgroup_files.kill(task.cgroup)
    killed = kill_marked(task.spool.checkpoint_file)
    for command in task.launch.cleanup if task.launch is not None else ():
        commands.run(command)
    return killed and (task.cgroup is None or cgroup_files.remove(task.cgroup, CLEAN_UP_S))


def _shown(at_ms: int) -> str:
    """Return the time as text: what happened while no agent ran is logged later, and each line says when it was."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
