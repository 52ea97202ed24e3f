"""The leader's belief that nodes live: when each was heard last, in memory, on the monotonic clock.

Rule: only a node's own silence counts against it, never the time that this process stood still.
"""

from __future__ import annotations

from collections.abc import Iterable

from gosched.master.clock import Clock

CHECK_S = 0.5
STALL_S = 2.0  # between two checks: this process stood still, and heartbeats wait unread


class Leases:
    def __init__(self, clock: Clock, *, timeout_s: float, first_s: float) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._first_s = first_s
        self._ends: dict[str, float] = {}
        self._heard: dict[str, float] = {}
        self._checked = clock.monotonic_s()

    def begin(self, nodes: Iterable[str]) -> None:
        """Under a new leader every living node gets a longer first term: its heartbeats have to find us."""
        now = self._checked = self._clock.monotonic_s()
        self._ends = dict.fromkeys(nodes, now + self._first_s)
        self._heard = {}

    def renew(self, node: str) -> None:
        now = self._clock.monotonic_s()
        self._heard[node] = now
        self._ends[node] = max(now + self._timeout_s, self._ends.get(node, 0.0))

    def drop(self, node: str) -> None:
        self._ends.pop(node, None)
        self._heard.pop(node, None)

    def expired(self) -> list[str]:
        """Nodes whose lease is over. Call every CHECK_S."""
        now = self._clock.monotonic_s()
        gap, self._checked = now - self._checked, now
        if gap > STALL_S:
            self._ends = {node: end + gap for node, end in self._ends.items()}
        return [node for node, end in self._ends.items() if end <= now]

    def age_ms(self, node: str) -> int:
        """Since its last heartbeat; -1 when it sent none to this leader."""
        heard = self._heard.get(node)
        return -1 if heard is None else int((self._clock.monotonic_s() - heard) * 1000)
