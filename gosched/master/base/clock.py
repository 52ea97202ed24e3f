"""The clocks of a master: the machine's own, and the state's, which goes on from what the log says.

Invariant: durations are measured on `monotonic_s`, records are stamped with the `now_ms` of the state's clock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

DOUBT_S = 60.0  # how long the wall clock of a master that hears no other clock must stay where it jumped to
FRESH_S = 15.0  # how long what was heard of another clock counts
SLOWER = 0.05  # of its pace the state's clock loses while it is ahead of the masters'
MAX_AGENTS = 16_384  # whose clocks are remembered
AGENTS_AGAIN_S = 1.0  # between two looks at all of them


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        ...

    def monotonic_s(self) -> float: ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class _Heard:
    """Another machine's wall clock, as it was heard."""

    #: Ahead of our monotonic clock, so that a step of our wall clock changes nothing.
    ahead_ms: float
    #: When it was heard, by our monotonic clock.
    at_s: float


class StateClock:
    """A `Clock` that follows a majority of the masters' wall clocks, and goes on by itself while there is none.

    The masters' own clocks decide; where they do not agree, or only one is heard, what the agents say together counts
    as one voice more.

    Invariant: `now_ms` never goes back, and is never behind the state's clock, except after it was set back.
    """

    def __init__(self, wall: Clock, *, masters: int, bound_ms: int) -> None:
        self._wall = wall
        #: How many the cluster has; set anew when that changes.
        self.masters = masters
        self._bound_ms = bound_ms  # clocks that differ by no more agree
        self._others: dict[str, _Heard] = {}
        self._agents: dict[str, _Heard] = {}
        self._agents_ms: tuple[float, float | None] = (-AGENTS_AGAIN_S, None)  # when they were looked at; their median
        self._time_ms = 0.0  # 0: no command was applied yet
        self._at_s = 0.0  # when it was so
        self._applied_ms = 0  # the state's clock
        self._doubted: _Heard | None = None  # our own wall clock, since it jumped
        self._held = False

    def monotonic_s(self) -> float:
        return self._wall.monotonic_s()

    def wall_ms(self) -> int:
        return self._wall.now_ms()

    def now_ms(self) -> int:
        """Time by the state's clock. Before the first command it is the wall clock's."""
        now_s = self._wall.monotonic_s()
        if not self._time_ms:
            return self._wall.now_ms()
        aim_ms = self._aim_ms(now_s)
        passed_ms = (now_s - self._at_s) * 1000
        self._time_ms += passed_ms
        if aim_ms is not None and aim_ms > self._time_ms:
            self._time_ms = aim_ms
        elif aim_ms is not None:
            self._time_ms -= min(passed_ms * SLOWER, self._time_ms - aim_ms)
        self._at_s = now_s
        return int(self._time_ms)

    def applied(self, clock_ms: int) -> None:
        """Take over the state's clock after a batch was applied."""
        now_s = self._wall.monotonic_s()
        was_set_back = clock_ms < self._applied_ms
        self._applied_ms = clock_ms
        if not self._held and (was_set_back or clock_ms > self._time_ms + (now_s - self._at_s) * 1000):
            self._time_ms, self._at_s = float(clock_ms), now_s

    def hold(self, to_ms: int) -> None:
        """Stamp by this time from now on, whatever is still applied: the command that sets the clock back is on its
        way, and what is proposed after it must not carry the old time."""
        self._held = True
        self._time_ms, self._at_s = float(to_ms), self._wall.monotonic_s()

    def release(self) -> None:
        """End the hold: the command was applied or failed, and the state's clock says which."""
        self._held = False
        self.applied(self._applied_ms)

    def heard_master(self, master: str, clock_ms: float) -> None:
        now_s = self._wall.monotonic_s()
        self._others[master] = _Heard(clock_ms - now_s * 1000, now_s)

    def heard_agent(self, node: str, clock_ms: int) -> None:
        """Remember an agent's clock; 0: it did not tell it."""
        if clock_ms:
            now_s = self._wall.monotonic_s()
            self._agents.pop(node, None)
            self._agents[node] = _Heard(clock_ms - now_s * 1000, now_s)
            if len(self._agents) > MAX_AGENTS:
                del self._agents[next(iter(self._agents))]

    def agreed_ms(self) -> int | None:
        """Return the wall clock of the majority; None: there is no majority."""
        aim_ms = self._aim_ms(self._wall.monotonic_s())
        return None if aim_ms is None else int(aim_ms)

    def masters_ms(self, me: str) -> Mapping[str, int]:
        """Return the wall clock of each master that was heard lately, and our own."""
        now_s = self._wall.monotonic_s()
        heard = {m: int(h.ahead_ms + now_s * 1000) for m, h in self._others.items() if now_s - h.at_s < FRESH_S}
        return {**heard, me: self._wall.now_ms()}

    def _aim_ms(self, now_s: float) -> float | None:
        own_ms = self._wall.now_ms() - now_s * 1000
        voices = [own_ms, *(h.ahead_ms for h in self._others.values() if now_s - h.at_s < FRESH_S)]
        if len(voices) > 1 or self._is_undoubted(own_ms, now_s):
            agreed = self._majority(voices)
            if agreed is not None:
                self._doubted = None
                return agreed + now_s * 1000
        agents_ms = self._median_of_agents(now_s)
        if agents_ms is not None:
            agreed = self._majority([*voices, agents_ms])
        elif len(voices) == 1:
            is_behind = self.masters == 1 and own_ms + self._at_s * 1000 < self._time_ms  # it moves nothing
            agreed = own_ms if is_behind or self._stayed(own_ms, now_s) else None
        else:
            agreed = None
        return None if agreed is None else agreed + now_s * 1000

    def _majority(self, voices: Sequence[float]) -> float | None:
        """Return the lower median of those that agree: a clock that is behind does no harm, one ahead fires what is not
        due."""
        ordered = sorted(voices)
        best: list[float] = []
        for low in ordered:
            together = [voice for voice in ordered if low <= voice <= low + self._bound_ms]
            best = together if len(together) > len(best) else best
        if len(best) * 2 <= len(voices) or len(best) < self.masters // 2 + 1:
            return None
        return best[(len(best) - 1) // 2]

    def _median_of_agents(self, now_s: float) -> float | None:
        looked_s, median = self._agents_ms
        if now_s - looked_s >= AGENTS_AGAIN_S:
            heard = sorted(heard.ahead_ms for heard in self._agents.values() if now_s - heard.at_s < FRESH_S)
            median = heard[(len(heard) - 1) // 2] if heard else None
            self._agents_ms = (now_s, median)
        return median

    def _is_undoubted(self, own_ms: float, now_s: float) -> bool:
        """Return whether the only master's wall clock stands where the state's clock expects it."""
        return self.masters == 1 and abs(own_ms + self._at_s * 1000 - self._time_ms) <= self._bound_ms

    def _stayed(self, own_ms: float, now_s: float) -> bool:
        """Return whether our wall clock has not moved against the monotonic one for a while, and no other contradicts
        it."""
        if self._doubted is None or abs(own_ms - self._doubted.ahead_ms) > self._bound_ms:
            self._doubted = _Heard(own_ms, now_s)
        return now_s - self._doubted.at_s >= DOUBT_S


def utc(at_ms: int) -> str:
    """Return a moment for people, in seconds: 2026-12-01T06:00:00Z."""
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
