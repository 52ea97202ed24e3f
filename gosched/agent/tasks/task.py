"""One task as its agent sees it, and what the masters are told of it."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import structlog

from gosched.agent.cgroups import files as cgroup_files
from gosched.agent.logic.reconcile import StopWish
from gosched.agent.orders import Order
from gosched.agent.runtimes.interface import Launch
from gosched.agent.supervisor.control_group import cgroup_of
from gosched.agent.supervisor.records import NODE_FAULTS
from gosched.agent.tasks.nursery import NurseryError
from gosched.agent.tasks.processes import open_process
from gosched.agent.tasks.spool import NOT_SAVING, Ending, SavingRecord, Spool, SupervisorRecord
from gosched.core.commands.nodes import TaskReport
from gosched.core.lifecycle import SAVING
from gosched.core.records.task import NODE_FAULT, TaskState
from gosched.core.records.usage import NO_USAGE, Usage
from gosched.core.spec.task_group import Runtime

CHECKPOINT_EVERY_S = 1.0  # no task is looked at for a checkpoint more often than that
USAGE_EVERY_S = 4.0  # less than a heartbeat


@dataclass(slots=True, kw_only=True)
class Task:
    """Mutable, of this package. `ending` is set once; `forgotten_at` (a wall clock time) only after it. `adopted`: an
    earlier agent started it."""

    order: Order
    spool: Spool
    adopted: bool = False
    ordered_at_ms: int = 0  # when its order came; 0: to an earlier agent
    launch: Launch | None = None
    pidfd: int = -1  # of its supervisor
    pid: int = 0  # of its main process
    started_at_ms: int = 0
    stop: StopWish | None = None
    freeze: bool = False  # as it is wished
    frozen: bool = False
    saving: SavingRecord = NOT_SAVING
    checkpoint_at_ms: int = 0
    usage: Usage = NO_USAGE
    looked_at: float = -math.inf  # for a checkpoint, by the monotonic clock
    counted_at: float = -math.inf
    ending: Ending | None = None
    forgotten_at: float | None = None
    shared_cpus: str | None = None  # that its cgroup was given, as it owns none; None: not known, an earlier agent did

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

    @property
    def cgroup(self) -> Path | None:
        return Path(self.launch.cgroup) if self.launch is not None and self.launch.cgroup else None

    def look(self, now: float) -> None:
        """At what it has done lately, as often as that is worth its price."""
        if self.looked_at <= now - CHECKPOINT_EVERY_S:
            self.looked_at = now
            self.checkpoint_at_ms = max(self.checkpoint_at_ms, self.spool.checkpoint_at_ms())
        if self.counted_at <= now - USAGE_EVERY_S:
            self.counted_at = now
            self.usage = self._read_usage()

    def _read_usage(self) -> Usage:
        """What may not be read is not counted: it must not keep the heartbeat with the other tasks back."""
        counted = self._counted()
        try:
            return Usage(**cgroup_files.counted(counted)) if counted is not None else NO_USAGE
        except cgroup_files.CgroupError as error:
            structlog.get_logger().warning(
                "cannot read what a task uses", allocation=self.order.allocation_id, error=str(error)
            )
            return NO_USAGE

    def _counted(self) -> Path | None:
        """The cgroup that counts what it uses: a container's is its daemon's."""
        if self.order.runtime is not Runtime.DOCKER:
            return self.cgroup
        found = cgroup_of(self.pid) if self.pid else ""
        return Path(found) if found else None

    def open_supervisor(self, record: SupervisorRecord) -> None:
        self.pidfd = open_process(record.pid, record.start_time)

    def close_supervisor(self) -> None:
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    def wake(self) -> None:
        """Makes the supervisor read its orders. It reads them at its start too, so no signal is needed before."""
        if self.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                # A task of the agent's own user may have stopped it.
                signal.pidfd_send_signal(self.pidfd, signal.SIGCONT)
                signal.pidfd_send_signal(self.pidfd, signal.SIGURG)

    def report(self) -> TaskReport:
        if self.ending is None:
            return TaskReport(
                allocation_id=self.order.allocation_id,
                state=self.state,
                reason=SAVING if self.may_save else "",
                started_at_ms=self.started_at_ms,
                checkpoint_at_ms=self.checkpoint_at_ms,
                usage=self.usage,
                frozen=self.frozen,
            )
        end = self.ending
        return TaskReport(
            allocation_id=self.order.allocation_id,
            state=end.state,
            exit_code=end.exit_code,
            reason=end.reason,
            detail=end.detail,
            started_at_ms=end.started_at_ms,
            ended_at_ms=end.ended_at_ms,
            checkpoint_at_ms=self.checkpoint_at_ms,
            usage=end.usage,
            blames_node=end.blames_node,
        )


def failed(reason: str, detail: str, *, exit_code: int = 125, blames_node: bool = False) -> Ending:
    """Of a task that never ran."""
    return Ending(
        state=TaskState.FAILED,
        exit_code=exit_code,
        reason=reason,
        detail=detail,
        ended_at_ms=now_ms(),
        blames_node=blames_node,
    )


def not_started(reason: str, detail: str, error: OSError) -> Ending:
    """Of a task that this node could not start. For want of disk or memory it is the node's affair alone: LOST, so that
    it is placed again; otherwise another task would fail as well, and it FAILED."""
    if isinstance(error, NurseryError) or error.errno in NODE_FAULTS:
        return Ending(
            state=TaskState.LOST, reason=NODE_FAULT, detail=f"{detail}: {error}", ended_at_ms=now_ms(), blames_node=True
        )
    return failed(reason, f"{detail}: {error}", blames_node=True)


def now_ms() -> int:
    return int(time.time() * 1000)
