"""Whether this leader is late: what it has not read yet, or had to drop, is no node's silence.

Two signs. The check of leases came late: the event loop stood. Or for `quiet_s` no heartbeat was read soon after it was
sent, while some were read late, or dropped since their callers had given them up: calls wait behind each other, so
where one is read soon none waits long. One that was late alone had a slow connection, or its caller wants to deceive.

Invariant: a sign counts for `quiet_s`: by then a node whose heartbeat was lost has sent another one. While agents are
heard in time no caller makes a leader late.
"""

from __future__ import annotations

import math

from gosched.master.base.clock import Clock

LATE_S = 0.5  # of the loop, for one check
WAITED_S = 1.0  # of a heartbeat, from when it was sent to when it is read
FEW = 3  # heartbeats


class Lateness:
    """The signs, of one epoch."""

    def __init__(self, clock: Clock, *, quiet_s: float) -> None:
        self._clock = clock
        self._quiet_s = quiet_s
        self.begin()

    def begin(self) -> None:
        """Forget all signs: this master begins to lead."""
        self._in_time_at = self._clock.monotonic_s()
        self._late: dict[str, float] = {}  # agent -> what its heartbeat waited, since one was read in time
        self._dropped = 0  # calls of agents, since then
        self._late_at = -math.inf  # the newest of both
        self._sign_at, self._why = -math.inf, ""

    def read(self, agent: str, waited_s: float, *, passed_on: bool = False) -> None:
        """Note that a call of an agent was read so long after it was sent. `passed_on`: by another master, which may be
        the late one."""
        if waited_s <= WAITED_S:
            self._in_time_at = self._clock.monotonic_s()
            self._late, self._dropped = {}, 0
        elif not passed_on:
            self._late[agent] = waited_s
            self._late_at = self._clock.monotonic_s()

    def dropped(self) -> None:
        """Note that a call of an agent, as it says, was dropped: its caller had given it up, and is not known."""
        self._dropped += 1
        self._late_at = self._clock.monotonic_s()

    def check(self, stood_s: float) -> None:
        """Look at the signs; this check came `stood_s` later than planned."""
        now = self._clock.monotonic_s()
        if now - self._late_at >= self._quiet_s:
            self._late, self._dropped = {}, 0
        if stood_s > LATE_S:
            self._sign(f"its event loop stood for {stood_s:.1f} s")
        elif now - self._in_time_at < self._quiet_s:
            return
        elif self._dropped >= FEW:
            self._sign(f"{self._dropped} calls of agents were given up before it read them")
        elif len(self._late) >= FEW:
            self._sign(f"heartbeats wait {min(self._late.values()):.1f} s until it reads them")

    @property
    def why(self) -> str:
        """Return why this leader counts as late; empty: it is on time."""
        return self._why if self._clock.monotonic_s() - self._sign_at < self._quiet_s else ""

    def _sign(self, why: str) -> None:
        self._sign_at, self._why = self._clock.monotonic_s(), why
