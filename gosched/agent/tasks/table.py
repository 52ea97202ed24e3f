"""Every task of this node, from its order to the removal of its record.

Invariant: what a task is follows from its directory. This table is a picture of it, for the event loop's thread; a
restart draws the same picture again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import MappingProxyType

import structlog
from google.protobuf.message import DecodeError

from gosched.agent.datadir import DataDir, DataDirError
from gosched.agent.hardware.disk import Work
from gosched.agent.logic.fence import Fence, Made
from gosched.agent.logic.reconcile import (
    Desired,
    Forget,
    Freeze,
    LocalStop,
    Start,
    Stop,
    Tombstone,
    hastened,
    reconcile,
)
from gosched.agent.logs.kept import KeptLogs
from gosched.agent.orders import BadOrder, tombstone_order
from gosched.agent.tasks.following import Following
from gosched.agent.tasks.log_places import LogPlace, kept_log_of
from gosched.agent.tasks.removal import remove_tree
from gosched.agent.tasks.secrets import TaskSecrets
from gosched.agent.tasks.spool import Spool, spool_for, store_all
from gosched.agent.tasks.starting import Starter
from gosched.agent.tasks.task import Task, now_ms
from gosched.core.commands.nodes import TaskReport
from gosched.core.orders import StopOrder, TaskOrder
from gosched.core.reasons import Reason
from gosched.core.records.task import TaskState

QUOTA_GRACE_MS = 2_000
STARTS_AT_ONCE = 8
MAX_FORGOTTEN = 1000  # records and working directories of ended tasks; the oldest beyond it go early


class Tasks:
    """The tasks by allocation id. `following` tells the session whenever the masters should learn of a task."""

    def __init__(
        self, data_dir: DataDir, starter: Starter, following: Following, kept_logs: KeptLogs, work_max_bytes: int
    ) -> None:
        self._data_dir = data_dir
        self._kept_logs = kept_logs
        self._starter = starter
        self._following = following
        self._work_max_bytes = work_max_bytes
        #: Which orders count.
        self.fence = Fence()
        self._tasks: dict[str, Task] = {}
        self._works: set[asyncio.Task[str]] = set()
        self._trash: list[Path] = []
        self._turn = asyncio.Lock()  # orders are obeyed one message after the other
        self._log = structlog.get_logger().bind(node=data_dir.node_id)

    # What masters and readers ask

    def observed(self) -> list[TaskReport]:
        """Return the reports of all tasks that the masters still have to learn of."""
        now = time.monotonic()
        for task in self.running():
            task.look(now)
        return [task.report() for task in self._tasks.values() if task.forgotten_at is None]

    def running(self) -> list[Task]:
        """Return all that have not ended."""
        return [task for task in self._tasks.values() if task.ending is None]

    def find(self, allocation_id: str) -> Task | None:
        return self._tasks.get(allocation_id)

    def log_place(self, allocation_id: str) -> LogPlace:
        """Return where the log of an allocation is, as long as it is anywhere here."""
        return LogPlace(allocation_id, self._tasks.get(allocation_id), self._kept_logs)

    def live(self, allocation_ids: Iterable[str]) -> list[str]:
        """Return those of the allocations that have not ended."""
        return [i for i in allocation_ids if (task := self._tasks.get(i)) is not None and task.ending is None]

    def all(self) -> list[Task]:
        return list(self._tasks.values())

    def names(self) -> set[str]:
        """Return the names of the directories, and so of the cgroups, of all tasks."""
        return {task.spool.path.name for task in self._tasks.values()}

    async def obey(
        self,
        desired: Desired,
        orders: Mapping[str, TaskOrder],
        *,
        epoch: int,
        made: Made,
        under_way: Iterable[str] | None = None,
        secrets: Mapping[str, TaskSecrets] = MappingProxyType({}),
    ) -> str:
        """Do what a master wants. Return why it does not count, where a higher epoch or a newer order was seen: nothing
        is done then; empty: it is done. `under_way`: what the answer to a heartbeat leaves to pushes; None: this was
        pushed itself. `secrets`: of the orders, by their allocations.

        Returns once all started tasks are on the disk and have their supervisors, even if the caller is cancelled.
        """
        work = asyncio.create_task(self._obey(desired, orders, epoch, made, under_way, secrets))
        self._works.add(work)
        work.add_done_callback(self._works.discard)
        return await asyncio.shield(work)

    def stop(self, task: Task, order: StopOrder) -> None:
        """Stop a task, or bring its end nearer."""
        order = order if task.stop is None else hastened(task.stop, order)
        if order == task.stop or task.ending is not None:
            return
        task.spool.order_stop(order)
        task.stop = order
        self._following.logger(task).info(
            "task told to stop", reason=order.reason, checkpoint_ms=order.checkpoint_ms, grace_ms=order.grace_ms
        )
        task.wake()
        if task.may_save:
            self._following.follow_saving(task)
        self._following.changed()

    async def close_to_orders(self) -> None:
        """Obey nothing from now on, once what is in hand is done."""
        async with self._turn:
            self.fence.close()

    async def _obey(
        self,
        desired: Desired,
        orders: Mapping[str, TaskOrder],
        epoch: int,
        made: Made,
        under_way: Iterable[str] | None,
        secrets: Mapping[str, TaskSecrets],
    ) -> str:
        async with self._turn:
            if epoch < self._data_dir.epoch:
                return f"it has seen a later epoch than {epoch}, another master leads"
            is_push = under_way is None
            problem = (
                self.fence.take_push(desired, made)
                if under_way is None
                else self.fence.take_answer(desired, made, under_way)
            )
            if problem:
                # Here: the caller of an order that comes late has long gone, and nothing else of it is seen.
                self._log.info("an order does not count", why=problem, start=list(desired.start))
                return problem
            await asyncio.to_thread(self._data_dir.raise_epoch, epoch)
            starts: list[TaskOrder] = []
            for action in reconcile(desired, {i: task.state for i, task in self._tasks.items()}):
                match action:
                    case Start():
                        starts.append(orders[action.allocation_id])
                    case Stop():
                        self.stop(self._tasks[action.order.allocation_id], action.order)
                    case Tombstone():
                        await self._record_tombstone(action.order)
                    case Freeze():
                        self._freeze(self._tasks[action.allocation_id], action.frozen)
                    case Forget():
                        self._forget(self._tasks[action.allocation_id])
            if starts and not (self._may_start(made) and await self._start(starts, made, secrets)):
                # This node stood still, or was cut off, while they were on the way: they may run elsewhere by now.
                start = [order.allocation_id for order in starts]
                self._log.warning("orders to start came too late; the masters are asked again", start=start)
                return "its lease is over, it asks its masters first"
            if is_push:
                self.fence.note(desired, made)
            return ""

    def _may_start(self, made: Made) -> bool:
        """Return whether no master may have given up the tasks of an order."""
        return not (self._data_dir.lease_is_over or self.fence.problem(made.registration))

    async def correct_epoch(self, seen: int, epoch: int) -> None:
        """Forget an epoch that no leader had, unless another was seen meanwhile. Raises OSError."""
        async with self._turn:
            if self._data_dir.epoch == seen:
                await asyncio.to_thread(self._data_dir.correct_epoch, epoch)

    def release(self, task: Task) -> None:
        """Take back what a task that has ended needs no more."""
        self._starter.release(task)

    def share(self) -> None:
        """Share CPUs and kept memory anew. Call it at each start and end, so that what a task owns is its own."""
        running = self.running()
        self._starter.shared_cpus.follow(running)
        self._starter.kept_memory.follow(running)

    async def _start(self, orders: list[TaskOrder], made: Made, secrets: Mapping[str, TaskSecrets]) -> bool:
        """Start tasks. Return False where that came too late, since the disk was slow: they are as if never ordered."""
        now = now_ms()
        tasks = [
            Task(
                order=o,
                spool=spool_for(self._data_dir.tasks, o.allocation_id),
                ordered_at_ms=now,
                secrets=secrets.get(o.allocation_id),
            )
            for o in orders
        ]
        for task in tasks:
            self._tasks[task.order.allocation_id] = task
        try:
            await asyncio.to_thread(store_all, self._data_dir.tasks, orders)
        except OSError as error:
            # Nothing was started and nothing will be: what a crash leaves on the disk is reported, never run.
            for task in tasks:
                ending = task.not_started(Reason.CANNOT_STORE, "the node cannot store the task's order", error)
                self._following.end_unstarted(task, ending)
            return True
        if not self._may_start(made):
            for task in tasks:
                del self._tasks[task.order.allocation_id]
                await self._remove(task.order.allocation_id, partial(task.spool.remove, self._data_dir.trash))
            return False
        self.share()
        await asyncio.to_thread(self._start_all, tasks)
        self.share()  # another task may have ended meanwhile
        for task in tasks:
            task.secrets = None  # they are where the task finds them, or of no use any more
        for task in tasks:
            if task.ending is not None:
                self._following.end(task, task.ending)
            else:
                self._following.logger(task).info("task ordered", command=" ".join(task.order.command)[:200])
                self._following.follow(task)
        return True

    def _start_all(self, tasks: list[Task]) -> None:
        """Start them in worker threads, since a start waits for the disk. They are not watched yet, so no other thread
        touches them."""
        if len(tasks) == 1:
            self._starter.start(tasks[0])
            return
        with ThreadPoolExecutor(STARTS_AT_ONCE) as pool:
            list(pool.map(self._starter.start, tasks))

    async def _record_tombstone(self, stop: StopOrder) -> None:
        """Record the end of a task that never came here."""
        order = tombstone_order(stop.allocation_id)
        task = Task(order=order, spool=spool_for(self._data_dir.tasks, order.allocation_id))
        ending = TaskReport(
            allocation_id=order.allocation_id,
            state=TaskState.KILLED,
            reason=stop.reason,
            detail="stopped before it started",
            ended_at_ms=now_ms(),
        )
        await asyncio.to_thread(store_all, self._data_dir.tasks, [order])
        await asyncio.to_thread(task.spool.record_ending, ending)
        self._tasks[order.allocation_id] = task
        self._following.end(task, ending)

    def _freeze(self, task: Task, frozen: bool) -> None:
        if task.freeze != frozen:
            task.spool.order_freeze(frozen)
            task.freeze = frozen
            task.wake()
            self._following.follow_freezing(task)

    def _forget(self, task: Task) -> None:
        if task.forgotten_at is None:
            task.forgotten_at = time.time()
            # Where a full disk refuses the mark, the masters are asked again after the next start of the agent.
            with contextlib.suppress(OSError):
                task.spool.mark_forgotten()

    def recall(self) -> None:
        """Report all that ended once more: masters that were restored from a backup may not know of it."""
        self.fence.forget()
        for task in self._tasks.values():
            if task.forgotten_at is not None:
                task.forgotten_at = None
                task.spool.unmark_forgotten()

    async def drop(self, allocation_ids: Iterable[str]) -> None:
        """Remove the records of ended tasks at once: masters that do not know of them may give their ids again."""
        for allocation_id in allocation_ids:
            task = self._tasks.get(allocation_id)
            if task is not None and task.ending is not None:
                del self._tasks[allocation_id]
                await self._remove(allocation_id, partial(task.spool.remove, self._data_dir.trash))

    # What keeps the disk free (gosched.agent.hardware.disk)

    def works(self) -> list[Work]:
        """Return what each running task may fill: its working directory, and its layer of a root filesystem."""
        return [
            Work(
                allocation_id=task.order.allocation_id,
                paths=(task.spool.path / "work", task.spool.path / "oci" / "upper"),
                limit_bytes=task.order.resources.storage_bytes or self._work_max_bytes,
            )
            for task in self.running()
        ]

    def stop_for_quota(self, allocation_id: str, detail: str) -> None:
        order = LocalStop(
            allocation_id=allocation_id,
            grace_ms=QUOTA_GRACE_MS,
            reason=Reason.DISK_QUOTA,
            ends_as="FAILED",
            detail=detail,
        )
        task = self._tasks.get(allocation_id)
        if task is not None:
            self.stop(task, order)

    async def clean(self, keep_s: float) -> None:
        """Remove what the masters have forgotten for long enough. Logs are kept elsewhere from then on."""
        await self.keep_logs()
        await self._kept_logs.clean()
        launches = [task.launch for task in self.running()]
        if None not in launches:  # otherwise one starts, and its account is not known here yet
            live = {launch.owner for launch in launches if launch is not None}
            await asyncio.to_thread(self._starter.accounts.tidy, live, time.monotonic())
        forgotten = [(t.forgotten_at, i) for i, t in self._tasks.items() if t.forgotten_at is not None]
        forgotten.sort()
        surplus = len(forgotten) - MAX_FORGOTTEN
        for place, (at, allocation_id) in enumerate(forgotten):
            if at > time.time() - keep_s and place >= surplus:
                break
            task = self._tasks.pop(allocation_id, None)  # at once: another round of cleaning may be under way
            if task is not None:
                await self._remove(allocation_id, partial(task.spool.remove, self._data_dir.trash))
        while self._trash:
            path = self._trash.pop()
            await self._remove(path.name, partial(remove_tree, path))

    async def keep_logs(self) -> None:
        """Hand the logs of tasks over that have ended, and whose end the masters know."""
        for task in self.all():
            if task.ending is not None and task.forgotten_at is not None and not task.log_is_kept:
                try:
                    await self._kept_logs.take(task.spool, kept_log_of(task, task.ending))
                    task.log_is_kept = True
                except OSError as error:
                    self._following.logger(task).warning("cannot keep the log of a task yet", why=str(error))

    async def drop_logs(self, share: float) -> None:
        """Drop the oldest of the kept logs, with about this share of their bytes."""
        await self._kept_logs.give_room(int(self._kept_logs.size_bytes * share) + 1)

    async def _remove(self, what: str, remove: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(remove)
        except FileNotFoundError:
            pass  # it was never stored, the disk was full
        except OSError as error:
            self._log.warning("cannot clean up after a task", what=what, why=str(error))

    # Over restarts

    def load(self) -> None:
        """Load every stored allocation: ended ones to report, live ones to adopt, lost ones to conclude."""
        self._trash = list(self._data_dir.trash.iterdir())  # the last agent was killed while it cleaned
        loaded = [self._loaded(path) for path in sorted(self._data_dir.tasks.iterdir())]
        for task in [task for task in loaded if task is not None]:
            self._tasks[task.order.allocation_id] = task
            if task.ending is None:
                self._following.follow(task)
            elif task.forgotten_at is None:
                self._following.end(task, task.ending)  # perhaps while no agent was there to tell it
        self._starter.secrets.sweep({task.spool.path.name for task in self.running()})
        self.share()

    def _loaded(self, path: Path) -> Task | None:
        spool = Spool(path)
        try:
            order = spool.order()
        except (DecodeError, BadOrder) as error:
            raise DataDirError(f"{path} is damaged ({error}); move it away to start without that task") from error
        if order is None:
            spool.remove(self._data_dir.trash)
            return None
        ending = spool.ending(order.allocation_id)
        task = Task(order=order, spool=spool, stop=spool.stop_ordered(), ending=ending, adopted=True)
        if task.ending is None and (elsewhere := spool.runs_elsewhere()):
            raise DataDirError(
                f"{self._data_dir.path} is a copy: its task {order.allocation_id} runs in {elsewhere}; start the agent "
                "on the directory that was copied, or remove the copy"
            )
        task.launch = spool.launch()
        task.freeze, task.frozen = spool.freeze_ordered(), spool.is_frozen()
        task.forgotten_at = spool.forgotten_at() if task.ending is not None else None
        return task

    async def close(self) -> None:
        """Stop watching, once the orders in hand are done. The tasks go on."""
        await asyncio.gather(*self._works, return_exceptions=True)
        await self._following.close()
