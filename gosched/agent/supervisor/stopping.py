"""Ends a task: it saves itself, has its grace, is killed.

Invariant: a later order may only bring the end nearer; what was sent is not sent again; no order outlasts a task's
lease: once that is over the task is killed.
"""

from __future__ import annotations

import os
import signal
import time

from gosched.agent.supervisor.control_group import ControlGroup
from gosched.agent.supervisor.family import send, signal_handlers
from gosched.agent.supervisor.freezing import Freezing
from gosched.agent.supervisor.records import CHECKPOINT_FILE, SAVING, StopOrder, note, now_ms

KILL_AGAIN_S = 1.0
LOOK_AGAIN_S = 0.05  # while the task saves itself


class Stopping:
    """One task's end, step by step."""

    def __init__(self, pid: int, group: ControlGroup, freezing: Freezing) -> None:
        self.pid = pid
        self.group = group
        self.freezing = freezing
        self.saving: Saving | None = None
        self.asked_at: float | None = None  # to end

    def go_on(self, order: StopOrder, left_s: float) -> float:
        """Do what is due, and return in how many seconds to come again. `left_s`: until the task's lease is over."""
        if left_s <= 0:
            return self.kill()  # as it stands: one that is frozen must not run again
        return min(self.end_by(order), left_s)

    def end_by(self, order: StopOrder) -> float:
        """Do as `go_on` does, for a task whose lease is not over."""
        self.freezing.end()  # else no signal but the last would reach it
        if self.asked_at is None:
            wait_s = self.save(order)
            if wait_s > 0:
                return wait_s
            self.asked_at = time.monotonic()
            if order.grace_ms > 0:
                send(-self.pid, signal.SIGTERM)  # its process group
        wait_s = self.asked_at + order.grace_ms / 1000 - time.monotonic()
        if wait_s > 0:
            return wait_s
        return self.kill()

    def kill(self) -> float:
        self.group.kill()
        send(self.pid, signal.SIGKILL)
        return KILL_AGAIN_S

    def save(self, order: StopOrder) -> float:
        if self.saving is None and order.checkpoint_signal and order.checkpoint_ms:
            self.saving = Saving(order.checkpoint_signal)
        return self.saving.go_on(order.checkpoint_ms / 1000) if self.saving is not None else 0.0


class Saving:
    """A task that was asked to save itself, and waits for CHECKPOINT_FILE to be written."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.began_at = time.monotonic()
        self.before = checkpoint_stamp()
        self.record: dict[str, int] = {}

    def go_on(self, limit_s: float) -> float:
        """Do as Stopping.go_on does; return 0 when it is over."""
        if not self.record and signal_handlers(self.number):
            self.note("signalled_at_ms")
        left_s = self.began_at + limit_s - time.monotonic()
        if checkpoint_stamp() not in (self.before, None):
            self.note("saved_at_ms")
            return 0.0
        if left_s <= 0:
            self.note("over_at_ms")
            return 0.0
        return min(left_s, LOOK_AGAIN_S)

    def note(self, what: str) -> None:
        self.record[what] = now_ms()
        note(SAVING, self.record)


def checkpoint_stamp() -> tuple[int, int] | None:
    """Return a stamp that differs after each write of the file, or rename onto it: no user can set an inode's change
    time."""
    try:
        found = os.lstat(CHECKPOINT_FILE)
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns
