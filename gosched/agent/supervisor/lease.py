"""Ends a task that must not run while the masters may have replaced it (`on_disconnect: stop`).

Invariant: SIGKILL is sent before the masters may count the task's node as dead, whether its agent lives or not, and
whatever time another order has given the task. Where the host was suspended beyond that, it is sent at once.
"""

from __future__ import annotations

import math

from gosched.agent.supervisor.records import StopOrder, boot_ms
from gosched.core.reasons import Reason

GRACE_PARTS = 5  # at most this part of the lease is for SIGTERM
KILL_PARTS = 10  # and this one from SIGKILL until the last process is gone, with time to spare
LOOK_EVERY_S = 0.25


class Lease:
    """The node's lease, as the task's supervisor reads it.

    `path`: a file with two numbers, the end of the lease by CLOCK_BOOTTIME and its length, in milliseconds; empty: the
    task goes on without the masters. `grace_ms`: what the job wants between SIGTERM and SIGKILL.
    """

    def __init__(self, path: str, grace_ms: int) -> None:
        self.path = path
        self.grace_ms = grace_ms

    def left_ms(self) -> float:
        """Return the time until the task has to be killed. A lease that cannot be read is over."""
        return math.inf if not self.path else self._kill_at_ms(*self._read()) - boot_ms()

    def expired(self) -> StopOrder | None:
        """Return the order to stop, once it is time for it: early enough for the grace, of which nothing is left where
        the supervisor could not look in time."""
        if not self.path:
            return None
        until_ms, length_ms = self._read()
        grace_ms = min(self.grace_ms, length_ms // GRACE_PARTS)
        left_ms = self._kill_at_ms(until_ms, length_ms) - boot_ms()
        if left_ms > grace_ms:
            return None
        detail = "the node lost the masters, and the job wants to be stopped then"
        return StopOrder(grace_ms=max(0, left_ms), reason=Reason.DISCONNECTED, ends_as="LOST", detail=detail)

    def _kill_at_ms(self, until_ms: int, length_ms: int) -> int:
        return until_ms - length_ms // KILL_PARTS

    def _read(self) -> tuple[int, int]:
        try:
            with open(self.path, encoding="ascii") as file:
                until_ms, length_ms = file.read().split()
                return int(until_ms), int(length_ms)
        except (OSError, ValueError):
            return 0, 0
