"""A wall clock that tests set forward, so that none of them waits for a time of day or races against one."""

from __future__ import annotations

import time

import pytest

from gosched.master.base.clock import StateClock, SystemClock
from gosched.master.cluster import clock_keeper
from gosched.master.jobs import schedules
from gosched.master.leader import leader

MINUTE_MS = 60_000


class Ahead:
    """The masters' clock. It stands still, in the middle of a minute, but for what the test sets it forward by; what
    is due is looked for often."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_ms = 0
        began_ms = time.time_ns() // 1_000_000 // MINUTE_MS * MINUTE_MS + MINUTE_MS // 2
        monkeypatch.setattr(SystemClock, "now_ms", lambda clock: began_ms + self.by_ms)
        monkeypatch.setattr(StateClock, "now_ms", lambda clock: clock.wall_ms())  # a jump is taken over at once
        monkeypatch.setattr(clock_keeper, "LOOK_EVERY_S", 0.02)
        monkeypatch.setattr(leader, "TIMER_CHECK_S", 0.02)
        monkeypatch.setattr(schedules, "CHECK_S", 0.02)
