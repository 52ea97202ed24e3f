"""The turns of a simulated member: when the next one is, how long one takes, and what its own clock shows meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from gosched.sim.raft.clock import Clock


class Turns:
    def __init__(self, clock: Clock, rng: Random, turn: Callable[[], None], is_up: Callable[[], bool]) -> None:
        """`turn` is called for each; afterwards a further one has to be planned."""
        self._clock = clock
        self._turn = turn
        self._is_up = is_up
        self._rate = rng.uniform(0.99, 1.01)
        self._offset = rng.uniform(0.0, 1000.0)
        self._next = 0.0  # 0: none is planned
        self._boot = 0
        #: The process stands still until then.
        self.paused_until = 0.0
        #: Seconds that the current turn has taken.
        self.lag = 0.0

    @property
    def now(self) -> float:
        """Return the simulation's time, with what the current turn has taken."""
        return self._clock.now + self.lag

    def local(self) -> float:
        """Return what the member's own clock shows."""
        return self._offset + self.now * self._rate

    def spend(self, seconds: float) -> None:
        self.lag += seconds

    def boot(self) -> None:
        """Forget the turns of the process before."""
        self._boot += 1
        self.lag = 0.0

    def cancel(self) -> None:
        self._next = 0.0

    def plan(self, delay: float) -> None:
        at = max(self._clock.now + delay, self.now)
        if at >= self._next > self._clock.now:
            return  # there is one before that
        self._next = at
        boot = self._boot

        def due() -> None:
            if not self._is_up() or self._boot != boot or self._next != at:
                return
            if self.paused_until > self._clock.now:
                self._next = 0.0
                self._clock.at(self.paused_until, self.wake)
                return
            self.lag = 0.0
            self._turn()

        self._clock.at(at, due)

    def wake(self) -> None:
        if self._is_up():
            self.plan(0.0)
