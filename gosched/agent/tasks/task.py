"""One task as its agent sees it, and what the masters are told of it."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from gosched.agent.cgroups import files as cgroup_files
from gosched.agent.supervisor.control_group import cgroup_of
from gosched.agent.supervisor.launch import Launch
from gosched.agent.supervisor.records import NODE_FAULTS
from gosched.agent.tasks.line import Line
from gosched.agent.tasks.nursery import NurseryError
from gosched.agent.tasks.processes import open_process
from gosched.agent.tasks.secrets import TaskSecrets
from gosched.agent.tasks.spool import NOT_SAVING, SavingRecord, Spool, SupervisorRecord
from gosched.core.commands.nodes import TaskReport
from gosched.core.orders import StopOrder, TaskOrder
from gosched.core.reasons import Reason
from gosched.core.records.task import TaskState
from gosched.core.records.usage import NO_USAGE, Usage
from gosched.core.spec.task_group import Runtime

CHECKPOINT_EVERY_S = 1.0  # no task is looked at for a checkpoint more often than that
USAGE_EVERY_S = 4.0  # less than a heartbeat
LOOK_AFTER_S = 0.5  # many a task is short: its end says what it has used


@dataclass(slots=True, kw_only=True)
class Task:
    """A task of this node. Mutable, by this package alone."""

    order: TaskOrder
    spool: Spool
    #: Whether an earlier agent started it.
    adopted: bool = False
    #: When its order came, by the wall clock; 0: to an earlier agent.
    ordered_at_ms: int = 0
    #: What came beside its order, until it is started. None: nothing, or it was started.
    secrets: TaskSecrets | None = field(default=None, repr=False)
    #: What its supervisor runs. None: it was not started, or not yet.
    launch: Launch | None = None
    #: Of this agent's start. None: it was not started, or an earlier agent did it.
    line: Line | None = None
    #: Its supervisor's process. None: it is not known (yet), or an earlier agent started it.
    supervisor: SupervisorRecord | None = None
    #: Of its supervisor, where only that says when it ends; -1: none is open.
    pidfd: int = -1
    #: Of its main process; 0: it has not started.
    pid: int = 0
    #: What its start has come through, and when, in ns since 1970; for its trace.
    steps: list[tuple[str, int]] = field(default_factory=list)
    #: By the wall clock; 0: it has not started.
    started_at_ms: int = 0
    #: The stop order in force. None: it is to run.
    stop: StopOrder | None = None
    #: Whether it should be frozen.
    freeze: bool = False
    #: Whether it is frozen.
    frozen: bool = False
    saving: SavingRecord = NOT_SAVING
    #: When it last saved itself, by the wall clock; 0: never.
    checkpoint_at_ms: int = 0
    usage: Usage = NO_USAGE
    #: When it came into this table, by the monotonic clock.
    since: float = field(default_factory=time.monotonic)
    #: When its checkpoint was looked at last, by the monotonic clock.
    looked_at: float = -math.inf
    #: When its usage was read last, by the monotonic clock.
    counted_at: float = -math.inf
    #: How it ended; set once. None: it has not.
    ending: TaskReport | None = None
    #: When the masters had no more need of it, by the wall clock; only of one that has ended.
    forgotten_at: float | None = None
    #: Its log is among the kept ones; only of one that has ended.
    log_is_kept: bool = False
    #: The CPUs that its cgroup was given, as it owns none. None: not known, an earlier agent gave them.
    shared_cpus: str | None = None

    @property
    def state(self) -> TaskState:
        if self.ending is not None:
            return self.ending.state
        if self.stop is not None:
            return TaskState.STOPPING
        return TaskState.RUNNING if self.started_at_ms else TaskState.STARTING

    @property
    def may_save(self) -> bool:
        """Return whether it is to stop, and has time to save itself first."""
        return self.stop is not None and self.stop.saves and not self.saving.is_over

    @property
    def cgroup(self) -> Path | None:
        """Return its cgroup; None: it has none."""
        return Path(self.launch.cgroup) if self.launch is not None and self.launch.cgroup else None

    def step(self, name: str) -> None:
        """Note that its start has come through something."""
        self.steps.append((name, time.time_ns()))

    def look(self, now: float) -> None:
        """Look at its checkpoint and its usage, not sooner and not more often than that is worth its price."""
        if not self.adopted and self.since > now - LOOK_AFTER_S:
            return
        if self.looked_at <= now - CHECKPOINT_EVERY_S:
            self.looked_at = now
            self.checkpoint_at_ms = max(self.checkpoint_at_ms, self.spool.checkpoint_at_ms())
        if self.counted_at <= now - USAGE_EVERY_S:
            self.counted_at = now
            self.usage = self._read_usage()

    def _read_usage(self) -> Usage:
        """Return what it uses. What may not be read is not counted: it must not delay the heartbeat with the other
        tasks."""
        counted = self._counted()
        try:
            return Usage(**cgroup_files.counted(counted)) if counted is not None else NO_USAGE
        except cgroup_files.CgroupError as error:
            structlog.get_logger().warning(
                "cannot read what a task uses", allocation=self.order.allocation_id, why=str(error)
            )
            return NO_USAGE

    def _counted(self) -> Path | None:
        """Return the cgroup that counts what it uses: for a container, the one that its daemon made."""
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
        """Make the supervisor read its orders. It reads them at its start too, so no signal is needed before."""
        pidfd = self.pidfd
        if pidfd < 0 and self.supervisor is not None:
            pidfd = open_process(self.supervisor.pid, self.supervisor.start_time)
        if pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                # A task of the agent's own user may have stopped it. One with another task by now takes no harm.
                signal.pidfd_send_signal(pidfd, signal.SIGCONT)
                signal.pidfd_send_signal(pidfd, signal.SIGURG)
        if pidfd >= 0 and pidfd != self.pidfd:
            os.close(pidfd)

    def report(self) -> TaskReport:
        """Return what the masters are told of it."""
        if self.ending is not None:
            return replace(self.ending, checkpoint_at_ms=self.checkpoint_at_ms)
        return TaskReport(
            allocation_id=self.order.allocation_id,
            state=self.state,
            reason=Reason.SAVING if self.may_save else "",
            started_at_ms=self.started_at_ms,
            checkpoint_at_ms=self.checkpoint_at_ms,
            usage=self.usage,
            frozen=self.frozen,
        )

    def failed(self, reason: Reason, detail: str, *, exit_code: int = 125, blames_node: bool = False) -> TaskReport:
        """Return the end of a task that never ran."""
        return TaskReport(
            allocation_id=self.order.allocation_id,
            state=TaskState.FAILED,
            exit_code=exit_code,
            reason=reason,
            detail=detail,
            ended_at_ms=now_ms(),
            blames_node=blames_node,
        )

    def not_started(self, reason: Reason, detail: str, error: OSError) -> TaskReport:
        """Return the end of a task that this node could not start. Want of disk or memory is the node's fault alone:
        the task is LOST, and placed again. Otherwise another task would fail as well, and this one has FAILED."""
        if isinstance(error, NurseryError) or error.errno in NODE_FAULTS:
            return self.lost(Reason.NODE_FAULT, f"{detail}: {error}", blames_node=True)
        return self.failed(reason, f"{detail}: {error}", blames_node=True)

    def lost(
        self, reason: Reason, detail: str, *, started_at_ms: int = 0, usage: Usage = NO_USAGE, blames_node: bool = False
    ) -> TaskReport:
        """Return the end of a task whose result is unknown, or that never was one."""
        return TaskReport(
            allocation_id=self.order.allocation_id,
            state=TaskState.LOST,
            reason=reason,
            detail=detail,
            started_at_ms=started_at_ms,
            ended_at_ms=now_ms(),
            usage=usage,
            blames_node=blames_node,
        )


def now_ms() -> int:
    return int(time.time() * 1000)
