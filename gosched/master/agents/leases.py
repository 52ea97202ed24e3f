"""The leader's belief that nodes live: when each was heard last, in memory, on the monotonic clock.

Invariant: only a node's own silence counts against it, never the time that this process stood still; and the lease that
a node was given is over before any leader, this one or the next, counts it as dead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from gosched.master.base.clock import Clock

CHECK_S = 0.5
STALL_S = 2.0  # between two checks: this process stood still, and heartbeats wait unread


class Leases:
    def __init__(self, clock: Clock, *, timeout_s: float, first_s: float) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._first_s = max(first_s, timeout_s)  # a lease that the leader before gave may run on
        self._ends: dict[str, float] = {}
        self._heard: dict[str, float] = {}
        self._given_up: set[str] = set()
        self._awaited: set[str] = set()  # those whose agents were stopped
        self._checked = clock.monotonic_s()
        self._confirmed = -math.inf

    @property
    def timeout_ms(self) -> int:
        """Return what a node is told: how long it lives without another answer, counted from when it asked."""
        return int(self._timeout_s * 1000)

    def begin(self, nodes: Iterable[str]) -> None:
        """Give every living node a longer first lease under a new leader: its heartbeats have to find this master."""
        now = self._checked = self._clock.monotonic_s()
        self._ends = dict.fromkeys(nodes, now + self._first_s)
        self._heard = {}
        self._given_up = set()
        self._awaited = set()
        self._confirmed = -math.inf

    def confirmed(self, at_s: float) -> None:
        """Note that this master led at that moment: what it proposed then was committed."""
        self._confirmed = max(self._confirmed, at_s)

    def is_confirmed(self) -> bool:
        """Return whether it has led so lately that a lease given now ends before the first ones of a next leader."""
        return self._clock.monotonic_s() - self._confirmed < (self._first_s - self._timeout_s) / 2

    def renew(self, node: str) -> None:
        now = self._clock.monotonic_s()
        self._heard[node] = now
        self._ends[node] = max(now + self._timeout_s, self._ends.get(node, 0.0))

    def wait_for(self, node: str, wait_s: float) -> None:
        """Let the node live for so long without a heartbeat: its agent was stopped, and has promised as much to its
        tasks."""
        self._ends[node] = max(self._clock.monotonic_s() + wait_s, self._ends.get(node, 0.0))
        self._awaited.add(node)

    def is_back(self, node: str) -> None:
        """End that wait with the first heartbeat of a new registration, whose answer has set its tasks another end."""
        if node in self._awaited:
            self.drop(node)

    def drop(self, node: str) -> None:
        self._ends.pop(node, None)
        self._heard.pop(node, None)
        self._given_up.discard(node)
        self._awaited.discard(node)

    def is_given_up(self, node: str) -> bool:
        """Return whether the node is about to be counted as dead, or has been: it must be given no lease."""
        return node in self._given_up

    def expired(self) -> list[str]:
        """Return the nodes whose lease is over, which are given up until the next call. Call every CHECK_S."""
        now = self._clock.monotonic_s()
        gap, self._checked = now - self._checked, now
        if gap > STALL_S:
            self._ends = {node: end + gap for node, end in self._ends.items()}
        over = [node for node, end in self._ends.items() if end <= now]
        self._given_up = set(over)
        return over

    def age_ms(self, node: str) -> int:
        """Return the time since its last heartbeat; -1 where it sent none to this leader."""
        heard = self._heard.get(node)
        return -1 if heard is None else int((self._clock.monotonic_s() - heard) * 1000)
