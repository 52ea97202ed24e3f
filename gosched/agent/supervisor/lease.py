"""Ends a task that must not run while the masters may have replaced it (`on_disconnect: stop`).

The one rule: the task has gone before the masters may count its node as dead, whether its agent lives or not.
"""

from __future__ import annotations

from gosched.agent.supervisor.records import StopOrder, boot_ms

GRACE_PARTS = 5  # at most this part of the lease is for SIGTERM
KILL_PARTS = 10  # and this one from SIGKILL until the last process is gone, with time to spare
LOOK_EVERY_S = 0.25
DISCONNECTED = "DISCONNECTED"


class Lease:
    """`path`: a file with two numbers, the end of the lease by CLOCK_BOOTTIME and its length, in milliseconds; empty:
    the task does not mind. `grace_ms`: what the job wants for SIGTERM."""

    def __init__(self, path: str, grace_ms: int) -> None:
        self.path = path
        self.grace_ms = grace_ms

    def look_again_s(self) -> float | None:
        return LOOK_EVERY_S if self.path else None

    def expired(self) -> StopOrder | None:
        """The order to stop, once it is time for it. A lease that can't be read is over."""
        if not self.path:
            return None
        until_ms, length_ms = self._read()
        grace_ms = min(self.grace_ms, length_ms // GRACE_PARTS)
        if boot_ms() < until_ms - grace_ms - length_ms // KILL_PARTS:
            return None
        detail = "the node lost the masters, and the job wants to be stopped then"
        return StopOrder(grace_ms=grace_ms, reason=DISCONNECTED, ends_as="LOST", detail=detail)

    def _read(self) -> tuple[int, int]:
        try:
            with open(self.path, encoding="ascii") as file:
                until_ms, length_ms = file.read().split()
                return int(until_ms), int(length_ms)
        except (OSError, ValueError):
            return 0, 0
