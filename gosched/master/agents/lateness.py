"""Whether this leader is late: what it has not read yet, or had to drop, is no node's silence.

Three signs: the check of leases came late, so the event loop stood; the heartbeats that were read had all waited, so
others wait behind them; or calls of agents were dropped, since their callers had given them up.

Invariant: what counts is the newest sign, and it counts for `quiet_s`: by then a node whose heartbeat was lost has sent
another one.
"""

from __future__ import annotations

import math

from gosched.master.base.clock import Clock

LATE_S = 0.5  # of the loop, for one check
WAITED_S = 1.0  # of heartbeats, from their arrival to when they are read


class Lateness:
    """The signs, of one epoch."""

    def __init__(self, clock: Clock, *, quiet_s: float) -> None:
        self._clock = clock
        self._quiet_s = quiet_s
        self._least_wait_s = math.inf  # of the heartbeats read since the last check
        self._dropped = 0  # calls of agents, since the last check
        self._sign_at = -math.inf
        self._why = ""

    def begin(self) -> None:
        """Forget all signs: this master begins to lead."""
        self._least_wait_s, self._dropped = math.inf, 0
        self._sign_at, self._why = -math.inf, ""

    def read(self, waited_s: float) -> None:
        """Note that a call of an agent was read so long after it had arrived."""
        self._least_wait_s = min(self._least_wait_s, waited_s)

    def dropped(self) -> None:
        """Note that a call of an agent was dropped: its caller had given it up."""
        self._dropped += 1

    def check(self, stood_s: float) -> None:
        """Look at the signs since the last check, which came `stood_s` later than planned."""
        waited_s, self._least_wait_s = self._least_wait_s, math.inf
        dropped, self._dropped = self._dropped, 0
        if stood_s > LATE_S:
            self._sign(f"its event loop stood for {stood_s:.1f} s")
        elif dropped:
            self._sign(f"{dropped} calls of agents were given up before it read them")
        elif WAITED_S < waited_s < math.inf:
            self._sign(f"heartbeats wait {waited_s:.1f} s until it reads them")

    @property
    def why(self) -> str:
        """Return why this leader counts as late; empty: it is on time."""
        return self._why if self._clock.monotonic_s() - self._sign_at < self._quiet_s else ""

    def _sign(self, why: str) -> None:
        self._sign_at, self._why = self._clock.monotonic_s(), why
