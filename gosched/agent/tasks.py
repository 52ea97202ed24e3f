"""Every task of this node, from its order to the day its record is cleaned away.

The one rule: what a task is follows from its directory. This table is a picture of it, for the event loop's thread; a
restart draws the same picture again.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from google.protobuf.message import DecodeError

from gosched.agent.datadir import DataDir, DataDirError
from gosched.agent.orders import BadOrder, Order, buried_order
from gosched.agent.processes import boot_id, kill_marked, open_process
from gosched.agent.spool import NOT_SAVING, Ending, LogLimits, SavingRecord, Spool, TaskRecord, spool_for, store_all
from gosched.core.command import TaskReport
from gosched.core.job import Runtime, TaskState
from gosched.node_logic.reconcile import SAVING, Bury, Desired, Forget, Start, Stop, StopWish, hastened, reconcile

MAX_FORGOTTEN = 1000  # records of ended tasks that are kept for their logs; the oldest beyond it go early
CHECKPOINT_EVERY_S = 1.0  # no task is looked at for a checkpoint more often than that

_POLL_MIN_S = 0.004
_POLL_MAX_S = 0.1


@dataclass(slots=True, kw_only=True)
class Task:
    """Mutable, of this module. `ending` is set once; `forgotten_at` (a wall clock time) only after it."""

    order: Order
    spool: Spool
    process: subprocess.Popen[bytes] | None = None  # of this agent's own children
    pidfd: int = -1
    started_at_ms: int = 0
    stop: StopWish | None = None
    saving: SavingRecord = NOT_SAVING
    checkpoint_at_ms: int = 0
    looked_at: float = -math.inf  # for a checkpoint, by the monotonic clock
    ending: Ending | None = None
    forgotten_at: float | None = None

    @property
    def state(self) -> TaskState:
        if self.ending is not None:
            return self.ending.state
        if self.stop is not None:
            return TaskState.STOPPING
        return TaskState.RUNNING if self.started_at_ms else TaskState.STARTING

    @property
    def may_save(self) -> bool:
        """It is to stop, and has time to save itself first."""
        return self.stop is not None and self.stop.saves and not self.saving.is_over

    def look_for_checkpoint(self) -> None:
        self.looked_at = time.monotonic()
        self.checkpoint_at_ms = max(self.checkpoint_at_ms, self.spool.checkpoint_at_ms())


class Tasks:
    """`on_change` is called whenever a master should hear of it."""

    def __init__(self, data_dir: DataDir, limits: LogLimits, on_change: Callable[[], None]) -> None:
        self._data_dir = data_dir
        self._limits = limits
        self._on_change = on_change
        self._tasks: dict[str, Task] = {}
        self._followers: set[asyncio.Task[None]] = set()
        self._works: set[asyncio.Task[bool]] = set()
        self._turn = asyncio.Lock()  # orders are obeyed one message after the other
        self._log = structlog.get_logger().bind(node=data_dir.node_id)

    # What masters and readers ask

    def observed(self) -> list[TaskReport]:
        """All tasks that the masters still have to know of."""
        due = time.monotonic() - CHECKPOINT_EVERY_S
        for task in self._tasks.values():
            if task.ending is None and task.looked_at <= due:
                task.look_for_checkpoint()
        return [_report(task) for task in self._tasks.values() if task.forgotten_at is None]

    def find(self, allocation_id: str) -> Task | None:
        return self._tasks.get(allocation_id)

    def live(self, allocation_ids: Iterable[str]) -> list[str]:
        return [i for i in allocation_ids if (task := self._tasks.get(i)) is not None and task.ending is None]

    async def obey(self, desired: Desired, orders: Mapping[str, Order], *, epoch: int) -> bool:
        """Does what a master wants, unless a higher epoch was seen: then nothing, and False.

        Returns once all started tasks are on the disk and have their supervisors, even if the caller goes away.
        """
        work = asyncio.create_task(self._obey(desired, orders, epoch))
        self._works.add(work)
        work.add_done_callback(self._works.discard)
        return await asyncio.shield(work)

    async def _obey(self, desired: Desired, orders: Mapping[str, Order], epoch: int) -> bool:
        async with self._turn:
            if epoch < self._data_dir.epoch:
                return False
            await asyncio.to_thread(self._data_dir.raise_epoch, epoch)
            starts: list[Order] = []
            for action in reconcile(desired, {i: task.state for i, task in self._tasks.items()}):
                match action:
                    case Start():
                        starts.append(orders[action.allocation_id])
                    case Stop():
                        self._stop(self._tasks[action.wish.allocation_id], action.wish)
                    case Bury():
                        await self._bury(action.wish)
                    case Forget():
                        self._forget(self._tasks[action.allocation_id])
            if starts:
                await self._start(starts)
            return True

    # Starting

    async def _start(self, orders: list[Order]) -> None:
        tasks = [Task(order=order, spool=spool_for(self._data_dir.tasks, order.allocation_id)) for order in orders]
        for task in tasks:
            self._tasks[task.order.allocation_id] = task
        try:
            await asyncio.to_thread(store_all, self._data_dir.tasks, orders)
        except OSError as error:
            # Nothing was started and nothing will be: what a crash leaves on the disk is reported, never run.
            for task in tasks:
                self._end(task, _failed("CANNOT_STORE", f"the node cannot store the task's order: {error}"))
            return
        await asyncio.to_thread(self._spawn_all, tasks)
        for task in tasks:
            self._begin(task)

    def _spawn_all(self, tasks: list[Task]) -> None:
        """In a worker thread; the tasks are not watched yet, so nobody else touches them."""
        for task in tasks:
            try:
                refusal = _refusal(task.order)
                if refusal is not None:
                    task.spool.record_ending(refusal)
                    task.ending = refusal
                    continue
                task.process = task.spool.start(task.order, self._limits)
            except OSError as error:
                task.ending = _failed("START_FAILED", f"the node cannot start the task: {error}")

    def _begin(self, task: Task) -> None:
        if task.ending is not None:
            self._end(task, task.ending)
            return
        self._logger(task).info("task ordered", command=task.order.command[0])
        self._follow(task)

    # Following

    def _follow(self, task: Task) -> None:
        self._watch(self._follow_to_the_end(task))
        if task.may_save:
            self._watch(self._follow_saving(task))

    def _watch(self, watching: Coroutine[Any, Any, None]) -> None:
        follower = asyncio.create_task(watching)
        self._followers.add(follower)
        follower.add_done_callback(self._on_follower_done)

    def _on_follower_done(self, follower: asyncio.Task[None]) -> None:
        self._followers.discard(follower)
        if not follower.cancelled() and (error := follower.exception()) is not None:
            self._log.error("a task is no longer watched; restart the agent to adopt it", exc_info=error)

    async def _follow_to_the_end(self, task: Task) -> None:
        await self._find_supervisor(task)
        if task.pidfd >= 0:
            exited = asyncio.Event()
            loop = asyncio.get_running_loop()
            loop.add_reader(task.pidfd, exited.set)
            try:
                await self._await_start(task, exited)
                await exited.wait()
            finally:
                loop.remove_reader(task.pidfd)
                os.close(task.pidfd)
                task.pidfd = -1
        if task.process is not None:
            task.process.wait()  # it has ended: this only reaps it
        self._end(task, await asyncio.to_thread(_conclude, task))

    async def _await_start(self, task: Task, exited: asyncio.Event) -> None:
        pause = _POLL_MIN_S
        while not exited.is_set():
            record = task.spool.task()
            if record is not None:
                self._started(task, record)
                self._on_change()
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(exited.wait(), pause)
            pause = min(pause * 1.5, _POLL_MAX_S)

    def _started(self, task: Task, record: TaskRecord) -> None:
        task.started_at_ms = record.started_at_ms
        self._logger(task).info("task started", pid=record.pid, at=_shown(record.started_at_ms))

    async def _follow_saving(self, task: Task) -> None:
        while task.may_save and task.ending is None:
            self._look_at_saving(task)
            await asyncio.sleep(_POLL_MAX_S)

    def _look_at_saving(self, task: Task) -> None:
        """Tells what the supervisor has recorded since the last look."""
        before, now = task.saving, task.spool.saving()
        if now == before:
            return
        task.saving = now
        log = self._logger(task)
        if now.signalled_at_ms != before.signalled_at_ms:
            number = task.stop.checkpoint_signal if task.stop is not None else 0
            log.info("checkpoint signal sent", signal=number, at=_shown(now.signalled_at_ms))
        if now.saved_at_ms != before.saved_at_ms:
            log.info("checkpoint acknowledged", at=_shown(now.saved_at_ms))
        if now.over_at_ms != before.over_at_ms:
            log.warning("checkpoint grace over", at=_shown(now.over_at_ms))
        if now.is_over:
            task.look_for_checkpoint()
            self._on_change()

    async def _find_supervisor(self, task: Task) -> None:
        """Of this agent or of an earlier one; it may be at its first instruction still. None is found when it ended."""
        pause = _POLL_MIN_S
        while task.spool.is_supervised():
            record = task.spool.supervisor()
            if record is not None:
                task.pidfd = open_process(record.pid, record.start_time)
            if task.pidfd >= 0:
                if task.process is None:
                    self._logger(task).info("task adopted", supervisor=record.pid if record else 0)
                if task.stop is not None:
                    _wake(task)
                return
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _POLL_MAX_S)

    def _end(self, task: Task, ending: Ending) -> None:
        if not task.started_at_ms and (record := task.spool.task()) is not None:  # it ended before it was looked at
            self._started(task, record)
        task.look_for_checkpoint()
        self._look_at_saving(task)
        task.ending = ending
        self._logger(task).info(
            "task ended",
            state=ending.state.name,
            exit_code=ending.exit_code,
            reason=ending.reason,
            detail=ending.detail,
            at=_shown(ending.ended_at_ms),
        )
        self._on_change()

    # Stopping and forgetting

    def _stop(self, task: Task, wish: StopWish) -> None:
        wish = wish if task.stop is None else hastened(task.stop, wish)
        if wish == task.stop:
            return
        task.spool.order_stop(wish)
        task.stop = wish
        self._logger(task).info(
            "task told to stop", reason=wish.reason, checkpoint_ms=wish.checkpoint_ms, grace_ms=wish.grace_ms
        )
        _wake(task)
        if task.may_save:
            self._watch(self._follow_saving(task))
        self._on_change()

    async def _bury(self, wish: StopWish) -> None:
        order = buried_order(wish.allocation_id)
        task = Task(order=order, spool=spool_for(self._data_dir.tasks, order.allocation_id))
        ending = Ending(
            state=TaskState.KILLED, reason=wish.reason, detail="stopped before it started", ended_at_ms=_now_ms()
        )
        await asyncio.to_thread(store_all, self._data_dir.tasks, [order])
        await asyncio.to_thread(task.spool.record_ending, ending)
        self._tasks[order.allocation_id] = task
        self._end(task, ending)

    def _forget(self, task: Task) -> None:
        if task.forgotten_at is None:
            task.forgotten_at = time.time()
            # Where a full disk refuses the mark, the masters are asked again after the next start of the agent.
            with contextlib.suppress(OSError):
                task.spool.mark_forgotten()

    async def clean(self, keep_s: float) -> None:
        """Removes what the masters have forgotten for long enough, logs and working directories with it."""
        forgotten = [(t.forgotten_at, i) for i, t in self._tasks.items() if t.forgotten_at is not None]
        forgotten.sort()
        surplus = len(forgotten) - MAX_FORGOTTEN
        for place, (at, allocation_id) in enumerate(forgotten):
            if at > time.time() - keep_s and place >= surplus:
                break
            try:
                await asyncio.to_thread(self._tasks[allocation_id].spool.remove, self._data_dir.trash)
            except FileNotFoundError:
                pass  # a full disk had no room for it
            except OSError as error:
                self._log.warning("cannot clean up after a task", task=allocation_id, error=str(error))
            del self._tasks[allocation_id]

    # Over restarts

    def load(self) -> None:
        """Takes up every stored allocation: ended ones to report, live ones to adopt, lost ones to conclude."""
        for path in self._data_dir.trash.iterdir():
            shutil.rmtree(path, ignore_errors=True)  # the last agent was killed while it cleaned
        for path in sorted(self._data_dir.tasks.iterdir()):
            spool = Spool(path)
            try:
                order = spool.order()
            except (DecodeError, BadOrder) as error:
                raise DataDirError(f"{path} is damaged ({error}); move it away to start without that task") from error
            if order is None:
                spool.remove(self._data_dir.trash)
                continue
            task = Task(order=order, spool=spool, stop=spool.stop_ordered(), ending=spool.ending())
            task.forgotten_at = spool.forgotten_at() if task.ending is not None else None
            self._tasks[order.allocation_id] = task
            if task.ending is None:
                self._follow(task)
            elif task.forgotten_at is None:
                self._end(task, task.ending)  # perhaps while no agent was there to tell it

    async def close(self) -> None:
        """Stops watching, once the orders in hand are done. The tasks go on."""
        await asyncio.gather(*self._works, return_exceptions=True)
        followers = list(self._followers)
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)

    def _logger(self, task: Task) -> structlog.stdlib.BoundLogger:
        logger: structlog.stdlib.BoundLogger = self._log.bind(
            job=task.order.job_id, task=task.order.task_id, allocation=task.order.allocation_id
        )
        return logger


def _refusal(order: Order) -> Ending | None:
    if order.runtime is not Runtime.PROCESS:
        return _failed("RUNTIME_NOT_SUPPORTED", f"this node cannot run tasks of runtime {order.runtime.name.lower()}")
    if not order.command or not order.command[0]:
        return _failed("COMMAND_NOT_FOUND", "the command is empty", exit_code=127)
    return None


def _failed(reason: str, detail: str, *, exit_code: int = 125) -> Ending:
    """Of a task that never ran."""
    return Ending(state=TaskState.FAILED, exit_code=exit_code, reason=reason, detail=detail, ended_at_ms=_now_ms())


def _conclude(task: Task) -> Ending:
    """What the supervisor recorded; else the task is lost, and what is left of it is killed before anyone hears so."""
    ending = task.spool.ending()
    if ending is not None:
        return ending
    record = task.spool.supervisor()
    if record is not None and record.boot_id != boot_id():
        reason, detail = "NODE_REBOOTED", "the node was restarted while the task ran"
    elif record is not None:
        reason, detail = "SUPERVISOR_LOST", "the task's supervisor was killed; its result is unknown"
    else:
        reason, detail = "NEVER_STARTED", "the agent or the task's supervisor was killed before the task started"
    if not kill_marked(task.order.allocation_id):
        detail += "; some of its processes could not be killed"
    ran = task.spool.task()
    started = ran.started_at_ms if ran is not None else 0
    ending = Ending(state=TaskState.LOST, reason=reason, detail=detail, started_at_ms=started, ended_at_ms=_now_ms())
    # A full disk: the next start of the agent comes to the same conclusion.
    with contextlib.suppress(OSError):
        task.spool.record_ending(ending)
    return ending


def _wake(task: Task) -> None:
    """Makes the supervisor read its stop order. It reads it at its start too, so no signal is needed before."""
    if task.pidfd >= 0:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(task.pidfd, signal.SIGURG)


def _report(task: Task) -> TaskReport:
    if task.ending is None:
        return TaskReport(
            allocation_id=task.order.allocation_id,
            state=task.state,
            reason=SAVING if task.may_save else "",
            started_at_ms=task.started_at_ms,
            checkpoint_at_ms=task.checkpoint_at_ms,
        )
    end = task.ending
    return TaskReport(
        allocation_id=task.order.allocation_id,
        state=end.state,
        exit_code=end.exit_code,
        reason=end.reason,
        detail=end.detail,
        started_at_ms=end.started_at_ms,
        ended_at_ms=end.ended_at_ms,
        checkpoint_at_ms=task.checkpoint_at_ms,
    )


def _shown(at_ms: int) -> str:
    """What happened while no agent was there is logged later: each line says when it was."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _now_ms() -> int:
    return int(time.time() * 1000)
